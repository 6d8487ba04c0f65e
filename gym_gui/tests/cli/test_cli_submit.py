"""`mosaic submit`: what was written down starts again, and what cannot run is refused before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, toy_config


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(toy_config(name="written down", total_timesteps=5)))
    return path


def changed(file: Path, path: str, value: Any) -> None:
    """Set one field of the config, named by its path."""
    config = json.loads(file.read_text())
    *parents, last = path.split(".")
    place = config
    for name in parents:
        place = place[name]
    place[last] = value
    file.write_text(json.dumps(config))


def test_the_config_of_a_run_starts_the_same_run_again(mosaic: CommandLine, file: Path, tmp_path: Path) -> None:
    first = mosaic("submit", str(file))
    assert first.code == 0 and "completed" in first.out
    printed = mosaic("show", "last", "--config")
    again = tmp_path / "again.json"
    again.write_text(printed.out)
    second = mosaic("submit", str(again), "--json")
    assert second.code == 0
    assert (second.json["name"], second.json["outcome"], second.json["last_step"]) == ("written down", "completed", 5)
    assert second.json["config"] == printed.json
    assert mosaic("runs", "--json").json["total"] == 2


def test_a_config_is_read_from_standard_input_and_the_run_left_to_itself(
    mosaic: CommandLine, daemon: DaemonProcess, file: Path
) -> None:
    with file.open("rb") as config:
        process = mosaic.process("submit", "-", "--detach", "--json", stdin=config)
    out, err = process.communicate(timeout=HANG_GUARD)
    assert process.returncode == 0, err
    assert daemon.wait_over(json.loads(out)["run_id"]).outcome == "completed"


def test_a_dry_run_starts_nothing(mosaic: CommandLine, file: Path) -> None:
    assert "Nothing was started" in mosaic("submit", str(file), "--dry-run").out
    assert mosaic("runs", "--json").json["total"] == 0


def test_a_dry_run_says_what_this_machine_has_too_little_of(mosaic: CommandLine, file: Path) -> None:
    changed(file, "resources", {"cpus": {"requested": 9}})
    refused = mosaic("submit", str(file), "--dry-run")
    assert (refused.code, refused.out) == (2, "")
    assert "it asks for 9 CPUs where there are 8" in refused.err
    mosaic("daemon", "stop")  # a dry run starts none: what it would have to give is known all the same
    changed(file, "resources", {"gpus": {"requested": 999, "mandatory": 999}})
    assert "999 GPUs where there are" in mosaic("submit", str(file), "--dry-run").err
    assert mosaic("daemon", "status").code == 4
    changed(file, "resources", {"cpus": {"requested": 8}})
    assert mosaic("submit", str(file), "--dry-run").code == 0


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("resources.cpu", 3, "resources.cpu: is not a known field; did you mean 'cpus'?"),
        ("metadata.worker.type", "toyy", "is not an installed worker; did you mean 'toy'?"),
        ("metadata.worker.module", "os", "metadata.worker.module: must be"),
        ("metadata.worker.config", {"api_key": "k"}, "looks like a secret"),
    ],
)
def test_what_cannot_run_is_refused_with_its_file_and_field(
    mosaic: CommandLine, file: Path, path: str, value: Any, sentence: str
) -> None:
    changed(file, path, value)
    answer = mosaic("submit", str(file))
    assert answer.code == 2
    assert answer.err.startswith(f"mosaic: {file}: ") and sentence in answer.err
    assert mosaic("runs", "--json").json["total"] == 0


def test_a_file_that_is_no_config_is_refused_with_a_sentence(mosaic: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not json")
    assert "is not JSON" in mosaic("submit", str(tmp_path / "notes.txt")).err
    absent = mosaic("submit", str(tmp_path / "absent.json"))
    assert absent.code == 2 and absent.err == f"mosaic: there is no file {tmp_path / 'absent.json'}\n"


def test_no_more_of_a_file_is_read_than_a_config_may_have(tmp_path: Path) -> None:
    answer = CommandLine(tmp_path)("submit", "/dev/zero")  # has no end
    assert answer.code == 2
    assert answer.err == "mosaic: /dev/zero is too long for a run config: at most 262144 bytes are allowed\n"


def test_several_problems_are_one_line_and_a_printed_run_is_not_taken_for_its_config(
    mosaic: CommandLine, file: Path
) -> None:
    changed(file, "resources.cpu", 3)
    changed(file, "schedul", {})
    answer = mosaic("submit", str(file))
    assert answer.code == 2 and answer.err.count("\n") == 1
    assert "resources.cpu: is not a known field; did you mean 'cpus'? (got 3); schedul: is not" in answer.err
    file.write_text(json.dumps({"run_id": "x", "config": {}, "state": "TERM"}))
    answer = mosaic("submit", str(file))
    sentence = "this is what `mosaic show --json` prints; `mosaic show RUN --config` prints what can be submitted"
    assert (answer.code, answer.err) == (2, f"mosaic: {file}: {sentence}\n")
