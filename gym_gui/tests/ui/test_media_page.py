"""Histograms, images, texts and clips in Metrics: read beside the GUI, and only what is seen."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from PyQt6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from gym_gui.services.scalars.media import RunMedia
from gym_gui.tests.support.made_logs import NAME, written
from gym_gui.tests.support.made_media import chunk, image, new_histogram, normal, png, text
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_metrics_panel import opened
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.media.cards import HistogramCard, MediaCard, PictureCard, TextCard
from gym_gui.ui.media.page import MOST_CARDS, ClipCard
from gym_gui.ui.panels.metrics_panel import MetricsPanel

HANG = 10_000


@pytest.fixture
def cockpit(make_cockpit: MakeCockpit) -> CockpitApp:
    cockpit, _ = opened(make_cockpit, None)
    cockpit.bridge.start()  # without a daemon: files are read all the same
    cockpit.window.resize(1000, 800)
    return cockpit


@pytest.fixture
def panel(cockpit: CockpitApp) -> MetricsPanel:
    found = cockpit.window.findChild(MetricsPanel)
    assert found is not None
    return found


def with_run(cockpit: CockpitApp, folder: Path, *parts: bytes, number: int = 1, state: str = "TERM") -> str:
    """A run whose event files hold these."""
    if parts:
        written(folder / "tensorboard", *parts)
    run = made(number, state=state, run_dir=str(folder))
    shared = cockpit.window.cockpit
    shared.runs.take([run])
    shared.selection.select([*shared.selection.ids, run.run_id])
    return run.run_id


def card(panel: MetricsPanel, tag: str) -> MediaCard:
    found = [one for (_, name), one in panel.media.cards.items() if name == tag]
    assert found and isinstance(found[0], MediaCard)
    return found[0]


def shows(panel: MetricsPanel, *tags: str) -> bool:
    return sorted(tag for _, tag in panel.media.cards) == sorted(tags)


def test_a_histogram_is_a_picture_of_all_steps_and_bars_of_one(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    with_run(cockpit, tmp_path, *(normal("weights", step, step / 100) for step in range(0, 500, 100)))
    panel.toolbar.show_kind("histogram")
    qtbot.waitUntil(lambda: shows(panel, "weights"), timeout=HANG)
    shown = card(panel, "weights")
    assert isinstance(shown, HistogramCard)
    qtbot.waitUntil(lambda: len(shown.histograms) == 5, timeout=HANG)
    assert shown.step.text() == "step 400" and shown.about.text() == "5 steps"
    assert shown.heat.heat is not None and shown.heat.heat.edges[0] == pytest.approx(-3)
    shown.slider.setValue(1)
    assert shown.step.text() == "step 100" and shown.bars.heat is not None
    assert shown.bars.heat.edges[0] == pytest.approx(-2)
    picture = shown.heat.image()
    assert picture is not None and picture.width() > 50
    left, right = picture.pixelColor(0, picture.height() - 1), picture.pixelColor(0, 0)
    assert left != right, "the first step lies low"
    assert not panel.toolbar.smoothing.isVisible()
    panel.toolbar.show_kind("curves")
    assert panel.toolbar.smoothing.isVisible()


def test_the_slider_shows_the_picture_of_its_step(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    sizes = [(4, 3), (8, 8), (16, 2)]
    with_run(cockpit, tmp_path, *(image("frame", step, png(*size)) for step, size in enumerate(sizes)))
    panel.toolbar.show_kind("image")
    qtbot.waitUntil(lambda: shows(panel, "frame"), timeout=HANG)
    shown = card(panel, "frame")
    assert isinstance(shown, PictureCard)

    def size() -> tuple[int, int]:
        return (shown.view.image.width(), shown.view.image.height()) if shown.view.image is not None else (0, 0)

    qtbot.waitUntil(lambda: size() == (16, 2), timeout=HANG)
    shown.slider.setValue(0)
    qtbot.waitUntil(lambda: size() == (4, 3), timeout=HANG)
    assert shown.step.text() == "step 0" and shown.view.toolTip() == "4 x 3"


def test_a_text_is_shown_as_it_is_and_obeyed_by_nobody(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    with_run(cockpit, tmp_path, text("notes", 3, "<b>bold</b>\x1b[31m"))
    panel.toolbar.show_kind("text")
    qtbot.waitUntil(lambda: shows(panel, "notes/text_summary"), timeout=HANG)
    shown = card(panel, "notes/text_summary")
    assert isinstance(shown, TextCard)
    qtbot.waitUntil(lambda: shown.view.toPlainText() == "<b>bold</b>\\u001b[31m", timeout=HANG)


def test_what_is_hostile_is_a_sentence_in_its_card_and_disturbs_no_other(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    bomb = png(64, 64)[:33] + chunk(b"IDAT", b"x") + chunk(b"IEND", b"")
    head = png(1, 1)
    huge = head[:8] + chunk(b"IHDR", bytes.fromhex("000f4240000f42400802000000")) + head[33:]
    broken = bytearray(image("gone", 1, png(2, 2)))
    broken[60] ^= 1
    gif = b"GIF89a\x02\x00\x02\x00"
    parts = [image(tag, 1, data) for tag, data in (("bomb", bomb), ("huge", huge), ("gif", gif), ("good", png(3, 3)))]
    with_run(cockpit, tmp_path, *parts, bytes(broken), image("half", 1, png(9, 9))[:-9])
    panel.toolbar.show_kind("image")
    qtbot.waitUntil(lambda: shows(panel, "bomb", "gif", "good", "huge"), timeout=HANG)
    good = card(panel, "good")
    assert isinstance(good, PictureCard)
    qtbot.waitUntil(lambda: good.view.image is not None, timeout=HANG)
    for tag, sentence in (("bomb", "cut off"), ("huge", "1,000,000 x 1,000,000"), ("gif", "GIF clip")):
        panel.media._scroll.ensureWidgetVisible(card(panel, tag))
        qtbot.waitUntil(lambda tag=tag, words=sentence: words in card(panel, tag).problem.text(), timeout=HANG)
    assert "1 record is damaged" in panel.media.note.text()


def test_a_histogram_nobody_can_look_at_is_a_sentence(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    many = [(0.0, 1.0, 1.0)] * 10_001
    with_run(cockpit, tmp_path, new_histogram("w", 1, *many), new_histogram("w", 2, *many), normal("ok", 1, 0.0))
    panel.toolbar.show_kind("histogram")
    qtbot.waitUntil(lambda: shows(panel, "ok", "w"), timeout=HANG)
    good, bad = card(panel, "ok"), card(panel, "w")
    assert isinstance(good, HistogramCard)
    qtbot.waitUntil(lambda: len(good.histograms) == 1, timeout=HANG)
    panel.media._scroll.ensureWidgetVisible(bad)
    qtbot.waitUntil(lambda: "10,001 buckets" in bad.problem.text(), timeout=HANG)
    assert "1 more are like it" in bad.problem.text() and not bad.slider.isVisible()


def test_only_what_is_in_sight_is_read_and_never_in_the_thread_of_the_gui(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, bool]] = []
    true = RunMedia.histogram

    def noted(self: RunMedia, entry: object) -> object:
        read.append((entry.tag, threading.current_thread() is threading.main_thread()))  # type: ignore[attr-defined]
        return true(self, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(RunMedia, "histogram", noted)
    with_run(cockpit, tmp_path, *(normal(f"layer-{number:02d}", 1, 0.0) for number in range(40)))
    panel.toolbar.show_kind("histogram")
    qtbot.waitUntil(lambda: len(panel.media.cards) == 40, timeout=HANG)
    first, last = card(panel, "layer-00"), card(panel, "layer-39")
    assert isinstance(first, HistogramCard) and isinstance(last, HistogramCard)
    qtbot.waitUntil(lambda: len(first.histograms) == 1, timeout=HANG)
    assert ("layer-39", False) not in read and not any(in_gui for _, in_gui in read)

    def seen_at_the_end() -> bool:
        panel.media._scroll.ensureWidgetVisible(last)
        return len(last.histograms) == 1

    qtbot.waitUntil(seen_at_the_end, timeout=HANG)
    assert len(read) < 40


def test_a_run_that_goes_on_is_looked_through_again(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    with_run(cockpit, tmp_path, normal("w", 1, 0.0), state="EXEC")
    panel.toolbar.show_kind("histogram")
    qtbot.waitUntil(lambda: shows(panel, "w"), timeout=HANG)
    shown = card(panel, "w")
    assert isinstance(shown, HistogramCard)
    qtbot.waitUntil(lambda: len(shown.histograms) == 1, timeout=HANG)
    with (tmp_path / "tensorboard" / NAME).open("ab") as file:
        file.write(normal("w", 2, 1.0) + normal("v", 2, 1.0))
    panel.media._look_timer.timeout.emit()
    qtbot.waitUntil(lambda: shows(panel, "v", "w") and len(shown.histograms) == 2, timeout=HANG)
    assert card(panel, "w") is shown and shown.step.text() == "step 2", "it follows while nobody moved the slider"


def test_several_runs_stand_beside_each_other_by_tag(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    ids = [
        with_run(cockpit, tmp_path / str(number), image("a", 1, png(1, 1)), image("b", 1, png(1, 1)), number=number)
        for number in (1, 2)
    ]
    panel.toolbar.show_kind("image")
    wanted = [(run_id, tag) for tag in ("a", "b") for run_id in ids]
    qtbot.waitUntil(lambda: [key for key, _, _ in panel.media._found] == wanted, timeout=HANG)
    qtbot.waitUntil(lambda: len(panel.media.cards) == 4, timeout=HANG)
    assert card(panel, "a").run.isVisible()
    panel.toolbar.filter.setText("b")
    qtbot.waitUntil(lambda: [key for key, _, _ in panel.media._found] == wanted[2:], timeout=HANG)
    cockpit.window.cockpit.selection.select(ids[:1])
    qtbot.waitUntil(lambda: shows(panel, "b") and not card(panel, "b").run.isVisible(), timeout=HANG)


def test_more_tags_than_anybody_looks_at_are_said(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    with_run(cockpit, tmp_path, *(text(f"t{number}", 1, "x") for number in range(MOST_CARDS + 3)))
    panel.toolbar.show_kind("text")
    qtbot.waitUntil(lambda: f"first {MOST_CARDS} of {MOST_CARDS + 3}" in panel.media.note.text(), timeout=HANG)


def test_clips_of_a_training_lead_to_the_replay(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "videos").mkdir()
    for step in (200, 1000):
        (tmp_path / "videos" / f"clip-{step}.mp4").write_bytes(b"film")
    run_id = with_run(cockpit, tmp_path)
    panel.toolbar.show_kind("clip")
    qtbot.waitUntil(lambda: len(panel.media.cards) == 2, timeout=HANG)
    first = next(iter(panel.media.cards.values()))
    assert isinstance(first, ClipCard)
    with qtbot.waitSignal(panel.media.clip_wanted, timeout=HANG) as wanted:
        first.findChildren(QPushButton)[0].click()
    assert wanted.args == [run_id, tmp_path / "videos" / "clip-200.mp4"]


@pytest.mark.parametrize(
    ("kind", "title", "advice"),
    [
        ("histogram", "No histograms", "SummaryWriter.add_histogram"),
        ("image", "No images", "SummaryWriter.add_image"),
        ("text", "No texts", "SummaryWriter.add_text"),
        ("clip", "No clips", "--capture-video"),
    ],
)
def test_where_there_is_nothing_it_is_said_how_to_get_some(
    cockpit: CockpitApp, panel: MetricsPanel, qtbot: QtBot, tmp_path: Path, kind: str, title: str, advice: str
) -> None:
    panel.toolbar.show_kind(kind)
    assert panel.media.empty.title.text() == "No run is selected"
    with_run(cockpit, tmp_path)
    qtbot.waitUntil(lambda: panel.media.empty.title.text() == title, timeout=HANG)
    assert advice in panel.media.empty.text.text()


def test_the_palette_leads_to_each_kind(cockpit: CockpitApp, panel: MetricsPanel) -> None:
    act = cockpit.window.cockpit.commands.action
    for kind in ("histogram", "image", "text", "clip", "curves"):
        act(f"metrics-show-{kind}").trigger()
        bar = panel.toolbar
        assert bar.shown_kind == kind
        layout = bar.layout()
        assert layout is not None
        layout.activate()
        in_one_row = abs(bar.filter.geometry().center().y() - bar.kind.geometry().center().y()) < 8
        assert in_one_row == (kind != "curves"), "the filter has no row of its own"
