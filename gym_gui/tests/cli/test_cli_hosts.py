"""``mosaic hosts`` without a host that answers: what is listed, added, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_gui.tests.support.command_line import CommandLine


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"MOSAIC_SSH_CONFIG": "/dev/null"})


def test_hosts_are_added_listed_drained_and_removed(mosaic: CommandLine) -> None:
    assert "There are no hosts but this machine" in mosaic("hosts").out
    assert mosaic("hosts", "add", "node1", "alice@node1", "--python", "/opt/python", "--cpus", "4").code == 0
    (listed,) = mosaic("hosts", "list", "--json").json["hosts"]
    assert (listed["name"], listed["ssh"], listed["python"], listed["cpus"]) == (
        "node1",
        "alice@node1",
        "/opt/python",
        4,
    )
    assert (listed["connected"], listed["live"], listed["capacity"]) == (False, 0, None)
    assert mosaic("hosts", "label", "node1", "lab", "fast").out == "node1 is labelled fast, lab.\n"
    assert "fast, lab" in mosaic("hosts").out
    assert mosaic("hosts", "label", "node1", "--json").json["labels"] == []
    assert mosaic("hosts", "drain", "node1").code == 0
    assert "drained" in mosaic("hosts").out
    assert mosaic("hosts", "drain", "node1", "--off", "--json").json["drained"] is False
    assert mosaic("hosts", "remove", "node1", "--json").json == {"name": "node1", "removed": True}
    assert mosaic("hosts", "list", "--json").json == {"hosts": []}


def test_a_cluster_is_added_by_its_login_node_which_may_be_this_machine(mosaic: CommandLine) -> None:
    assert mosaic("hosts", "add", "cluster", "--slurm", "--partition", "gpu", "--time", "12:00:00").code == 0
    assert mosaic("hosts", "add", "far", "alice@login", "--slurm", "--gpus", "2").code == 0
    here, far = mosaic("hosts", "list", "--json").json["hosts"]
    assert (here["kind"], here["ssh"], here["partition"], here["time"]) == ("slurm", "", "gpu", "12:00:00")
    assert (far["ssh"], far["gpus"]) == ("alice@login", 2)
    listed = mosaic("hosts").out
    assert "here (Slurm)" in listed and "alice@login (Slurm)" in listed


def test_a_host_that_does_not_answer_fails_its_check_with_the_words_of_ssh(mosaic: CommandLine) -> None:
    mosaic("hosts", "add", "away", "nobody@host.invalid")
    answer = mosaic("hosts", "check", "away", "--json")
    assert answer.code == 1 and answer.json["ok"] is False
    (found,) = answer.json["checks"]
    assert (found["check"], found["status"]) == ("ssh", "fail")
    assert "host.invalid" in found["finding"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "node1", "--", "-oProxyCommand=x"), "is no destination"),
        (("add", "No de", "h"), "is no name for a host"),
        (("add", "any", "h"), "cannot be the name"),
        (("add", "node1"), "say how the host is reached"),
        (("add", "node1", "h", "--partition", "gpu"), "is for a host of Slurm"),
        (("add", "node1", "--slurm", "--partition", "a b"), "partition of node1 cannot be 'a b'"),
        (("add", "node1", "--slurm", "--time", "soon"), "time of node1 cannot be 'soon'"),
        (("check", "nowhere"), "there is no host 'nowhere'"),
        (("remove", "nowhere"), "there is no host 'nowhere'"),
        (("drain", "nowhere"), "there is no host 'nowhere'"),
        (("label", "nowhere", "fast"), "there is no host 'nowhere'"),
        (("add", "node1", "h", "--label", "A B"), "is no label for a host"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(mosaic: CommandLine, words: tuple[str, ...], told: str) -> None:
    answer = mosaic("hosts", *words)
    assert answer.code == 2 and told in answer.err
