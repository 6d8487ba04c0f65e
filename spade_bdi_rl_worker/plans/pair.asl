// An agent that learns together with the others of its run: `--agents left=pair,right=pair`. After every twenty episodes it
// says what it learned, and it takes over what the others say, by how much experience either has. Alone it learns alone.

!learn.

@learn
+!learn <- !!round.

@round
+!round <- .run_episodes(explore, 20); .q_values(Q); .broadcast(tell, q_values(Q)); !!round.

@take_over
+q_values(Q)[source(Peer)] <- .merge_q_values(Q); -q_values(Q)[source(Peer)]; +heard_from(Peer).
