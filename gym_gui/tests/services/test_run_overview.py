"""What is known of one run, from its config, its manifest and the runs around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gym_gui.services.run_overview import SECTIONS, found_in, overview_of
from mosaic_protocol.proto import trainer_pb2 as pb


def run(number: int, **fields: Any) -> pb.Run:
    settings = {"seed": number, "extras": {"algo_params": {"learning_rate": 0.1}}}
    config = json.dumps({"metadata": {"worker": {"config": settings}}})
    return pb.Run(run_id=f"{number:026d}", name=f"run-{number}", state="EXEC", config_json=config, **fields)


def test_facts_stand_in_sections_with_given_settings_before_defaults(tmp_path: Path) -> None:
    manifest = {
        "resolved": {"learning_rate": 0.1, "gamma": 0.99},
        "code": {"path": "ppo.py", "commit": "a" * 40},
        "checkpoints": ["checkpoints/step-1", "checkpoints/step-2"],
        "videos": ["../../etc/passwd", 7],
    }
    (tmp_path / "analytics.json").write_text(json.dumps(manifest))
    one = run(1, run_dir=str(tmp_path), parent=run(9).run_id)
    facts = overview_of(one, [one, run(2, parent=one.run_id), run(3), run(9)])
    order = [fact.section for fact in facts]
    assert order == sorted(order, key=SECTIONS.index)
    told = {(fact.section, fact.name): fact for fact in facts}
    assert told["changed", "learning_rate"].text == "0.1" and told["defaults", "gamma"].text == "0.99"
    assert told["lineage", "goes on from"].run_id == run(9).run_id and "run-9" in told["lineage", "goes on from"].text
    assert told["lineage", "was gone on with by"].run_id == run(2).run_id
    places = [fact.path for fact in facts if fact.name == "checkpoint"]
    assert places == [str(tmp_path / "checkpoints" / "step-2"), str(tmp_path / "checkpoints" / "step-1")]
    assert not [fact for fact in facts if fact.name == "video"], "a manifest names no file elsewhere"
    assert [fact.name for fact in found_in(facts, "LEARNING 0.1")] == ["learning_rate"]


def test_a_parent_that_is_gone_and_a_run_without_a_folder_are_no_problem() -> None:
    facts = overview_of(run(1, parent="X" * 26), [])
    assert [fact.text for fact in facts if fact.section == "lineage"] == ["XXXXXX"]
    assert not [fact for fact in facts if fact.section == "files"]
