// The plans of an agent that learns a task and then relies on what it learned.
//
// Explore, exploit once the table's promises come true, cache the policy at a confidence of 0.60, reuse it, look at it
// again now and then, repair it when it fails. One intention runs one episode; the goal is posted again with !!, so that
// the agent comes to rest between two episodes and can be stopped and resumed exactly there.

!learn.

// Recorded steps of somebody else filled the table: try what they teach before exploring.
@try_seed
+!learn : seeded(Steps) <- .run_episodes(exploit, 20); !!episode.

@learn
+!learn <- !!episode.

@repair
+!episode : policy(failing) <- .drop_policy; .run_episodes(repair, 20); !!episode.

@renew
+!episode : policy(old) <- .run_episodes(exploit, 20); .cache_policy; !!episode.

@reuse
+!episode : policy(cached) <- .run_episode(cached); !!episode.

@cache
+!episode : confidence(C) & C >= 0.6 <- .cache_policy; .run_episode(cached); !!episode.

@exploit
+!episode : confidence(C) & C >= 0.3 <- .run_episode(exploit); !!episode.

@explore
+!episode <- .run_episode(explore); !!episode.

// A person, or another agent, may say that the ground is slippery: then explore for longer, and learn slower.
@caution
+slippery <- .strategy(exploration, 0.8); .strategy(alpha, 0.2).

@boldness
-slippery <- .strategy(exploration, auto); .strategy(alpha, auto).
