"""What each part may import: checked in a fresh process, where nothing else has been imported before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mosaic_protocol

ROOT = Path(mosaic_protocol.__file__).resolve().parents[1]
HEAVY = {"PyQt6", "PySide6", "torch", "gymnasium", "numpy", "tensorboard", "tyro"}
WORKERS = {path.parent.name for path in ROOT.glob("*/worker.toml")}

_PROBE = """
import importlib, json, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def imported_by(*modules: str) -> set[str]:
    """The top-level packages in memory after importing these modules."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *modules], capture_output=True, text=True, check=False, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def modules_below(package: str) -> list[str]:
    folder = ROOT / package.replace(".", "/")
    return sorted(f"{package}.{path.stem}" for path in folder.glob("*.py") if not path.stem.startswith("__"))


def test_there_is_a_worker_to_keep_apart() -> None:
    assert "cleanrl_worker" in WORKERS


@pytest.mark.parametrize(
    "module",
    [
        "gym_gui.services.trainer.__main__",
        "gym_gui.services.trainer.daemon",
        "gym_gui.services.trainer.client",
        "gym_gui.cli.main",
    ],
)
def test_daemon_client_and_command_line_import_neither_qt_nor_torch_nor_a_worker(module: str) -> None:
    found = imported_by(module)
    assert found & (HEAVY | WORKERS) == set()


def test_the_client_does_not_bring_the_daemon_with_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, gym_gui.services.trainer.client; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=ROOT,
    )
    daemon_only = {"daemon", "orchestrator", "service", "recovery", "run_registry", "store"}
    assert daemon_only & {name.rpartition(".")[2] for name in done.stdout.split() if "trainer." in name} == set()


def test_the_protocol_imports_nothing_of_ours() -> None:
    assert imported_by(*modules_below("mosaic_protocol")) & ({"gym_gui"} | HEAVY | WORKERS) == set()


def test_the_states_import_nothing_of_ours() -> None:
    probe = "import sys, mosaic_protocol.states; print([m for m in sys.modules if m.startswith('mosaic_protocol.')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['mosaic_protocol.states']"


def test_the_fork_server_starts_without_grpc() -> None:
    """A process that is forked must not have gRPC's threads, and what it imports decides how fast it starts."""
    assert imported_by("mosaic_protocol.fork_server") & {"grpc", "msgspec", "pydantic", "asyncio"} == set()
