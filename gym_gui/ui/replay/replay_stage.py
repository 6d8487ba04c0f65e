"""The stage of a replay: the picture of a step, the episode as a strip to drag, and what to do with it."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent, QKeySequence, QResizeEvent, QShortcut
from PyQt6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.play.actors import actor_title
from gym_gui.ui.play.stage_hud import Chip, Hud
from gym_gui.ui.play.words import signed, speed_words
from gym_gui.ui.replay.desk import Opened, Picture, ReplayDesk
from gym_gui.ui.replay.reward_strip import FLAT, FULL, LOW, RewardStrip
from gym_gui.ui.replay.transport import ReplayTransport
from gym_gui.ui.replay.words import badge, picture_note
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.ask_bar import AskBar
from gym_gui.ui.widgets.banner import Banner
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.frame_view import FrameView
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.steps.recordings import EVALUATION

ACTIONS = ("replay-mp4", "replay-gif", "replay-dataset", "replay-take-over")
_NARROW, _LOW, _FLAT, _TINY = 600, 520, 400, 290
_TEN = 10
STEPPING = ("Left", "Right", "Shift+Left", "Shift+Right")
TURNS = ("[", "]")
"""Keys that go to the step at which somebody else took the seat."""


class ReplayPicture(QFrame):
    """A picture with chips over it; without one, why there is none."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.frame = FrameView(fills=True)
        self.nothing = QLabel()
        self.nothing.setProperty("role", "muted")
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.nothing.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frame, 1)
        layout.addWidget(self.nothing, 1)
        self.hud = Hud(cockpit.themes, self)
        self.setMinimumSize(160, 96)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.show_picture(None)

    def sizeHint(self) -> QSize:
        return QSize(480, 300)

    def show_picture(self, picture: Picture | None) -> None:
        if picture is not None:
            self.frame.show_frame(picture)
        self.frame.setVisible(picture is not None)
        self.nothing.setVisible(picture is None)
        self.hud.raise_()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self.hud.setGeometry(self.rect())


