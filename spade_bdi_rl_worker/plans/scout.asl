// A scout explores ahead and tells the others what it learned: every fifty episodes its values, by message.

!scout.

@scout
+!scout <- !!round.

@round
+!round <- .run_episodes(explore, 50); .q_values(Q); .send(learner, tell, q_values(Q)); !!round.
