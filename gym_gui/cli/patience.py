"""A connection for commands that look again and again for hours: a daemon that goes away does not end them."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import click

from gym_gui.cli.session import CliSession, program

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient

T = TypeVar("T")
_POLL_SECONDS = 0.5


class Patient:
    """Asks whichever daemon serves the data root. ``goes_on``: what does so meanwhile, said once each time it is away.
    A question may be asked twice: the answer of a daemon that died was lost."""

    def __init__(self, session: CliSession, goes_on: str) -> None:
        self._session, self._goes_on = session, goes_on
        self._client: TrainerClient | None = None
        self._has_told = False

    def ask(self, question: Callable[[TrainerClient], T]) -> T:
        from gym_gui.services.trainer.client import DaemonAwayError

        while True:
            if self._client is None:
                self._client = self._session.impatient_client()
            if self._client is not None:
                try:
                    answer = question(self._client)
                except DaemonAwayError:
                    self._drop()  # the next daemon may listen elsewhere
                else:
                    self._has_told = False
                    return answer
            self._tell()
            time.sleep(_POLL_SECONDS)

    def _tell(self) -> None:
        if not self._has_told:
            self._has_told = True
            back = f"`{program()} daemon start` brings it back"
            click.echo(f"mosaic: trainer daemon away, waiting… ({self._goes_on}; {back})", err=True)

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Patient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()