class ReplayStage(QWidget):
    """Follows the desk. ``left()``: the person closes the replay."""

    left = pyqtSignal()

    def __init__(self, cockpit: Cockpit, desk: ReplayDesk) -> None:
        super().__init__()
        self._cockpit, self._desk = cockpit, desk
        self._is_tiny = False
        themes = cockpit.themes
        self.title = ElidedLabel()
        self.title.setProperty("role", "huge")
        self.badge = StatusBadge(themes)
        self.badge.setAccessibleName(self.tr("Whether the replay is as recorded"))
        self.total, self.about = QLabel(), ElidedLabel()
        self.total.setProperty("role", "title")
        self.about.setProperty("role", "muted")
        self.close_button = QToolButton()
        self.close_button.setAccessibleName(self.tr("Close the replay"))
        self.close_button.setToolTip(self.tr("Close the replay (Esc)"))
        self.close_button.clicked.connect(self.left)
        self.note = Banner("warning")
        self.note.say("")
        self.note.acted.connect(desk.reopen)
        self.picture = ReplayPicture(cockpit)
        self.strip = RewardStrip(themes)
        self.strip.wanted.connect(self._pointed)
        self.transport = ReplayTransport(desk, themes)
        self.film_name = QLabel()
        self.film_name.setProperty("role", "muted")
        self.film_progress = QProgressBar()
        self.film_progress.setAccessibleName(self.tr("Progress of the film"))
        self.film_cancel = QPushButton(self.tr("Cancel"))
        self.film_cancel.setToolTip(self.tr("Give the film up; nothing of it is left"))
        self.film_cancel.clicked.connect(desk.cancel_export)
        self.dataset_name = QLineEdit()
        self.dataset_name.setAccessibleName(self.tr("Name of the dataset"))
        self.dataset_name.setPlaceholderText(self.tr("name, such as good-landings"))
        self.dataset_bar = AskBar(self.dataset_name, harmless=True)
        self.buttons = self._make_actions()
        self._lay_out()
        self._add_keys()
        self.setFocusProxy(self.strip)
        desk.opened.connect(self._tell)
        desk.told.connect(self._tell)
        desk.listed.connect(lambda: self._tell() if desk.current is None else None)
        desk.place_changed.connect(self._tell_place)
        desk.picture_arrived.connect(self.picture.show_picture)
        desk.player.changed.connect(self._tell_chips)
        themes.changed.connect(self._dress)
        self._dress(themes.theme)
        self._tell()

    def _make_actions(self) -> ActionButtons:
        tr = self.tr
        titles = {
            "replay-mp4": tr("Export MP4…"),
            "replay-gif": tr("GIF…"),
            "replay-dataset": tr("Add to a dataset…"),
            "replay-take-over": tr("Take over here"),
        }
        signs = {
            "replay-mp4": "film",
            "replay-gif": "export",
            "replay-dataset": "dataset",
            "replay-take-over": "take-over",
        }
        return ActionButtons(self._cockpit.commands, ACTIONS, titles, themes=self._cockpit.themes, signs=signs)

    def _lay_out(self) -> None:
        self._head = QWidget()
        head = QHBoxLayout(self._head)
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(10)
        for widget in (self.title, self.badge):
            head.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        for at_the_end in (self.total, self.close_button):
            head.addWidget(at_the_end, 0, Qt.AlignmentFlag.AlignVCenter)
        self.film = QFrame()
        self.film.setProperty("role", "banner")
        film = QHBoxLayout(self.film)
        film.setContentsMargins(12, 4, 6, 4)
        film.addWidget(self.film_name)
        film.addWidget(self.film_progress, 1)
        film.addWidget(self.film_cancel)
        self.film.hide()
        layout = QVBoxLayout(self)
        layout.addWidget(self._head)
        layout.addWidget(self.about)
        layout.addWidget(self.note)
        layout.addWidget(self.picture, 1)
        layout.addWidget(self.strip)
        layout.addWidget(self.transport)
        layout.addWidget(self.film)
        layout.addWidget(self.dataset_bar)
        layout.addWidget(self.buttons)

    def hasHeightForWidth(self) -> bool:
        """No: text that wraps in a question below would have the page ask for the height that its picture likes best,
        and the question would be out of sight. The picture takes what is left."""
        return False

    def heightForWidth(self, width: int) -> int:
        return -1

    def fit(self, room: QSize) -> None:
        """In a small window the picture keeps its room: words give way first, then the rewards, at last the buttons,
        whose commands are in the menu and have keys."""
        narrow, low = room.width() < _NARROW, room.height() < _LOW
        flat, self._is_tiny = room.height() < _FLAT, room.height() < _TINY
        self.about.setVisible(not low)
        set_style_property(self.title, "role", "title" if low or narrow else "huge")
        self.strip.set_height(FLAT if flat else LOW if low else FULL)
        side = 12 if narrow or low else 20
        self.transport.fit(room.width() - 2 * side)
        self._head.setVisible(not self._is_tiny)
        self.buttons.setVisible(not self._is_tiny)
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(side, 6 if low else 14, side, 6 if low else 12)
        layout.setSpacing(4 if flat else 6 if low else 10)
        self._tell_chips()

    def _dress(self, theme: Theme) -> None:
        self.close_button.setIcon(icon("close", theme.colour("muted")))

    # ---- keys ----------------------------------------------------------------------------------------------------

    def _add_keys(self) -> None:
        """Arrows belong to buttons otherwise; Space stays theirs while one has the focus."""
        self.lend_keys(self, *STEPPING, *TURNS, "Home", "End")

    def lend_keys(self, widget: QWidget, *keys: str) -> None:
        """Have these keys do in a widget, and in what is inside it, what they do in the replay."""
        desk = self._desk
        acts: dict[str, Callable[[], object]] = {
            "Left": lambda: desk.step(-1),
            "Right": lambda: desk.step(1),
            "Shift+Left": lambda: desk.step(-_TEN),
            "Shift+Right": lambda: desk.step(_TEN),
            "Home": self.transport.first.click,
            "End": self.transport.last.click,
            "[": lambda: desk.hand_over(forwards=False),
            "]": lambda: desk.hand_over(forwards=True),
            "Space": desk.player.toggle,
            "Escape": self.left.emit,
        }
        for key in keys:
            shortcut = QShortcut(QKeySequence(key), widget)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(acts[key])

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Space:
            self._desk.player.toggle()
        elif event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _pointed(self, place: int) -> None:
        self._desk.player.pause()
        self._desk.seek(place)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        now = self._desk.current
        if now is None:
            self._tell_nothing()
            return
        self.title.setText(one_line(now.title))
        self._tell_badge(now)
        record = now.record
        total = record.total if record is not None else now.episode.total if now.episode is not None else None
        self.total.setText("" if total is None else self.tr("{total} return").format(total=signed(total)))
        self.about.setText(self._about(now))
        differing = now.checked.difference if now.checked is not None else None
        self.strip.show_episode(record, now.steps, differing.place if differing is not None else -1)
        self._tell_film(now)
        self._tell_place(self._desk.place)

    def _tell_nothing(self) -> None:
        """Nothing is open: the run has nothing, or it is being read."""
        desk = self._desk
        reading = self.tr("Reading what was recorded…")
        self.title.setText(self.tr("Replay"))
        self.badge.show_state("")
        self.total.clear()
        self.about.clear()
        self.note.say("")
        self.film.hide()
        self.picture.show_picture(None)
        self.picture.hud.show_chips([], [])
        self.picture.nothing.setText(reading if desk.is_listing else desk.problem or self.tr("Choose an episode."))
        self.strip.show_episode(None, 0)

    def _tell_badge(self, now: Opened) -> None:
        if now.clip is not None:
            self.badge.show_state(self.tr("clip"), colour_name="idle")
            return
        said = badge(now.checked, now.gone)
        self.badge.show_state(said.text, colour_name=said.colour)
        self.badge.setToolTip(said.sentence or said.text)

    def _about(self, now: Opened) -> str:
        source = self._desk.source
        about = source.about if source is not None else {}
        if now.clip is not None:
            return self.tr("filmed while {run} trained").format(run=one_line(str(about.get("run_name") or "")))
        parts = [str(about.get("env_id") or "")]
        if now.episode is not None:
            parts.append(self.tr("seed {seed}").format(seed=now.episode.seed))
            parts += self._who(now)
            parts.append(now.episode.outcome or self.tr("not ended"))
        parts.append(self.tr("evaluation") if about.get("kind") == EVALUATION else str(about.get("run_name") or ""))
        return " · ".join(one_line(part) for part in parts if part)

    def _who(self, now: Opened) -> list[str]:
        counts: dict[str, int] = {}
        for stripe in now.episode.stripes if now.episode is not None else ():
            counts[stripe.actor] = counts.get(stripe.actor, 0) + stripe.end - stripe.first
        words = [f"{actor_title(actor)} {count:,}" for actor, count in counts.items()]
        return [self.tr("{who} steps").format(who=", ".join(words))] if words else []

    def _tell_film(self, now: Opened) -> None:
        going = now.exporting
        self.film.setVisible(going is not None)
        if going is not None:
            self.film_name.setText(self.tr("filming"))
            self.film_progress.setRange(0, max(1, going.of))
            self.film_progress.setValue(going.frames)

    def _tell_place(self, place: int) -> None:
        now = self._desk.current
        if now is None:
            return
        self.strip.show_place(place)
        note = picture_note(now, place)
        again = self.tr("Open again") if now.gone else ""
        self.note.say(note, again, self.tr("Start the simulation of this episode again"))
        self.picture.nothing.setText(self._why_no_picture(now))
        self._tell_chips()

    def _why_no_picture(self, now: Opened) -> str:
        if now.shown is None and not now.gone:
            return self.tr("The environment is being started…")
        return self.tr("There is no picture of this step. What was recorded of it is shown beside.")

    def _tell_chips(self) -> None:
        now = self._desk.current
        if now is None:
            return
        place, record = self._desk.place, now.record
        actor = None
        if record is not None and len(record):
            actor = record.episode.actors[min(place, len(record) - 1)]
        left = [Chip(self.tr("Clip") if now.clip is not None else self.tr("Replay"), weight=1)]
        if self._is_tiny and now.clip is None:
            left = [Chip(badge(now.checked, now.gone).text, now.title, weight=3)]
        if actor is not None:
            who = actor_title(actor)
            left.append(Chip(who[:1].upper() + who[1:], actor=actor, weight=6))
        right = [Chip(f"{place:,} / {now.steps:,}", self.tr("step"), weight=5)]
        if record is not None:
            so_far = float(record.returns[place - 1]) if 0 < place <= len(record) else 0.0
            right.append(Chip(signed(so_far), self.tr("return"), weight=4))
        right.append(Chip(speed_words(self._desk.player.speed), self.tr("speed"), weight=2))
        self.picture.hud.show_chips(left, right)
