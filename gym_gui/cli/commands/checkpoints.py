"""``mosaic checkpoints``: which there are, and what is known of one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.options import Count, PlainGroup, checkpoint_argument, json_option
from gym_gui.cli.session import CliSession, passing_notice, program, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.checkpoints.entry import CheckpointEntry
    from gym_gui.services.checkpoints.registry import Ancestor, TrainingRegistry

_BEGINNINGS = {"resume": "goes on from", "warm_start": "began with the networks of", "import": "imported from"}


class _ListUnlessToldOtherwise(PlainGroup):
    """``mosaic checkpoints RUN --algo A`` is ``mosaic checkpoints list RUN --algo A``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = args[:1] and args[0] in ctx.help_option_names
        if not ctx.resilient_parsing and not asks_for_help and args[:1] != ["show"] and args[:1] != ["list"]:
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        runs = candidates.runs(ctx, self.commands["list"].params[0], incomplete)
        return [*super().shell_complete(ctx, incomplete), *runs]


def _registry(session: CliSession) -> TrainingRegistry:
    from gym_gui.services.checkpoints.registry import TrainingRegistry

    return TrainingRegistry(session.paths)


# ---- the list ----------------------------------------------------------------------------------------------------


@click.group(cls=_ListUnlessToldOtherwise, options_metavar="[RUN] [OPTIONS]")
def checkpoints() -> None:
    """List checkpoints, or show one.

    `mosaic checkpoints` alone lists what there is; `mosaic checkpoints list --help` shows how to narrow it down.
    A checkpoint is named RUN (its last one), RUN@STEP, RUN@best or RUN@last, an import by its name, and any by its
    path.
    """


@checkpoints.command("list")
@click.argument("run", metavar="[RUN]", required=False, shell_complete=candidates.runs)
@click.option("--env-id", metavar="E", help="Only of this environment.", shell_complete=candidates.environments)
@click.option("--algo", metavar="A", help="Only of this algorithm.", shell_complete=candidates.algorithms)
@click.option("--limit", type=Count(), default=50, show_default=True, help="The newest so many.")
@click.option("--all", "everything", is_flag=True, help="Every checkpoint.")
@click.option("--verify", is_flag=True, help="Read every byte and tell which are damaged.")
@json_option
@click.pass_obj
def list_checkpoints(
    session: CliSession,
    run: str | None,
    env_id: str | None,
    algo: str | None,
    limit: int,
    everything: bool,
    verify: bool,
    as_json: bool,
) -> None:
    """List checkpoints, newest first, those of imports included.

    The first column names a checkpoint wherever one is expected. No daemon is needed.
    """
    registry = _registry(session)
    with passing_notice("reading the checkpoints…"):
        found = registry.of_run(run, check_bytes=verify) if run else registry.entries(check_bytes=verify)
    wanted = [entry for entry in found if env_id in (None, entry.env_id) and algo in (None, entry.algo)]
    shown = wanted if everything else wanted[:limit]
    if as_json:
        fmt.echo_json({"checkpoints": [entry.to_json() for entry in shown], "total": len(wanted)})
    else:
        _tell_list(shown, len(wanted), is_filtered=bool(run or env_id or algo))


def _tell_list(shown: Sequence[CheckpointEntry], total: int, *, is_filtered: bool) -> None:
    if not shown:
        if is_filtered:
            click.echo(f"No checkpoint is like that. `{program()} checkpoints` lists them all.")
        else:
            click.echo(f"No checkpoints yet. Runs write them: {program()} train ppo --env-id CartPole-v1")
        return
    headers = ["ID", "RUN", "ALGO", "ENVIRONMENT", "RETURN", "SIZE", "WRITTEN", "STATE", "NOTES"]
    rows = [_row(entry) for entry in shown]
    right = frozenset({"RETURN", "SIZE"})
    same_state: list[fmt.Shorter] = [("STATE", None)] if len({entry.integrity.state for entry in shown}) == 1 else []
    shorter: list[fmt.Shorter] = [("ALGO", None), *same_state, ("SIZE", None), ("ENVIRONMENT", None)]
    click.echo(fmt.table(headers, rows, right=right, shorter=shorter, give_way="RUN", in_the_middle=True))
    if len(shown) < total:
        click.echo(fmt.dimmed(f"{len(shown)} of {total:,} checkpoints; --all lists every one"))
    for entry in shown:
        if entry.integrity.state == "damaged":
            click.echo(f"{entry.id} is damaged: {fmt.one_line(entry.integrity.reason)}", err=True)


def _row(entry: CheckpointEntry) -> list[str]:
    mean = entry.metrics.get("mean_return")
    notes = [
        word
        for word, holds in (
            ("best", entry.is_best),
            ("last", entry.is_last and entry.origin == "run"),
            ("imported", entry.origin == "imported"),
        )
        if holds
    ]
    return [
        entry.id,
        fmt.one_line(entry.run_name) or fmt.MISSING,
        fmt.one_line(entry.algo) or fmt.MISSING,
        fmt.one_line(entry.env_id) or fmt.MISSING,
        fmt.MISSING if mean is None else fmt.quantity(mean),
        fmt.size(entry.size),
        fmt.ago(entry.created_at),
        entry.integrity.state,
        ", ".join(notes),
    ]


# ---- one checkpoint ----------------------------------------------------------------------------------------------


