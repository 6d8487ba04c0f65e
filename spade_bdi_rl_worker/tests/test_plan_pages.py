"""Every program that the documentation prints runs, and every shipped one as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spade_bdi_rl_worker.agent.actions import _OWN
from spade_bdi_rl_worker.agent.program import SHIPPED
from spade_bdi_rl_worker.tests.alone import live, make_agent

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
_PROGRAM = re.compile(r"<!-- tested -->\n```asl\n(.*?)```", re.DOTALL)
PROGRAMS = {
    f"{page.stem}-{number}": text
    for page in (PAGES / "bdi-in-ten-minutes.md", PAGES / "write-plans.md")
    for number, text in enumerate(_PROGRAM.findall(page.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_printed_program_learns(name: str) -> None:
    agent = live(make_agent(PROGRAMS[name], episodes=1500))
    assert agent.is_over and agent.runtime.episodes == 1500


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.asl")))
def test_a_shipped_program_learns(name: str) -> None:
    agent = live(make_agent(name, episodes=1000, peers=("learner",)))
    assert agent.is_over and agent.runtime.episodes == 1000


def test_every_action_is_described() -> None:
    page = (PAGES / "write-plans.md").read_text(encoding="utf-8")
    assert not [name for name, _, _ in _OWN if f"`{name}" not in page]
