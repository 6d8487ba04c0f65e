"""``python -m cleanrl_worker.cli``: checks without starting anything, refuses in one line, supervises by hand."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cleanrl_worker.cli import main

SCRIPTS = Path(__file__).parents[2] / "mosaic_worker" / "tests" / "sample_scripts"
COMMAND = [sys.executable, "-m", "cleanrl_worker.cli"]
HANG_GUARD = 60.0


def ask(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command as a person types it."""
    return subprocess.run(
        [*COMMAND, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=HANG_GUARD, check=False
    )


@pytest.fixture
def answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """The same command within this process: status, output, error output."""
    monkeypatch.chdir(tmp_path)

    def ask_here(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cleanrl_worker.cli", *words])
        status = main()
        return status, *capsys.readouterr()

    return ask_here


# ---- checking --------------------------------------------------------------------------------------------------


def test_a_dry_run_refuses_what_only_the_script_would(answer: Callable[..., tuple[int, str, str]]) -> None:
    words = ("--algo", "ppo", "--env-id", "CartPole-v1", "--dry-run", "--num-envs", "0")
    assert answer(*words) == (2, "", "cleanrl_worker: --num-envs must be at least 1, got 0.\n")


def test_a_dry_run_prints_all_that_would_run_and_starts_nothing(tmp_path: Path) -> None:
    words = "--algo ppo --env-id CartPole-v1 --seed 3 --total-timesteps 100 --dry-run --emit-summary --num-envs 8"
    told = ask(*words.split(), folder=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    summary = json.loads(told.stdout)
    assert summary.pop("script").endswith("cleanrl/ppo.py")
    assert summary.pop("observation_space").startswith("Box(")
    assert summary == {
        "status": "ok",
        "algo": "ppo",
        "arguments": ["--env-id", "CartPole-v1", "--seed", "3", "--total-timesteps", "100", "--num-envs", "8"],
        "env_id": "CartPole-v1",
        "seed": 3,
        "total_timesteps": 100,
        "action_space": "Discrete(2)",
        "action_kind": "discrete",
    }
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_without_a_summary_says_nothing(answer: Callable[..., tuple[int, str, str]]) -> None:
    assert answer("--algo", "ppo", "--env-id", "CartPole-v1", "--dry-run") == (0, "", "")


def test_a_dry_run_loads_neither_torch_nor_grpc(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv[1:] = ['--algo', 'ppo', '--env-id', 'CartPole-v1', '--dry-run']\n"
        "from cleanrl_worker.cli import main\n"
        "assert main() == 0\n"
        "print(sorted({'torch', 'grpc', 'gymnasium'} & set(sys.modules)))\n"
    )
    told = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == "['gymnasium']\n"


def test_the_command_line_wins_over_the_config_file(
    answer: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    config = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "seed": 1,
        "extras": {"algo_params": {"num_envs": 2, "gamma": 0.5}},
    }
    (tmp_path / "c.json").write_text(json.dumps(config))
    status, output, _ = answer("--config", "c.json", "--dry-run", "--emit-summary", "--seed", "9", "--num-envs", "4")
    assert status == 0
    expected = "--env-id CartPole-v1 --seed 9 --num-envs 4 --gamma 0.5"
    assert json.loads(output)["arguments"] == expected.split()


@pytest.mark.parametrize(
    ("algo", "words", "arguments"),
    [
        ("c51", "--v-min -1", ["--v-min=-1.0"]),
        ("c51", "--v-min -1e-3", ["--v-min=-0.001"]),
        ("c51", "--v-min=-.5", ["--v-min=-0.5"]),
        ("c51", "-- --v-min -1", ["--v-min=-1.0"]),
        ("ppo", "--num-envs 8 --num-envs 2", ["--num-envs", "2"]),
        ("ppo", "--exp-name 007 --no-anneal-lr", ["--exp-name", "007", "--no-anneal-lr"]),
        ("ppo", "--anneal-lr false --target-kl none", ["--no-anneal-lr", "--target-kl", "None"]),
    ],
)
def test_flags_of_the_script_reach_it_as_they_were_meant(
    answer: Callable[..., tuple[int, str, str]], algo: str, words: str, arguments: list[str]
) -> None:
    status, output, error = answer("--algo", algo, "--dry-run", "--emit-summary", *words.split())
    assert (status, error) == (0, "")
    assert json.loads(output)["arguments"] == ["--seed", "1", *arguments]


# ---- refusing --------------------------------------------------------------------------------------------------


def broken_script(folder: Path) -> str:
    path = folder / "broken.py"
    path.write_text("def broken(:\n")
    return str(path)


MISTAKES: dict[str, tuple[list[Any], str]] = {
    "algorithm": (["--algo", "pp0"], "there is no algorithm 'pp0'; did you mean 'ppo'?"),
    "steps": (["--algo", "ppo", "--total-timesteps", "-5"], "total_timesteps must be at least 1, got -5"),
    "flag": (["--algo", "ppo", "--no-such-flag", "3"], "ppo has no flag --no-such-flag; choices are "),
    "script": (["--script", "/no/such/script.py"], "there is no script '/no/such/script.py' (give its full path)"),
    "syntax": (["--script", broken_script], "{folder}/broken.py cannot be read as a Python script: "),
    "config": (["--config", "missing.json"], "missing.json cannot be read as a JSON config: "),
}
# What an environment can do is asked in a dry run only: a run leaves that to its script.
MISTAKES_OF_ENVIRONMENT: dict[str, tuple[list[Any], str]] = {
    "unknown": (
        ["--algo", "ppo", "--env-id", "CartPole-v9"],
        "there is no environment 'CartPole-v9'; did you mean 'CartPole-v1'?",
    ),
    "outdated": (
        ["--algo", "ppo", "--env-id", "Taxi-v3"],
        "there is no environment 'Taxi-v3'; did you mean 'Taxi-v4'?",
    ),
    "unsuited": (
        ["--algo", "ppo", "--env-id", "Pendulum-v1"],
        "ppo needs a discrete action space; Pendulum-v1 has Box(",
    ),
}


def check_refusal(folder: Path, words: list[Any], sentence: str, *more: str) -> None:
    given = [word(folder) if callable(word) else word for word in words]
    told = ask(*given, *more, folder=folder)
    assert (told.returncode, told.stdout) == (2, "")
    (line,) = told.stderr.splitlines()
    assert line.startswith(f"cleanrl_worker: {sentence.format(folder=folder)}")
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("mistake", [*MISTAKES, *MISTAKES_OF_ENVIRONMENT])
def test_a_dry_run_refuses_in_one_line(tmp_path: Path, mistake: str) -> None:
    words, sentence = (MISTAKES | MISTAKES_OF_ENVIRONMENT)[mistake]
    check_refusal(tmp_path, words, sentence, "--dry-run", "--emit-summary")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_run_is_refused_in_one_line_before_anything_starts(tmp_path: Path, mistake: str) -> None:
    check_refusal(tmp_path, *MISTAKES[mistake])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "the config names neither an algo nor a script"),
        ("--algo ppo --seed abc", "argument --seed: invalid int value: 'abc'"),
        ("--algo ppo --total-timesteps 1e6", "argument --total-timesteps: invalid int value: '1e6'"),
        ("--algo ppo --seed", "argument --seed: expected one argument"),
        ("--algo ppo --seed -1", "seed must be at least 0, got -1"),
        ("--algo ppo --total 100", "ppo has no flag --total; "),
        ("--algo ppo --num-envs many", "--num-envs must be a whole number, got 'many'"),
        ("--algo ppo --num-envs", "--num-envs needs a value: it is no switch but a whole number"),
        ("--algo ppo stray", "'stray' stands alone: flags of the script begin with -- and take one value"),
        ("--algo ppo -- --seed 3", "seed is a setting of the run itself: "),
        ("--algo ppo --grpc", "MOSAIC_RUN_ID is not set: a worker is started by the trainer daemon"),
    ],
)
def test_every_other_mistake_is_one_line_too(
    answer: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, words: str, sentence: str
) -> None:
    monkeypatch.delenv("MOSAIC_RUN_ID", raising=False)
    status, output, error = answer(*words.split())
    assert (status, output) == (2, "")
    (line,) = error.splitlines()
    assert line.startswith(f"cleanrl_worker: {sentence}")


