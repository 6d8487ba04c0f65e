"""What commands on recorded steps share: a run, or the folder of a recorded evaluation, behind one word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.session import CliSession, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.recorded_steps import StepSource


@contextmanager
def step_source(session: CliSession, word: str) -> Iterator[StepSource]:
    """The recorded steps that a word means. A folder needs no daemon."""
    from gym_gui.services import recorded_steps

    folder = recorded_steps.folder_meant(word)
    if folder is not None:
        yield recorded_steps.of_folder(folder)
        return
    with session.client() as client:
        yield recorded_steps.of_run(client, client.run(run_id_for(client, word)))


def require_episode(source: StepSource, episode: int) -> None:
    """Raise CliError when there are no steps at all, or none of this episode."""
    if next(source.chunks(episode), None) is not None:
        return
    if next(source.chunks(None), None) is None:
        sentence = f"{source.name} has no recorded steps: its worker records none, or has not begun"
        raise CliError(sentence, ExitCode.REFUSED)
    raise CliError(
        f"{source.name} has no recorded episode {episode}: `mosaic episodes` lists those there are", ExitCode.REFUSED
    )
