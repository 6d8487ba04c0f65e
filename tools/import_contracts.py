"""Write the import rules into ``pyproject.toml``, for every worker; with ``--check``, say whether they are fresh.

A worker is a folder with a ``worker.toml``. import-linter wants the names spelled out, so a worker that nobody added to
them would be held to nothing. Here they are found, and ``make check`` fails until they are written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROJECT = Path("pyproject.toml")
BEGIN = "# ---- import rules: written by tools/import_contracts.py, which finds the workers; change them there ----\n"
END = "# ---- end of the import rules ----\n"

PRODUCT = ["mosaic_protocol", "mosaic_host", "mosaic_worker", "gym_gui"]
"""The packages that are no worker."""
_GPL_WORKER = "spade_bdi_rl_worker"
_DAEMON = ["gym_gui", "mosaic_host"]
_DECIDING = ["orchestrator", "recovery", "clearing", "lifecycle", "housekeeping", "timekeeper"]
_PROCESSES = ["mosaic_host.agent", "mosaic_host.process_sweep", "mosaic_host.warm_pool"]


class ContractsError(Exception):
    """The rules cannot be written or are stale; the text says what to do."""


def workers_of(root: Path) -> list[str]:
    """The packages of the tree that are workers."""
    return sorted(file.parent.name for file in root.glob("*/worker.toml"))


def contracts(workers: Sequence[str]) -> list[dict[str, Any]]:
    """The rules, each as import-linter's table."""
    heavy = ["PyQt6", "PySide6", "torch", "gymnasium"]
    found = [
        forbidden(
            "The protocol, the daemon and the command line stay free of Qt, torch and gymnasium",
            ["mosaic_protocol", "mosaic_host", "gym_gui.services", "gym_gui.cli"],
            heavy,
        ),
        forbidden(
            "The cockpit stays light: everything heavy happens in workers",
            ["gym_gui.ui"],
            ["torch", "gymnasium", "matplotlib", "tensorboard", "mosaic_worker", *workers],
        ),
        forbidden(
            "The protocol imports neither the product nor a worker",
            ["mosaic_protocol"],
            ["gym_gui", "mosaic_host", "mosaic_worker", *workers],
        ),
        forbidden("Neither the kit nor a worker ever imports gym_gui", ["mosaic_worker", *workers], _DAEMON),
        forbidden(
            "The services and the daemon among them import no worker; workers are processes",
            ["gym_gui.services"],
            ["mosaic_worker", *workers],
        ),
        {
            **forbidden(
                "The host agent imports the protocol alone: it also runs where no daemon is installed",
                ["mosaic_host"],
                ["gym_gui", "mosaic_worker", *workers, "grpc", "pydantic"],
            ),
            # For type checkers alone.
            "ignore_imports": ["mosaic_protocol.worker_packages -> mosaic_protocol.worker_manifest"],
            "unmatched_ignore_imports_alerting": "none",
        },
        {
            **forbidden(
                "Where a worker runs is the executor's business: the runs' room looks at no process and no claim",
                [f"gym_gui.services.trainer.runs.{name}" for name in _DECIDING],
                ["mosaic_protocol.claims", "mosaic_protocol.process_identity", *_PROCESSES],
            ),
            "allow_indirect_imports": True,
        },
        forbidden("The kit knows no worker", ["mosaic_worker"], list(workers)),
        forbidden(
            "agentspeak is under the GPL: nothing but the worker that is built on it imports it",
            [*PRODUCT, *(worker for worker in workers if worker != _GPL_WORKER)],
            ["agentspeak", "spade_bdi"],
        ),
        {
            "name": "Services know nothing of the surfaces built on them",
            "type": "layers",
            "containers": ["gym_gui"],
            "layers": ["(ui) | cli", "services"],
        },
        forbidden("The states import no other module of MOSAIC", ["mosaic_protocol.states"], ["mosaic_protocol.*"]),
    ]
    if len(workers) > 1:
        found.append({"name": "No worker imports another", "type": "independence", "modules": list(workers)})
    return found


def forbidden(name: str, sources: list[str], targets: list[str]) -> dict[str, Any]:
    return {"name": name, "type": "forbidden", "source_modules": sources, "forbidden_modules": targets}


def section(workers: Sequence[str]) -> str:
    """The text between the two marks, marks included."""
    tables = ["[tool.importlinter]\n" + _lines({"root_packages": [*PRODUCT, *workers]})]
    tables[0] += "include_external_packages = true\n"
    tables += ["[[tool.importlinter.contracts]]\n" + _lines(contract) for contract in contracts(workers)]
    return BEGIN + "\n".join(tables) + END


def _lines(table: dict[str, Any]) -> str:
    # A list of plain texts is the same in JSON and in TOML.
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def with_section(text: str, workers: Sequence[str]) -> str:
    """The project file with fresh rules. Raises ContractsError when the marks are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ContractsError(f"{PROJECT} has no section between these lines:\n{BEGIN}{END}")
    return before + section(workers) + after


def write(root: Path) -> None:
    file = root / PROJECT
    file.write_text(with_section(file.read_text(encoding="utf-8"), workers_of(root)), encoding="utf-8")


def check(root: Path) -> None:
    """Raises ContractsError when a worker came or went since the rules were written."""
    text = (root / PROJECT).read_text(encoding="utf-8")
    if text != with_section(text, workers_of(root)):
        raise ContractsError(f"The import rules in {PROJECT} are stale: run `python tools/import_contracts.py`.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the rules are stale")
    try:
        check(ROOT) if parser.parse_args().check else write(ROOT)
    except ContractsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
