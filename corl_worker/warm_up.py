"""What the fork server of this worker does once; :mod:`mosaic_worker.warm_up` has what every worker shares."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic_worker.warm_up import after_fork, import_modules, use_for_the_first_time

__all__ = ["after_fork", "warm_up"]


@dataclass
class _ThrowAway:
    number: int = 1
    perhaps: float | None = None


def warm_up() -> None:
    """Imports, then one throw-away command line, model, optimiser step and environment."""
    import tyro

    import_modules("corl_worker", left_out=("cli", "warm_up"))
    tyro.cli(_ThrowAway, args=["--number", "2"])
    use_for_the_first_time()
