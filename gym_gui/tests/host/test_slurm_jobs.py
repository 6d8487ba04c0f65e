"""What is said to Slurm, and what is read out of its answers."""

from __future__ import annotations

import pytest

from gym_gui.services.hosts.book import Host
from gym_gui.services.trainer.execution.hosts.link import HostAwayError
from gym_gui.services.trainer.execution.hosts.slurm_jobs import (
    Job,
    Needs,
    SlurmError,
    SlurmJobs,
    newest,
    parsed,
    script,
    submission,
)
from mosaic_host.hosting import CommandAnswer

RUN, OTHER = "01M7TY3A12RY8FQBAW6MK6WC4J", "01M7TY43M8PTXETGQPPZQ52X0K"
LISTED = f"""\
4|mosaic-{RUN}|PENDING||Nodes required for job are DOWN, DRAINED|or reserved
5|mosaic-{OTHER}|CANCELLED by 0||None
6|somebody else's|RUNNING|node1|None
7_[1-3]|mosaic-array|PENDING||Priority
slurm says hello
"""


def test_the_jobs_of_runs_are_read_out_of_what_squeue_lists() -> None:
    waiting, over = parsed(LISTED)
    assert (waiting.number, waiting.run_id, waiting.is_waiting, waiting.is_over) == (4, RUN, True, False)
    assert waiting.waits_for == (
        "waits in Slurm's queue: PENDING, Nodes required for job are DOWN, DRAINED|or reserved (job 4)"
    )
    assert (over.state, over.is_over) == ("CANCELLED", True)


def test_of_several_jobs_of_a_run_the_first_that_lives_is_its_job() -> None:
    states = {1: "TIMEOUT", 2: "PENDING", 3: "RUNNING"}
    jobs = [Job(number, RUN, state) for number, state in states.items()]
    assert newest(jobs)[RUN].number == 2
    assert newest(jobs[:1])[RUN].number == 1
    assert newest([Job(9, RUN, "FAILED"), Job(4, RUN, "COMPLETED")])[RUN].number == 9


@pytest.mark.parametrize(
    ("state", "known", "told", "was_time"),
    [
        ("COMPLETED", "about to end", "near its time limit", True),
        ("TIMEOUT", "", "time limit", True),
        ("COMPLETED", "preempted", "took the place", False),
        ("PREEMPTED", "", "took the place", False),
        ("CANCELLED", "", "cancelled in Slurm", False),
        ("NODE_FAIL", "", "machine of its job 7 failed", False),
        ("OUT_OF_MEMORY", "", "more memory", False),
        ("BOOT_FAIL", "", "ended as BOOT_FAIL", False),
    ],
)
def test_the_end_of_a_job_has_a_sentence(state: str, known: str, told: str, was_time: bool) -> None:
    story = Job(7, RUN, state).story(known)
    assert story is not None and told in story[0] and "7" in story[0] and story[1] is was_time


def test_a_job_that_ended_after_its_worker_has_no_story() -> None:
    assert Job(7, RUN, "COMPLETED").story("") is None


def test_a_job_asks_for_what_its_run_asks_for_and_nothing_else() -> None:
    plain = submission(Host("c", "", kind="slurm"), RUN, "/home/a", "/home/a/log", Needs(1, 0, 0))
    assert not [word for word in plain if word.startswith(("--mem", "--gres", "--partition", "--account", "--time"))]
    host = Host("c", "", kind="slurm", partition="gpu", account="lab", time="1-0")
    words = submission(host, RUN, "/home/a", "/home/a/log", Needs(4, 2000, 2))
    for word in ("--cpus-per-task=4", "--mem=2000M", "--gres=gpu:2", "--partition=gpu", "--account=lab", "--time=1-0"):
        assert word in words
    assert f"--job-name=mosaic-{RUN}" in words and "--signal=B:TERM@120" in words


def test_a_script_keeps_odd_words_together() -> None:
    assert script(["A=b c"], ["/opt/my python", "-m", "x"]).endswith(
        "exec /usr/bin/env 'A=b c' '/opt/my python' -m x\n"
    )


class Slurm:
    """One that answers what it is told to."""

    def __init__(self) -> None:
        self.answer: CommandAnswer | Exception = CommandAnswer(0, "", "")
        self.asked: list[list[str]] = []

    async def __call__(self, words: list[str], given: str) -> CommandAnswer:
        self.asked.append(words)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_slurm_that_does_not_answer_says_nothing_about_jobs() -> None:
    slurm = Slurm()
    jobs = SlurmJobs("cluster", slurm)
    slurm.answer = CommandAnswer(0, LISTED, "")
    await jobs.look()
    for answer in (
        CommandAnswer(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"),
        FileNotFoundError(2, "No such file or directory", "squeue"),
        HostAwayError("host cluster is away"),
    ):
        slurm.answer = answer
        with pytest.raises(ConnectionError):
            await jobs.look()
        assert [job.number for job in jobs.living] == [4], "what was known is kept"
    assert "No such file" in jobs.problem
    slurm.answer = CommandAnswer(0, "", "")
    await jobs.look()
    assert jobs.problem == "" and jobs.living == []


async def test_the_later_one_of_two_jobs_of_a_run_is_cancelled() -> None:
    slurm = Slurm()
    slurm.answer = CommandAnswer(0, f"4|mosaic-{RUN}|RUNNING|n|None\n5|mosaic-{RUN}|PENDING||Priority\n", "")
    jobs = SlurmJobs("cluster", slurm)
    await jobs.look()
    found = jobs.of(RUN)
    assert found is not None and found.number == 4
    assert slurm.asked[1:] == [["scancel", "--quiet", "5"]]


async def test_a_refused_submission_has_the_words_of_slurm() -> None:
    slurm = Slurm()
    slurm.answer = CommandAnswer(1, "", "sbatch: error: invalid partition specified: gpu\nsbatch: error: Batch job\n")
    jobs = SlurmJobs("cluster", slurm)
    with pytest.raises(SlurmError, match="refuses: sbatch: error: Batch job"):
        await jobs.submit(["sbatch"], "")
    assert jobs.problem == "", "it answered"
