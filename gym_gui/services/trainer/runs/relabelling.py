"""What people may change of a run whenever they like: its name, its tags, its notes. Pure, like every decision.

All three stand in the run's config, where a run that is duplicated, resumed or exported takes them from. What may stand
there is for :func:`mosaic_protocol.run_config.parse_label_change` to say.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gym_gui.services.run_labels import config_of, labels_in
from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.runs.run_record import RunRecord
from mosaic_protocol.run_config import MAX_TAGS, LabelChange

_LONGEST_STORY = 200


def relabelled(run: RunRecord, change: LabelChange) -> RunRecord:
    """The run with the change; the same run where nothing is different. Raises :class:`RefusedError` for more tags than
    a run may have."""
    kept = [tag for tag in run.labels.tags if tag not in change.remove_tags]
    tags = tuple(dict.fromkeys((*kept, *change.add_tags)))
    if len(tags) > MAX_TAGS and len(tags) > len(run.labels.tags):
        raise RefusedError(f"run {run.short} would have {len(tags)} tags, and {MAX_TAGS} is the most: remove some")
    config: dict[str, Any] = dict(config_of(run.config_json))
    metadata = dict(config.get("metadata") or {})
    before = (run.name, run.labels.tags, metadata.get("notes", ""))
    name = run.name if change.name is None else change.name
    notes = before[2] if change.notes is None else change.notes
    if (name, tags, notes) == before:
        return run
    config |= {"run_name": name, "metadata": {**metadata, "tags": list(tags), "notes": notes}}
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return replace(run, name=name, config_json=text, labels=replace(run.labels, tags=labels_in(config).tags))


def story_of(change: LabelChange) -> str:
    """What the history of the run keeps of it."""
    parts = [f"name {change.name!r}"] if change.name is not None else []
    parts += ["notes"] if change.notes is not None else []
    parts += [f"tag {tag!r} added" for tag in change.add_tags]
    parts += [f"tag {tag!r} removed" for tag in change.remove_tags]
    return ", ".join(parts)[:_LONGEST_STORY]