def test_a_hostile_file_name_cannot_make_a_second_line(answer: Callable[..., tuple[int, str, str]]) -> None:
    status, _, error = answer("--config", "a\nTraceback (most recent call last):\nb.json", "--dry-run")
    assert (status, error.count("\n")) == (2, 1)


# ---- running by hand -------------------------------------------------------------------------------------------


class Supervisor:
    """A run started by hand, and the lines it prints."""

    def __init__(self, folder: Path, script: str, *words: str) -> None:
        self.folder = folder
        with (folder / "stderr.txt").open("wb") as error:
            self.process = subprocess.Popen(
                [*COMMAND, "--script", str(SCRIPTS / f"{script}.py"), *words],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=error,
                text=True,
            )

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def until(self, event: str) -> None:
        assert any(line["event"] == event for line in self.lines()), f"it never said {event}"

    def rest(self) -> list[dict[str, Any]]:
        """What it still says; it is over then."""
        said = list(self.lines())
        self.process.wait(HANG_GUARD)
        return said

    @property
    def run_dir(self) -> Path:
        (found,) = (self.folder / "runs").iterdir()
        return found

    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.run_dir / "analytics.json").read_text())
        return content

    def script_pid(self) -> int:
        return int((self.run_dir / "script.pid").read_text())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(HANG_GUARD)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    started: list[Supervisor] = []

    def start(script: str, *words: str) -> Supervisor:
        started.append(Supervisor(tmp_path, script, *words))
        return started[-1]

    yield start
    for supervisor in started:
        supervisor.close()


