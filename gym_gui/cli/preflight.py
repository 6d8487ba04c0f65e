"""Asking a worker whether it could run a config, before anything is submitted: its own ``--dry-run``."""

from __future__ import annotations

from typing import Any

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_plan import RunPlan
from gym_gui.services.worker_tools import ToolFailedError, ToolMissingError, ToolRefusedError
from mosaic_protocol.paths import MosaicPaths


def check_with_worker(plan: RunPlan, paths: MosaicPaths) -> dict[str, Any] | None:
    """The worker's summary of what would run; None for a worker that cannot tell.

    Raises :class:`CliError`: REFUSED with the worker's own sentence, FAILED when it could not be asked.
    """
    from gym_gui.services.worker_queries import WorkerQueries

    try:
        return WorkerQueries(paths).dry_run(plan.manifest.type, plan.config)
    except ToolRefusedError as error:
        facts = {"excerpt": list(error.excerpt)} if error.excerpt else {}
        raise CliError(str(error), ExitCode.REFUSED, **facts) from error
    except ToolMissingError as error:  # the run would lack it as well
        raise CliError(str(error), ExitCode.FAILED) from error
    except ToolFailedError as error:
        raise CliError(f"{error}; --no-preflight skips this check", ExitCode.FAILED) from error
