"""What the CleanRL form checks; it lives in ``gym_gui/ui/workers/cleanrl``."""

from gym_gui.ui.workers.cleanrl.checks import (
    place_checkpoints,
    proxy_fallback,
    run_cleanrl_dry_run,
    script_problems,
)

__all__ = ["place_checkpoints", "proxy_fallback", "run_cleanrl_dry_run", "script_problems"]
