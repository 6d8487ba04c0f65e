"""The documentation names everything there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from gym_gui.logging_config.log_constants import by_code
from gym_gui.services.trainer.settings import PREFIX, TrainerSettings
from mosaic_protocol.proto import trainer_pb2

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks/README.md"])


def test_every_setting_of_the_daemon_is_documented() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    missing = [one.name for one in fields(TrainerSettings) if f"`{PREFIX}{one.name.upper()}`" not in page]
    assert missing == []


def test_every_call_of_the_service_is_documented() -> None:
    page = (ROOT / "docs/reference/rpc.md").read_text()
    calls = trainer_pb2.DESCRIPTOR.services_by_name["TrainerService"].methods_by_name
    assert [name for name in calls if f"`{name}`" not in page] == []


def test_log_codes_are_unique_and_in_their_range() -> None:
    assert all(re.fullmatch(r"LOG[4-8]\d\d", code) for code in by_code())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
