"""What ``mosaic wandb`` prints of a run and of the way to W&B: text for people, objects for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.commands.metrics import metric_table, series_object
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.session import program, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.wandb.route import Reach, Route
    from gym_gui.services.wandb.watcher import Columns, News
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.wandb_keys import WandbKey

_LARGEST_STEP = 2**63 - 1
_DEEPEST = 20


def series_of(columns: dict[str, Columns], tags: Sequence[str], run: pb.Run) -> list[pb.MetricSeries]:
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.suggest import did_you_mean

    for tag in tags:
        if tag not in columns:
            hint = did_you_mean(tag, list(columns)) if columns else "; it has none"
            raise CliError(f"W&B has no metric {tag[:60]!r} of {run_view.called(run)}{hint}", ExitCode.REFUSED)
    return [
        pb.MetricSeries(
            tag=tag,
            steps=[max(-_LARGEST_STEP, min(_LARGEST_STEP, int(step))) for step in one.steps],
            values=one.values,
            wall_times=one.wall_times,
            total_points=len(one.values),
        )
        for tag, one in sorted(columns.items())
        if not tags or tag in tags
    ]


def tell_run(run: pb.Run, news: News, series: Sequence[pb.MetricSeries]) -> None:
    from gym_gui.services.wandb.slowdown import slowdown_hints
    from gym_gui.services.wandb.watcher import reading_notes

    if not news.side.is_tracked:
        click.echo(_untracked(run, was_begun=news.side.was_begun))
        return
    click.echo(f"{run_view.called(run)} is tracked {news.side.mode} with W&B.")
    click.echo(fmt.pairs([entry for entry in _facts(run, news) if entry[1]]))
    if series:
        click.echo(f"\n{metric_table(series)}")
    for sentence in [*reading_notes(news), *slowdown_hints(news.side, news.tracked)]:
        click.echo(fmt.dimmed(fmt.hanging(fmt.one_line(sentence))))


def _untracked(run: pb.Run, *, was_begun: bool) -> str:
    if not run_view.is_over(run):
        return f"W&B has recorded nothing of {run_view.called(run)} yet."
    if was_begun:
        why = f"`{program()} logs {run_view.short_id(run.run_id)}` may say why"
        return f"W&B recorded nothing of {run_view.called(run)}, although it was to be tracked: {why}."
    again = f"`{program()} train {run.algo} --env-id {run.env_id} -- --track` starts one that is tracked"
    return f"{run_view.called(run)} was not tracked with W&B: {fmt.one_line(again)}."


def _facts(run: pb.Run, news: News) -> list[tuple[str, str]]:
    from gym_gui.services.wandb.run_side import sync_command, upload_sentence

    side, tracked = news.side, news.tracked
    kinds = Counter(one.kind for one in tracked.media)
    waits = bool(side.to_upload) and (side.is_over or side.mode == "offline")
    plain = [f"{key} = {_short(value)}" for key, value in tracked.summary.items() if not _has_curve(key, value, news)]
    return [
        ("project", fmt.one_line("/".join(filter(None, (tracked.entity, tracked.project))))),
        ("name", fmt.one_line(tracked.name)),
        ("link", side.url),
        ("upload", fmt.one_line(upload_sentence(side))),
        ("to upload it", f"{program()} wandb sync {run_view.short_id(run.run_id)}" if waits else ""),
        ("or by hand", fmt.one_line(sync_command(side)) if waits else ""),
        ("last sync", fmt.moment(side.last_sync) if side.last_sync is not None else ""),
        ("rows", f"{news.rows:,}"),
        ("exit code", "" if tracked.exit_code is None else str(tracked.exit_code)),
        ("summary", fmt.one_line("; ".join(plain))),
        ("settings", fmt.counted(len(tracked.config), "setting") + " (--json has them)" if tracked.config else ""),
        ("media", ", ".join(f"{count:,} {fmt.one_line(kind)}" for kind, count in kinds.most_common(5))),
        ("files", shortest_path(side.recordings[-1].folder)),
    ]


def _has_curve(key: str, value: Any, news: News) -> bool:
    """Whether an entry of the summary is no news: the last value of a curve, W&B's own, or a medium."""
    return key in news.columns or key.startswith("_") or key == "global_step" or isinstance(value, dict)


def _short(value: Any) -> str:
    return fmt.quantity(value) if isinstance(value, float) else str(value)[:100]


def run_object(run: pb.Run, news: News, series: Sequence[pb.MetricSeries]) -> dict[str, Any]:
    from gym_gui.services.wandb.run_side import sync_command
    from gym_gui.services.wandb.slowdown import slowdown_hints
    from gym_gui.services.wandb.watcher import reading_notes

    side, tracked = news.side, news.tracked
    return {
        "run_id": run.run_id,
        "mode": side.mode or None,
        "url": side.url or None,
        "upload": str(side.upload),
        "last_sync": side.last_sync,
        "sync_command": sync_command(side) or None,
        "folders": [str(one.folder) for one in side.recordings],
        "project": tracked.project or None,
        "entity": tracked.entity or None,
        "name": tracked.name or None,
        "rows": news.rows,
        "exit_code": tracked.exit_code,
        "complete": tracked.complete and not news.problems and not news.left_out,
        "config": _finite(tracked.config),
        "summary": _finite(tracked.summary),
        "series": [series_object(one) for one in series],
        "media": [{"key": one.key, "kind": one.kind, "step": one.step, "paths": one.paths} for one in tracked.media],
        "files": tracked.files,
        "notes": [*reading_notes(news), *slowdown_hints(side, tracked)],
    }


def _finite(value: Any, depth: int = 0) -> Any:
    """What a script logged, as JSON can say it: null for numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict | list) and depth == _DEEPEST:
        return str(type(value).__name__)
    if isinstance(value, dict):
        return {key: _finite(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one, depth + 1) for one in value]
    return value


def check_facts(python: str | None, key: WandbKey | None, route: Route | None, reach: Reach) -> list[tuple[str, str]]:
    from gym_gui.services.wandb.preparation import INSTALL
    from mosaic_protocol.wandb_keys import HOW_TO_SET

    answer = f"answers in {reach.milliseconds:,} ms" if reach.answers else fmt.one_line(reach.problem)
    verdicts = {
        None: "",
        True: f", which belongs to {fmt.one_line(reach.account)}",
        False: ", which the server refuses",
    }
    key_words = f"from {key.source}{verdicts[reach.key_is_good]}" if key is not None else f"none: {HOW_TO_SET}"
    return [
        ("wandb", f"installed ({python})" if python else f"not installed: {INSTALL}"),
        ("key", key_words),
        ("server", route.address if route is not None else fmt.MISSING),
        ("way", fmt.one_line(route.words) if route is not None else fmt.MISSING),
        ("probe", answer),
    ]


def check_object(python: str | None, key: WandbKey | None, route: Route | None, reach: Reach) -> dict[str, Any]:
    return {
        "wandb_python": python,
        "key_source": key.source if key is not None else None,
        "key_is_good": reach.key_is_good,
        "account": reach.account or None,
        "address": route.address if route is not None else None,
        "proxies": str(route.proxies) if route is not None and route.proxies is not None else None,
        "answers": reach.answers,
        "milliseconds": reach.milliseconds,
        "problem": reach.problem or None,
    }
