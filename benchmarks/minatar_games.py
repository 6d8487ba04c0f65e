"""Registers MinAtar's games on import, for ids such as ``benchmarks.minatar_games:MinAtar/Breakout-v1``."""

from __future__ import annotations

import logging

logging.disable(logging.WARNING)  # it warns of pictures that cannot be drawn, which nobody asks for here
import minatar.gym  # noqa: E402

logging.disable(logging.NOTSET)

minatar.gym.register_envs()
