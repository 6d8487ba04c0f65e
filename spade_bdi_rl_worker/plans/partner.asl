// A learner that also takes in what other agents learned. With `--agents scout=scout,learner=partner` a scout explores
// ahead of it.

{ include("learner.asl") }

@take_over
+q_values(Q)[source(Peer)] <- .merge_q_values(Q); -q_values(Q)[source(Peer)]; +heard_from(Peer).
