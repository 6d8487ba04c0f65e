"""Which names runs have already, asked of the daemon by those who keep no list of runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient

_PAGE = 1000
_STEM = 100
"""What is left of a long name when a word and a number are put behind it."""


def taken_names(client: TrainerClient, wanted: str) -> Callable[[str], bool]:
    """Whether a run is called so, for a name and what ``fresh_name`` and ``derived_name`` make of it; runs
    in the trash count, because they may come back. One question, unless there are thousands of them."""
    stem, token, found = re.sub(r"-\d{1,6}$", "", wanted)[:_STEM], "", set[str]()
    while True:
        page = client.runs(size=_PAGE, token=token, search=stem, include_deleted=True)
        found.update(run.name for run in page.runs)
        if not (token := page.next_page_token):
            return found.__contains__