def test_a_run_by_hand_prints_its_life_as_json_lines(by_hand: Callable[..., Supervisor]) -> None:
    run = by_hand("obedient", "--total-timesteps", "5", "--seed", "4")
    said = run.rest()
    assert run.process.returncode == 0
    planned, *later = said
    assert (planned["event"], planned["total_steps"]) == ("run_planned", 5)
    assert [(line["event"], line["step"]) for line in later] == [
        ("run_started", 0),
        ("artifact", 5),
        ("run_completed", 5),
    ]
    assert all(isinstance(line["time"], float) for line in said)
    assert run.run_dir.name.startswith("obedient__4__")
    told = run.manifest()
    assert (told["algo"], told["seed"], told["total_timesteps"]) == ("obedient", 4, 5)
    assert (told["ending"], told["checkpoints"]) == ("run_completed", ["checkpoints/step-000000000005"])


def test_by_hand_event_files_go_where_the_config_says(by_hand: Callable[..., Supervisor], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"extras": {"tensorboard_dir": "curves"}}))
    run = by_hand("argparse_manner", "--config", str(config), "--total-timesteps", "32")
    run.rest()
    assert run.process.returncode == 0, (tmp_path / "stderr.txt").read_text()
    (folder,) = (one.parent for one in (tmp_path / "runs").glob("*/analytics.json"))  # the script makes one of its own
    (file,) = folder.rglob("events.out.tfevents.*")
    assert file.parent == folder / "tensorboard" / "curves"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_run_by_hand_with_a_last_checkpoint(
    by_hand: Callable[..., Supervisor], number: signal.Signals
) -> None:
    run = by_hand("obedient", "--total-timesteps", "1000000")
    run.until("run_started")
    run.process.send_signal(number)
    said = run.rest()
    assert [line["event"] for line in said] == ["run_stopping", "artifact", "run_stopped"]
    assert run.process.returncode == 0
    assert run.manifest()["checkpoints"] == [said[1]["path"]]


def test_a_script_that_fails_by_hand_says_why_and_is_the_exit_code(by_hand: Callable[..., Supervisor]) -> None:
    run = by_hand("misbehaving", "--how", "fail")
    (_, last) = run.rest()
    assert (last["event"], run.process.returncode) == ("run_failed", 1)
    assert last["sentence"] == "the script exited with status 1: ValueError: the reward is not a number"


def test_a_script_ends_by_itself_with_a_last_checkpoint_when_its_supervisor_is_killed(
    by_hand: Callable[..., Supervisor],
) -> None:
    run = by_hand("obedient", "--total-timesteps", "1000000")
    run.until("run_started")
    with held(run.script_pid()) as script:
        run.process.kill()
        run.rest()  # the script holds the pipe too: its end is the script's
        assert has_ended(script)
    assert [entry.name[:5] for entry in (run.run_dir / "checkpoints").iterdir()] == ["step-"]


def test_a_script_that_listens_to_nothing_is_ended_with_its_supervisor(by_hand: Callable[..., Supervisor]) -> None:
    run = by_hand("misbehaving", "--how", "listen_no_more")
    run.until("run_started")
    (pid,) = json.loads((run.run_dir / "pids.json").read_text())
    with held(pid) as script:
        run.process.kill()
        assert has_ended(script)


@contextmanager
def held(pid: int) -> Iterator[int]:
    """A descriptor of a process that is not our child; it does not outlive the test."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


def has_ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], HANG_GUARD)[0])


def test_two_runs_by_hand_get_folders_of_their_own(by_hand: Callable[..., Supervisor], tmp_path: Path) -> None:
    for _ in range(2):
        by_hand("obedient", "--total-timesteps", "1").rest()
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_supervisor_that_prints_to_a_full_disk_sees_its_script_to_the_end(tmp_path: Path) -> None:
    command = [*COMMAND, "--script", str(SCRIPTS / "obedient.py"), "--total-timesteps", "5"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=full, timeout=HANG_GUARD, check=False)
    assert ended.returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "analytics.json").read_text())["ending"] == "run_completed"


def test_an_answer_that_a_full_disk_does_not_take_is_not_taken_for_one(tmp_path: Path) -> None:
    command = [*COMMAND, "--algo", "ppo", "--describe-flags"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=full, timeout=HANG_GUARD, check=False)
    assert ended.returncode != 0
