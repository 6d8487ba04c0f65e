"""Live sessions: one environment with a seat that a person, a policy, a script or chance takes and hands over."""
