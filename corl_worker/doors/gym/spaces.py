"""The spaces are gymnasium's own."""

from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

__all__ = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Space", "Tuple"]
