"""Pages about algorithms, by worker. Each worker keeps its own in its folder below ``gym_gui/ui/workers``."""
