"""What a storage profile does to which runs, decided without a clock, a disk or a daemon."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gym_gui.services.storage.planning import Action, Around, plan, protected
from gym_gui.services.storage.profile import Profile
from gym_gui.services.storage.sizes import CheckpointSize, RunSize
from mosaic_protocol.proto import trainer_pb2 as pb

DAY = 86_400.0
NOW = 1_000 * DAY
GB = 1_000_000_000
ARCHIVE_ALL = {"rules": [{"runs": "", "archive_after_days": 10}]}


def run_id(number: int) -> str:
    return f"01K9ZQ3V7X{number:016d}"


def ran(number: int, *, days: float = 100, **facts: Any) -> pb.Run:
    """A run that was completed so many days ago."""
    usual = {"state": "TERM", "outcome": "completed", "name": f"run-{number}", "ended_at": NOW - days * DAY}
    return pb.Run(run_id=run_id(number), created_at=NOW - days * DAY - 60, **{**usual, **facts})


def taking(*runs: pb.Run, size: int = GB, **parts: int) -> dict[str, RunSize]:
    told: Any = parts or {"other": size}
    return {run.run_id: RunSize(told) for run in runs}


def actions(profile: dict[str, Any], *runs: pb.Run, around: Around | None = None, **sizes: Any) -> list[Action]:
    return plan(Profile.model_validate(profile), runs, NOW, taking(*runs, **sizes), around)


def told(found: list[Action]) -> list[tuple[str, str]]:
    return [(action.kind, action.name) for action in found]


def test_the_first_rule_that_fits_decides_and_a_run_that_none_fits_is_kept() -> None:
    rules = [
        {"runs": "tag=paper"},
        {"runs": "outcome=failed", "trash_after_days": 5},
        {"runs": "algo=ppo", "archive_after_days": 50},
    ]
    runs = [
        ran(1, tags=["paper"], outcome="failed"),
        ran(2, outcome="failed"),
        ran(3, algo="ppo"),
        ran(4, algo="ppo", days=49.9),
        ran(5, algo="dqn"),
    ]
    found = actions({"rules": rules}, *runs)
    assert told(found) == [("trash", "run-2"), ("archive", "run-3")]
    assert [action.bytes for action in found] == [GB, GB]
    assert found[0].reason == "ended 100 days ago, kept for 5 days"


def test_where_both_are_due_the_run_is_archived() -> None:
    rules = [{"runs": "", "archive_after_days": 5, "trash_after_days": 1}]
    assert told(actions({"rules": rules}, ran(1), ran(2, days=3))) == [("archive", "run-1"), ("trash", "run-2")]


@pytest.mark.parametrize(
    ("facts", "profile", "why"),
    [
        ({"state": "EXEC", "outcome": "", "ended_at": 0}, {}, "it is not over"),
        ({"state": "INIT", "outcome": "", "ended_at": 0}, {}, "it is not over"),
        ({"journal_unread": True}, {}, "what it said last is not read yet"),
        ({"tags": ["keep"]}, {}, "it has the tag keep"),
        ({"tags": ["x", "pinned"]}, {}, "it has the tag pinned"),
        ({}, {"pinned": ["run-1"]}, "it is pinned"),
        ({}, {"pinned": ["00000001"]}, "it is pinned"),
        ({"sweep": "lr"}, {}, "its sweep goes on"),
    ],
)
def test_what_is_live_or_pinned_or_tagged_is_never_touched(
    facts: dict[str, Any], profile: dict[str, Any], why: str
) -> None:
    everything = {
        "rules": [{"runs": "", "archive_after_days": 0, "trash_after_days": 0, "keep_days": {"logs": 0}}],
        "cap_gb": 0.001,
        "empty_trash_at_percent": 1,
        **profile,
    }
    around = Around(open_sweeps={"lr"}, disk_used=99, disk_free=1)
    assert actions(everything, ran(1, **facts), around=around, logs=5, other=GB) == []
    assert protected(Profile.model_validate(everything), [ran(1, **facts)], around) == {run_id(1): why}
    assert len(actions({**everything, "pinned": []}, ran(1), around=around)) == 1


def test_a_short_end_of_an_id_pins_nothing() -> None:
    assert len(actions({**ARCHIVE_ALL, "pinned": ["1"]}, ran(1))) == 1


def test_a_run_that_others_began_from_stays_until_they_are_gone() -> None:
    parent, child = ran(1), ran(2, parent=run_id(1))
    assert told(actions(ARCHIVE_ALL, parent, child)) == [("archive", "run-2")]
    child.deleted = True
    assert told(actions(ARCHIVE_ALL, parent, child)) == [("archive", "run-1")]


def test_a_run_whose_checkpoint_a_queued_run_names_stays() -> None:
    config = f'{{"params": {{"seat": "/var/trainer/runs/{run_id(1)}/checkpoints/step-000000000500"}}}}'
    waiting = ran(2, state="INIT", outcome="", config_json=config)
    assert actions(ARCHIVE_ALL, ran(1), waiting) == []
    assert told(actions(ARCHIVE_ALL, ran(1), ran(3, config_json=config))) == [
        ("archive", "run-1"),
        ("archive", "run-3"),
    ]


def test_the_newest_and_the_best_checkpoint_stay() -> None:
    kept = RunSize(
        {"checkpoints": 40, "videos": 7, "logs": 9},
        (
            CheckpointSize("step-000000000001", 10),
            CheckpointSize("step-000000000002", 10, is_best=True),
            CheckpointSize("step-000000000003", 10),
            CheckpointSize("step-000000000004", 10, is_newest=True),
        ),
    )
    rules = [{"runs": "", "keep_days": {"checkpoints": 10, "videos": 10, "logs": 200}}]
    profile = Profile.model_validate({"rules": rules})
    checkpoints, videos = plan(profile, [ran(1)], NOW, {run_id(1): kept})
    assert (checkpoints.checkpoints, checkpoints.bytes) == (("step-000000000001", "step-000000000003"), 20)
    assert (videos.parts, videos.bytes) == (("videos",), 7)
    only = RunSize({"checkpoints": 10}, kept.checkpoints[1:2])
    assert plan(profile, [ran(1)], NOW, {run_id(1): only}) == []


def test_a_cap_brings_forward_what_rules_would_do_the_oldest_first() -> None:
    rules = [
        {"runs": "tag=paper"},
        {"runs": "algo=dqn", "trash_after_days": 900},
        {"runs": "", "archive_after_days": 900},
    ]
    runs = [ran(1, days=5), ran(2, days=50, algo="dqn"), ran(3, days=70, tags=["paper"]), ran(4, days=60)]
    assert actions({"rules": rules}, *runs) == []
    found = actions({"rules": rules, "cap_gb": 2}, *runs)
    assert told(found) == [("archive", "run-4"), ("trash", "run-2")]
    assert found[0].reason == "runs take 4.0 GB of the 2 GB that they may take"


def test_what_is_due_counts_before_the_cap() -> None:
    rules = [{"runs": "", "archive_after_days": 90}]
    assert told(actions({"rules": rules, "cap_gb": 1}, ran(1), ran(2, days=5))) == [("archive", "run-1")]


def test_the_trash_is_emptied_early_only_where_the_disk_is_full_and_the_profile_says_so() -> None:
    runs = [ran(1, deleted=True, restorable_until=NOW + 5), ran(2, deleted=True, restorable_until=NOW + 2), ran(3)]
    full, roomy = Around(disk_used=96 * GB, disk_free=4 * GB), Around(disk_used=94 * GB, disk_free=6 * GB)
    assert told(actions({"empty_trash_at_percent": 95.5}, *runs, around=full)) == [("purge", "run-2")]
    assert actions({"empty_trash_at_percent": 95.5}, *runs, around=roomy) == []
    assert actions({}, *runs, around=full) == []


def test_the_work_grows_with_the_runs_and_not_with_their_square() -> None:
    runs = [ran(number, parent=run_id(number - 1) if number % 3 else "") for number in range(1, 2_001)]
    began = time.process_time()
    assert len(actions(ARCHIVE_ALL, *runs)) == 667
    assert time.process_time() - began < 3
