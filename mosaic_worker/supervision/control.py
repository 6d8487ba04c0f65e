"""The environment variables by which a supervisor tells its script where it is. Imports nothing."""

from __future__ import annotations

CONTROL_FD_VARIABLE = "MOSAIC_SCRIPT_CONTROL_FD"
"""Number of the descriptor that the control socket has in the script's process."""
RUN_DIR_VARIABLE = "MOSAIC_RUN_DIR"
TENSORBOARD_DIR_VARIABLE = "MOSAIC_TENSORBOARD_DIR"
TENSORBOARD_VARIABLE = "MOSAIC_TENSORBOARD"
"""``0`` turns TensorBoard files off."""
CHECKPOINTS_VARIABLE = "MOSAIC_CHECKPOINTS"
"""``0`` turns checkpoints off."""
SCRIPT_PYTHON_VARIABLE = "MOSAIC_SCRIPT_PYTHON"
"""The interpreter that a script runs in when it is not the worker's own."""
