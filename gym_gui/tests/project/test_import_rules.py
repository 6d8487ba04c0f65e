"""What each part may import: checked in a fresh process, where nothing else has been imported before."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mosaic_protocol
from tools import import_contracts

ROOT = Path(mosaic_protocol.__file__).resolve().parents[1]
HEAVY = {"PyQt6", "PySide6", "torch", "gymnasium", "numpy", "tensorboard", "tyro", "h5py", "yaml"}
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


# ---- the rules of import-linter follow the workers that there are ----------------------------------------------------

OFFENCES = {
    "new_worker/cli.py": "import gym_gui.services",
    "mosaic_worker/kit.py": "import new_worker.cli",
    "gym_gui/services/daemon.py": "import new_worker.cli",
    "gym_gui/ui/window.py": "import new_worker.cli",
    "mosaic_protocol/states.py": "import new_worker.cli",
    "cleanrl_worker/cli.py": "import new_worker.cli",
}


def modules_that_rules_name() -> set[str]:
    """Modules below the packages, as far as a rule is about them alone."""
    rules = import_contracts.contracts(["cleanrl_worker"])
    named = [[*rule.get("source_modules", []), *rule.get("forbidden_modules", [])] for rule in rules]
    return {module for modules in named for module in modules if "." in module and not module.endswith("*")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the packages of this one, empty, and with a worker that nobody has heard of."""
    folders = ("mosaic_protocol", "mosaic_worker", "cleanrl_worker", "gym_gui", "new_worker")
    for folder in (*folders, "gym_gui/services", "gym_gui/ui", "gym_gui/cli"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    for worker in ("cleanrl_worker", "new_worker"):
        (tmp_path / worker / "worker.toml").touch()
    for module in modules_that_rules_name() - {"gym_gui.services", "gym_gui.ui", "gym_gui.cli"}:
        named = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
        for above in reversed(named.relative_to(tmp_path).parents[:-1]):
            (tmp_path / above).mkdir(exist_ok=True)
            (tmp_path / above / "__init__.py").touch()
        named.touch()
    for file in OFFENCES:
        (tmp_path / file).touch()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


def test_the_rules_are_those_for_the_workers_of_this_tree() -> None:
    import_contracts.check(ROOT)


def test_a_worker_that_nobody_has_heard_of_makes_the_rules_stale(tree: Path) -> None:
    with pytest.raises(import_contracts.ContractsError, match=r"run `python tools/import_contracts\.py`"):
        import_contracts.check(tree)
    import_contracts.write(tree)
    import_contracts.check(tree)


def test_a_new_worker_is_held_to_every_rule(tree: Path) -> None:
    import_contracts.write(tree)
    assert broken_rules(tree) == 0
    for file, offence in OFFENCES.items():
        (tree / file).write_text(offence)
        assert broken_rules(tree) >= 1, file
        (tree / file).write_text("")


def broken_rules(tree: Path) -> int:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-logo", "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    found = re.search(r"(\d+) kept, (\d+) broken", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return int(found[2])


@pytest.mark.parametrize("folder", ["examples", "mosaic_worker"])
def test_neither_an_example_nor_a_test_of_the_kit_imports_the_product_or_a_worker(folder: str) -> None:
    """The linter looks at packages alone; folders of tests and examples are none."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = {str(file.relative_to(ROOT)): packages_named_in(file) & {"gym_gui", *WORKERS} for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def packages_named_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


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


def test_the_protocol_imports_neither_product_nor_worker() -> None:
    assert imported_by(*modules_below("mosaic_protocol")) & ({"gym_gui"} | HEAVY | WORKERS) == set()


def test_the_host_agent_imports_of_mosaic_only_the_protocol() -> None:
    found = imported_by("mosaic_host.__main__", *modules_below("mosaic_host"))
    assert found & ({"gym_gui", "mosaic_worker", "grpc", "pydantic"} | HEAVY | WORKERS) == set()


def test_the_states_import_no_other_module() -> None:
    probe = "import sys, mosaic_protocol.states; print([m for m in sys.modules if m.startswith('mosaic_protocol.')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['mosaic_protocol.states']"


def test_the_fork_server_starts_without_grpc() -> None:
    """A process that is forked must not have gRPC's threads, and what it imports decides how fast it starts."""
    assert imported_by("mosaic_protocol.fork_server") & {"grpc", "msgspec", "pydantic", "asyncio"} == set()
