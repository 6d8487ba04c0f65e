"""Who has the seat: you or a trained policy, and the way from one to the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent, QMouseEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.ui.icons import icon
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.checkpoint_card import facts_text, score_text
from gym_gui.ui.widgets.elided_label import ElidedLabel
from mosaic_protocol.live.messages import State

_ICON = 18
_CURVES = {"human": 1, "policy": 0}
"""Orange is the person, blue the agent, as everywhere."""


class SeatCard(QFrame):
    """One of those who share the seat. ``pressed()`` when it is clicked, or Return or Space is pressed on it."""

    pressed = pyqtSignal()

    def __init__(self, themes: Themes, actor: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes, self._actor, self._has_seat = themes, actor, False
        self.setProperty("role", "card")
        self.setObjectName(f"seat-{actor}")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._sign = QLabel()
        self.title = ElidedLabel()
        self.title.setText(title)
        self.now = QLabel()
        self.now.setProperty("role", "muted")
        self.now.setWordWrap(True)
        self.now.setMinimumHeight(self.now.fontMetrics().lineSpacing())
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._sign)
        head.addWidget(self.title)
        head.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(2)
        layout.addLayout(head)
        layout.addWidget(self.now)
        themes.changed.connect(self._dress)
        self._dress(themes.theme)

    def tell(self, title: str, now: str, *, has_seat: bool) -> None:
        self.title.setText(title)
        self.now.setText(now)
        self.setAccessibleName(f"{title}: {now}")
        if has_seat != self._has_seat:
            self._has_seat = has_seat
            self._dress(self._themes.theme)

    def _dress(self, theme: Theme) -> None:
        colour = theme.curve(_CURVES[self._actor])
        self._sign.setPixmap(icon("human" if self._actor == "human" else "worker", colour).pixmap(QSize(_ICON, _ICON)))
        ring = colour.name() if self._has_seat else theme.border
        focus = theme.accent
        name = self.objectName()
        self.setStyleSheet(
            f"QFrame#{name} {{ background: {theme.field}; border: 1px solid {ring}; border-radius: 8px; }}"
            f"QFrame#{name}:focus {{ border: 2px solid {focus}; }}"
        )

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        super().mousePressEvent(event)
        self.pressed.emit()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.pressed.emit()
        else:
            super().keyPressEvent(event)


class SeatPanel(QWidget):
    """``hand_over_wanted()`` for the button and the cards; ``policy_chosen(CheckpointEntry or None)`` for the list."""

    hand_over_wanted = pyqtSignal()
    policy_chosen = pyqtSignal(object)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.entries: list[CheckpointEntry] = []
        self._state: State | None = None
        self._wanted: str | None = None
        """What was chosen last, "" for chance; None: nobody chose yet, so it is the best one that there is."""
        self.choice = CalmCombo()
        let_shrink(self.choice)
        self.choice.setAccessibleName(self.tr("Policy to share the seat with"))
        self.choice.setToolTip(self.tr("The checkpoint that watches, and plays when you hand over"))
        self.choice.activated.connect(lambda _: self._choose())
        self.you = SeatCard(themes, "human", self.tr("You"))
        self.you.setToolTip(self.tr("Take the seat"))
        self.other = SeatCard(themes, "policy", "")
        self.other.setToolTip(self.tr("Hand the seat over"))
        self.you.pressed.connect(lambda: self._pressed(to_person=True))
        self.other.pressed.connect(lambda: self._pressed(to_person=False))
        self.button = QPushButton()
        self.button.setToolTip(self.tr("Give the seat to the other; Tab does the same on the stage"))
        self.button.clicked.connect(self.hand_over_wanted)
        self.button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.note = QLabel()
        self.note.setProperty("role", "muted")
        self.note.setWordWrap(True)
        cards = QHBoxLayout()
        cards.setSpacing(8)
        cards.addWidget(self.you, 1)
        cards.addWidget(self.other, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.choice)
        layout.addLayout(cards)
        layout.addWidget(self.button)
        layout.addWidget(self.note)
        themes.changed.connect(self._dress)
        self.offer([], "")
        self._dress(themes.theme)

    # ---- the policy ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> CheckpointEntry | None:
        path = self.choice.currentData()
        return next((entry for entry in self.entries if str(entry.path) == path), None)

    def _choose(self) -> None:
        self._wanted = str(self.choice.currentData())
        self.tell(self._state)
        self.policy_chosen.emit(self.policy)

    def offer(self, entries: Sequence[CheckpointEntry], env_id: str) -> None:
        """The checkpoints that fit the environment. The chosen one stays chosen where it is among them, else the best
        one is: chance plays only where somebody chose it, or nobody else can."""
        self.entries = list(entries)
        self.choice.clear()
        self.choice.addItem(self.tr("Chance: random actions"), "")
        for entry in entries:
            self.choice.addItem(entry_words(entry), str(entry.path))
            self.choice.setItemData(self.choice.count() - 1, facts_text(entry), Qt.ItemDataRole.ToolTipRole)
        usual = best_of(entries)
        chosen = self.choice.findData(self._wanted) if self._wanted is not None else -1
        best = self.choice.findData(str(usual.path)) if usual is not None else 0
        self.choice.setCurrentIndex(chosen if chosen >= 0 else max(0, best))
        self._without = (
            self.tr("No checkpoint of {env} yet: chance plays in turns with you.").format(env=env_id)
            if env_id and not entries
            else ""
        )
        self.tell(self._state)

    def put_policy(self, entry: CheckpointEntry | None) -> None:
        """Show the one that the session has, although it may be of another list."""
        path = self._wanted = str(entry.path) if entry is not None else ""
        if entry is not None and self.choice.findData(path) < 0:
            self.entries.append(entry)
            self.choice.addItem(" · ".join(filter(None, (entry.algo, entry.run_name or entry.id))), path)
        self.choice.setCurrentIndex(max(0, self.choice.findData(path)))
        self.tell(self._state)

    # ---- the seat ------------------------------------------------------------------------------------------------

    def tell(self, state: State | None) -> None:
        """Say who has the seat; None without a session."""
        self._state = state
        tr, policy = self.tr, self.policy
        mine = state is not None and state.actor == "human"
        theirs = state is not None and not mine
        is_chance = state is not None and state.actor == "random"
        name = policy.algo if policy is not None and not is_chance else tr("Chance")
        if state is None:
            now = (tr("begin"), tr("watches") if policy is not None else tr("waits"))
        elif state.loading:
            now = (tr("play on") if mine else tr("wait"), tr("is being loaded…"))
        else:
            watching = tr("watches") if policy is not None and state.advisor else tr("waits")
            now = (tr("have the seat") if mine else tr("watch"), tr("has the seat") if theirs else watching)
        self.you.tell(tr("You"), now[0], has_seat=mine)
        self.other.tell(name, now[1], has_seat=theirs)
        back = state is not None and (theirs or bool(state.loading))
        self.button.setText(tr("Take the seat back   (Tab)") if back else tr("Hand over   (Tab)"))
        self.button.setEnabled(state is not None)
        several = tr("Tab hands your own seat over, and takes it back.")
        one = tr("A key of the game takes the seat back at once.")
        self.note.setText(self._without or (several if state is not None and state.seats else one))

    def _pressed(self, *, to_person: bool) -> None:
        if self._state is None:
            return
        is_mine = self._state.actor == "human" and not self._state.loading
        if is_mine != to_person:
            self.hand_over_wanted.emit()

    def _dress(self, theme: Theme) -> None:
        self.button.setIcon(icon("hand-over", theme.colour("text")))


def entry_words(entry: CheckpointEntry) -> str:
    """A checkpoint in a line of a list."""
    score = score_text(entry)
    words = [entry.algo, entry.run_name or entry.id, f"step {entry.step:,}", *([score] if score != "–" else [])]
    return " · ".join(filter(None, words))


def best_of(entries: Sequence[CheckpointEntry]) -> CheckpointEntry | None:
    """The one to offer first."""
    return max(entries, key=_score, default=None)


def _score(entry: CheckpointEntry) -> tuple[float, float]:
    """The better first, then the newer; one without a score comes after all that have one."""
    mean = entry.metrics.get("mean_return")
    return (float(mean) if isinstance(mean, int | float) else -math.inf, entry.created_at)
