"""What is known of one run, from its config, its manifest and the runs around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gym_gui.services.run_overview import SECTIONS, found_in, overview_of
from gym_gui.tests.support.made_checkpoints import RUN_A, write_run
from mosaic_protocol.checkpoint_manifest import TENSOR_FILE
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb


def run(number: int, **fields: Any) -> pb.Run:
    settings = {"seed": number, "extras": {"algo_params": {"learning_rate": 0.1}}}
    config = json.dumps({"metadata": {"worker": {"config": settings}}})
    return pb.Run(run_id=f"{number:026d}", name=f"run-{number}", state="EXEC", config_json=config, **fields)


def test_facts_stand_in_sections_with_given_settings_before_defaults(tmp_path: Path) -> None:
    manifest = {
        "resolved": {"learning_rate": 0.1, "gamma": 0.99},
        "code": {"path": "ppo.py", "commit": "a" * 40},
        "defaults": {"learning_rate": 0.25, "seed": 1},
        "script_arguments": ["--seed", "1", "--note", "two words"],
        "videos": ["../../etc/passwd", 7],
    }
    (tmp_path / "analytics.json").write_text(json.dumps(manifest))
    one = run(1, run_dir=str(tmp_path), parent=run(9).run_id)
    facts = overview_of(one, [one, run(2, parent=one.run_id), run(3), run(9)])
    order = [fact.section for fact in facts]
    assert order == sorted(order, key=SECTIONS.index)
    told = {(fact.section, fact.name): fact for fact in facts}
    assert told["changed", "learning_rate"].default == "0.25" and told["defaults", "seed"].text == "1"
    assert told["code", "command"].text == "python ppo.py --seed 1 --note 'two words'"
    assert told["changed", "learning_rate"].text == "0.1" and told["defaults", "gamma"].text == "0.99"
    assert told["lineage", "goes on from"].run_id == run(9).run_id and "run-9" in told["lineage", "goes on from"].text
    assert told["lineage", "was gone on with by"].run_id == run(2).run_id
    assert not [fact for fact in facts if fact.name == "video"], "a manifest names no file elsewhere"
    assert [fact.name for fact in found_in(facts, "LEARNING 0.1")] == ["learning_rate"]


def test_a_parent_that_is_gone_and_a_run_without_a_folder_are_no_problem() -> None:
    facts = overview_of(run(1, parent="X" * 26), [])
    assert [fact.text for fact in facts if fact.section == "lineage"] == ["XXXXXX"]
    assert not [fact for fact in facts if fact.section == "files"]


def test_checkpoints_say_where_they_are_and_whether_their_bytes_hold(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    _, damaged = write_run(paths, RUN_A, "walker", (100, 500))
    (damaged / TENSOR_FILE).write_bytes(b"others")
    folder = paths.run(RUN_A).directory
    (folder / "analytics.json").write_text(json.dumps({"checkpoints": ["checkpoints/step-7", "../../x"]}))
    over = pb.Run(run_id=RUN_A, name="walker", state="TERM", outcome="completed", run_dir=str(folder))

    def said(one: pb.Run) -> dict[str, str]:
        return {fact.name: fact.text for fact in overview_of(one, [], paths) if fact.section == "checkpoints"}

    found = said(over)
    assert list(found) == ["step 500", "step 100", "step-7"]
    assert "hash verified" in found["step 100"] and "on this machine" in found["step 100"]
    assert "damaged" in found["step 500"] and found["step-7"] == "not on this machine any more"
    over.state, over.outcome = "EXEC", ""
    assert "hash not checked" in said(over)["step 100"], "a run that goes on is looked at every second"
