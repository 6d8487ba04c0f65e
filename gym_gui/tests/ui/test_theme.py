"""Every text of the cockpit can be read: its contrast with what it stands on is at least 4.5, in both looks."""

from __future__ import annotations

import re

import pytest
from PyQt6.QtGui import QColor, QImage, QPainter, QPalette
from PyQt6.QtWidgets import QApplication, QLineEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.ui.icons import icon
from gym_gui.ui.theme import _SHEET, DARK, LIGHT, PILL_TINT, Theme, Themes, blended
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.status_badge import _COLOURS

LEAST = 4.5
GROUNDS = ("window", "panel", "field", "raised", "selection")
WORDS = ("text", "muted", "accent", "good", "warning", "bad", "idle")
BOTH = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)


def luminance(colour: QColor) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(channel) for channel in (colour.redF(), colour.greenF(), colour.blueF()))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: QColor, other: QColor) -> float:
    """The ratio of WCAG 2: 1 for equal colours, 21 for black on white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_an_icon_that_is_asked_for_again_is_not_made_again(qtbot: QtBot) -> None:
    """Its maker keeps every icon: one for each call would be a leak."""
    names = [icon("run", QColor("#80336699")).cacheKey() for _ in range(3)]
    assert len(set(names)) == 1
    assert icon("run", QColor("#40336699")).cacheKey() != names[0], "the same colour, less of it"


def test_contrast_is_what_the_standard_says() -> None:
    assert contrast(QColor("black"), QColor("white")) == pytest.approx(21)
    assert contrast(QColor("#777777"), QColor("white")) == pytest.approx(4.48, abs=0.01)


@BOTH
def test_every_word_can_be_read_on_every_ground(theme: Theme) -> None:
    poor = {
        (word, ground): round(found, 2)
        for word in WORDS
        for ground in GROUNDS
        if (found := contrast(theme.colour(word), theme.colour(ground))) < LEAST
    }
    assert poor == {}
    assert contrast(theme.colour("on_fill"), theme.colour("fill")) >= LEAST


@BOTH
def test_every_rule_of_the_style_sheet_can_be_read(theme: Theme) -> None:
    """Each rule that names a text's colour is read on the ground that it names itself, or on every ground."""
    checked = 0
    for rule in re.findall(r"\{([^{}]*)\}", _SHEET.template):
        for colour, background in (("color", "background"), ("selection-color", "selection-background-color")):
            word = re.search(rf"(?<![\w-]){colour}: \$(\w+)", rule)
            ground = re.search(rf"(?<![\w-]){background}: \$(\w+)", rule)
            if word is not None:
                for one in [ground[1]] if ground is not None else GROUNDS:
                    checked += 1
                    assert contrast(theme.colour(word[1]), theme.colour(one)) >= LEAST, rule
    assert checked > 30


@BOTH
def test_the_pill_of_every_state_can_be_read(theme: Theme) -> None:
    for word, name in _COLOURS.items():
        for ground in ("window", "panel", "selection"):
            below = theme.colour(ground)
            pill = blended(theme.colour(name), below, PILL_TINT)
            assert contrast(theme.pill_text(name), pill) >= LEAST, (word, ground)


@BOTH
def test_curves_stand_out_from_the_plot(theme: Theme) -> None:
    for number in range(len(theme.curves)):
        assert contrast(theme.curve(number), theme.colour("panel")) >= 3, theme.curves[number]


@BOTH
def test_a_placeholder_can_be_read(theme: Theme, qapp: QApplication, qtbot: QtBot) -> None:
    """As it is painted: a style sheet makes placeholders half transparent unless it sets their colour."""
    themes = Themes(qapp, theme.name)
    line = QLineEdit()
    qtbot.addWidget(line)
    line.setPlaceholderText("█████████")
    line.resize(200, 40)
    line.ensurePolished()
    assert line.palette().color(QPalette.ColorRole.PlaceholderText).alpha() == 255
    image = QImage(line.size(), QImage.Format.Format_RGB32)
    painter = QPainter(image)
    line.render(painter)
    painter.end()
    ground = theme.colour("field")
    seen = {QColor(image.pixel(x, y)).name() for x in range(10, 100) for y in range(10, 30)}
    assert max(contrast(QColor(name), ground) for name in seen) >= LEAST
    themes.deleteLater()


@pytest.mark.parametrize("words", [("Belief", "Goal"), ("No groups", "seed"), ("learner",)])
def test_a_list_that_has_the_room_it_asks_for_cuts_no_word(qapp: QApplication, words: tuple[str, ...]) -> None:
    Themes(qapp)
    combo = CalmCombo()
    combo.addItems(words)
    combo.resize(combo.sizeHint())
    for word in words:
        combo.setCurrentText(word)
        assert combo.shown_text() == word


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_a_dangerous_button_that_cannot_be_used_is_grey(qapp: QApplication, qtbot: QtBot, theme: Theme) -> None:
    themes = Themes(qapp, theme.name)
    ground = QWidget()  # a button that cannot be used is transparent, and a picture of it alone is undefined
    ground.resize(200, 60)
    qtbot.addWidget(ground)

    def drawn(kind: str, *, usable: bool) -> QImage:
        button = QPushButton("Delete for good…", ground)
        button.setProperty("kind", kind)
        button.setEnabled(usable)
        picture = ground.grab().toImage()
        button.setParent(None)
        return picture

    assert drawn("danger", usable=True) != drawn("", usable=True)
    assert drawn("danger", usable=False) == drawn("", usable=False)
    themes.deleteLater()