@checkpoints.command("show")
@checkpoint_argument
@json_option
@click.pass_obj
def show_checkpoint(session: CliSession, checkpoint: str, as_json: bool) -> None:
    """Show everything that is known of a checkpoint.

    Every byte of it is checked. The last lines are commands that go on from it.
    """
    from gym_gui.services.checkpoints import evaluations
    from gym_gui.services.checkpoints.use import capabilities

    registry = _registry(session)
    with passing_notice("reading the checkpoint…"):
        entry = registry.find(checkpoint, check_bytes=True)
    ancestry, measured, can = registry.ancestry(entry), evaluations.kept(entry), capabilities(entry)
    if as_json:
        told = {"ancestry": [_ancestor_object(one) for one in ancestry], "evaluations": measured, "capabilities": can}
        fmt.echo_json({**entry.to_json(), **told})
        return
    click.echo(f"{entry.id} ({fmt.one_line(entry.run_name)}) {fmt.painted(entry.integrity.state)}")
    click.echo(fmt.pairs([pair for pair in _facts(entry, ancestry, measured) if pair[1] not in ("", fmt.MISSING)]))
    if commands := _next(entry, can):
        click.echo("\nNext:")
        click.echo("\n".join(f"  {one}" for one in commands))


def _facts(
    entry: CheckpointEntry, ancestry: Sequence[Ancestor], measured: Sequence[dict[str, Any]]
) -> list[tuple[str, str]]:
    places = [word for word, holds in (("the best", entry.is_best), ("the last", entry.is_last)) if holds]
    place = f" ({' and '.join(places)} of its run)" if places else ""
    return [
        ("problem", fmt.one_line(entry.integrity.reason)),
        ("algorithm", fmt.one_line(entry.algo)),
        ("environment", fmt.one_line(entry.env_id)),
        ("step", f"{entry.step:,}{place}"),
        ("return", _return_text(entry.metrics)),
        ("observations", _space_text(entry.spaces.get("observation"))),
        ("actions", _space_text(entry.spaces.get("action"))),
        ("written", fmt.moment(entry.created_at)),
        ("size", fmt.size(entry.size)),
        ("sha256", fmt.one_line(entry.sha256)),
        ("history", "\n".join(_ancestor_text(one) for one in ancestry) or "trained from the start"),
        ("started fresh", ", ".join(map(fmt.one_line, entry.lineage.get("fresh", [])))),
        ("notes", "\n".join(fmt.one_line(str(note)) for note in entry.lineage.get("notes", []))),
        ("evaluated", "\n".join(line for one in measured for line in _evaluation_lines(one))),
        ("files", shlex.quote(shortest_path(entry.path))),
    ]


def _return_text(metrics: dict[str, Any]) -> str:
    mean, episodes = metrics.get("mean_return"), int(metrics.get("episodes", 0))
    if mean is None:
        return ""
    spread = f" ± {fmt.quantity(metrics['std_return'])}" if "std_return" in metrics else ""
    counted = f"the last {min(episodes, 100)} of {fmt.counted(episodes, 'episode')}"
    return f"{fmt.quantity(mean)}{spread} in training ({counted})"


def _space_text(space: Any) -> str:
    return fmt.one_line(str(space.get("text", ""))) if isinstance(space, dict) else ""


def _ancestor_text(ancestor: Ancestor) -> str:
    from gym_gui.services.checkpoints.entry import recorded_origin

    if told := recorded_origin(ancestor.lineage):
        return told
    lineage, beginning = ancestor.lineage, _BEGINNINGS.get(ancestor.kind, fmt.one_line(ancestor.kind))
    digest = fmt.one_line(str(lineage.get("sha256", "")))[:12]
    if ancestor.entry is not None:
        return f"{beginning} {ancestor.entry.id} ({digest})"
    if ancestor.kind == "import":
        return f"{beginning} {fmt.one_line(str(lineage.get('file', 'a file')))} ({digest})"
    return f"{beginning} {fmt.one_line(str(lineage.get('checkpoint', '')))} ({digest}), which is gone"


def _ancestor_object(ancestor: Ancestor) -> dict[str, Any]:
    return {**ancestor.lineage, "id": ancestor.entry.id if ancestor.entry else None}


def _evaluation_lines(result: dict[str, Any]) -> list[str]:
    lines = []
    for mode, one in result.get("results", {}).items():
        if one.get("episodes"):
            measured = (
                f"{mode} {fmt.quantity(one['mean'])} ± {fmt.quantity(one['std'])}"
                if one.get("mean") is not None and one.get("std") is not None
                else mode
            )
            where = "" if result.get("env_id") == result.get("trained_on") else f" on {result.get('env_id')}"
            told = f"{measured}{where} ({fmt.counted(one['episodes'], 'episode')}, seed {result.get('seed')})"
            lines.append(fmt.one_line(told))
    return lines


def _next(entry: CheckpointEntry, can: dict[str, bool]) -> list[str]:
    algo, env_id = (shlex.quote(fmt.one_line(text)) for text in (entry.algo, entry.env_id))
    begin = f"{program()} train {algo} --env-id {env_id}"
    named = shlex.quote(entry.id)
    commands = [(can["evaluate"], f"{program()} eval {named}")]
    commands += [(can["warm_start"], f"{begin} --warm-start {named}")]
    commands += [(can["resume"], f"{begin} --resume {named}{_further(entry)}")]
    return [command for possible, command in commands if possible]


def _further(entry: CheckpointEntry) -> str:
    """What to add so that a run that has reached its end has somewhere to go."""
    from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest

    try:
        planned = read_manifest(entry.path).args.get("total_timesteps")
    except CheckpointError:
        return ""
    over = isinstance(planned, int) and entry.step >= planned
    return f" --total-timesteps {2 * entry.step}" if over else ""
