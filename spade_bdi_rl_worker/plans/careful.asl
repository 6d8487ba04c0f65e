// Goals with limits, and recovery when they are not met.
//
// The agent first tries to become sure of itself within 300 episodes. Where that fails it explores more boldly for a
// while, and tries again.

sure :- confidence(C) & C >= 0.6.

!learn.

@learn
+!learn <- !become_sure[within(300)]; !!next.

@practise
+!become_sure <- while (not sure) { .run_episode(explore) }; .cache_policy.

@bolder
-!become_sure <- .strategy(epsilon, 0.5); .run_episodes(explore, 100); .strategy(epsilon, auto).

@rely
+!next : policy(cached) <- !!work.

// Posted with !!, not pursued with ! by the plan above: that would be one goal deeper with each attempt.
@again
+!next <- !!learn.

@work
+!work : policy(cached) & not policy(failing) <- .run_episode(cached); !!work.

@relearn
+!work <- .drop_policy; .run_episodes(repair, 20); !!learn.
