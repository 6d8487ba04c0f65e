"""A command that is killed while it makes a dataset, a film or a recorded evaluation: nothing half-made is taken for
whole, no process of it is left, and the same command again makes all of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from pyarrow import parquet

from cleanrl_worker.tests.policy_tools import new_checkpoint
from gym_gui.services.checkpoints.evaluations import kept
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.datasets import DatasetRegistry
from gym_gui.tests.faults.test_play import FAULTY
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from gym_gui.tests.support.live_sessions import submit_session
from gym_gui.tests.support.made_checkpoints import RUN_B, write_run
from gym_gui.tests.support.marked_processes import command_of, processes_using
from mosaic_protocol.paths import MosaicPaths

LENGTH = 400
KILLS = pytest.mark.parametrize("kills", [pytest.param(1), pytest.param(10, marks=pytest.mark.nightly)])


@pytest.fixture
def recorded(daemon: DaemonProcess) -> str:
    """A run with one episode, of an environment that takes its time when it is simulated again."""
    kwargs = {"length": LENGTH, "step_seconds": 0.004}
    run_id = submit_session(daemon, FAULTY, actor="random", speed=0, episodes=1, env_kwargs=kwargs)
    assert daemon.wait_over(run_id).outcome == "completed"
    return run_id


def killed(mosaic: CommandLine, has_begun: Callable[[], object], chance: random.Random, *words: str) -> None:
    """Start a command and kill it in the middle; nothing that it started goes on."""
    home = Path(mosaic.environment["MOSAIC_HOME"])
    before = set(processes_using(home))
    command = mosaic.process(*words)

    def begun() -> object:
        assert command.poll() is None, command.communicate()
        return has_begun()

    wait_for(f"{words} to begin", begun)
    time.sleep(chance.random() * 0.5)  # the instant itself
    assert command.poll() is None, "it was too quick to be killed"
    command.kill()
    command.communicate(timeout=HANG_GUARD)
    others = lambda: [pid for pid in processes_using(home) if pid not in before]  # noqa: E731
    wait_for(f"{[command_of(pid) for pid in others()]} to end", lambda: not others())


@KILLS
def test_a_dataset_of_a_killed_command_is_not_there_and_can_be_made(
    daemon: DaemonProcess, recorded: str, kills: int
) -> None:
    mosaic, folder = CommandLine(daemon.paths.root, daemon.env), daemon.paths.datasets
    chance = random.Random(kills)
    for _ in range(kills):
        draft = lambda: list(folder.glob(".demo.*"))  # noqa: E731
        killed(mosaic, draft, chance, "datasets", "from-run", recorded, "demo")
        assert mosaic("datasets", "list", "--json").json["datasets"] == []
    assert mosaic("datasets", "from-run", recorded, "demo").code == 0
    (entry,) = DatasetRegistry(daemon.paths).list()
    assert not entry.problem and not entry.integrity() and entry.manifest.steps == LENGTH
    assert [path.name for path in folder.iterdir()] == ["demo"], "what was begun is cleared away"


@KILLS
def test_a_film_of_a_killed_command_is_not_there_and_can_be_made(
    daemon: DaemonProcess, recorded: str, tmp_path: Path, kills: int
) -> None:
    mosaic, film = CommandLine(daemon.paths.root, daemon.env), tmp_path / "films" / "episode.mp4"
    film.parent.mkdir()
    mosaic.environment["TMPDIR"] = str(tmp_path / "small")
    (tmp_path / "small").mkdir()
    chance, words = random.Random(kills), ("replay", recorded, "--episode", "0", "--export", str(film))
    for _ in range(kills):
        killed(mosaic, lambda: list(film.parent.iterdir()), chance, *words)
        assert not film.exists()
    command = mosaic.process(*words)
    out, err = command.communicate(timeout=HANG_GUARD)
    assert command.returncode == 0, err
    assert f"verified {LENGTH}/{LENGTH} steps" in out.decode()
    with av.open(str(film)) as container:
        assert sum(1 for _ in container.decode(video=0)) == LENGTH + 1
    assert [path.name for path in film.parent.iterdir()] == [film.name], "what was begun is cleared away"
    assert not list((tmp_path / "small").iterdir()), "copies of steps are cleared away"


@KILLS
def test_a_recorded_evaluation_of_a_killed_command_is_none_and_can_be_made(tmp_path: Path, kills: int) -> None:
    paths = MosaicPaths(tmp_path / "home")
    write_run(paths, RUN_B, "actor")
    new_checkpoint(paths.run(RUN_B).checkpoints, "dqn")
    mosaic, folder = CommandLine(paths.root), paths.run(RUN_B).evaluations
    chance, entry = random.Random(kills), TrainingRegistry(paths).find("actor")
    for number in range(kills):
        begun = lambda number=number: len(list(folder.glob("*/*/recording.json"))) > number  # noqa: E731
        killed(mosaic, begun, chance, "eval", "actor", "--episodes", "5000", "--record")
        assert kept(entry) == []
    result = mosaic("eval", "actor", "--episodes", "2", "--deterministic", "--record", "--json").json
    (listed,) = kept(entry)
    assert listed["recordings"] == result["recordings"] and result["complete"]
    replayed = mosaic("replay", listed["recordings"]["deterministic"], "--episode", "1", "--json").json
    assert replayed["verified"] == replayed["steps"] > 0


@KILLS
def test_a_table_of_a_killed_command_is_not_there_and_can_be_made(
    daemon: DaemonProcess, tmp_path: Path, kills: int
) -> None:
    kwargs = {"length": 1000}
    run_id = submit_session(daemon, FAULTY, actor="random", speed=0, episodes=60, env_kwargs=kwargs)
    assert daemon.wait_over(run_id).outcome == "completed"
    mosaic, table = CommandLine(daemon.paths.root, daemon.env), tmp_path / "tables" / "steps.parquet"
    table.parent.mkdir()
    chance, words = random.Random(kills), ("steps", run_id, "--parquet", str(table))
    for _ in range(kills):
        killed(mosaic, lambda: list(table.parent.iterdir()), chance, *words)
        assert not table.exists()
    assert mosaic(*words).code == 0
    assert parquet.read_table(table, columns=["step"])["step"].to_pylist() == list(range(60_000))
    assert [path.name for path in table.parent.iterdir()] == [table.name], "what was begun is cleared away"
