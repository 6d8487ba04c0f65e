"""The episodes of a run as a table, the newest on top: the one that is played, and those that are over."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from PyQt6.QtCore import QModelIndex, QObject, Qt

from gym_gui.ui.models.headed_table import NOWHERE, HeadedTable
from gym_gui.ui.play import words
from gym_gui.ui.play.actors import ActorStripe, stripe_words
from mosaic_protocol.events import EpisodeSummary
from mosaic_protocol.plain_text import one_line

COLUMNS = EPISODE, SEED, STEPS, RETURN, WHO, OUTCOME = range(6)
MOST_EPISODES = 1000
NUMBERS = frozenset({EPISODE, SEED, STEPS, RETURN})


@dataclass(frozen=True)
class EpisodeRow:
    """One episode; ``said`` is its outcome. ``agent`` is empty where there is one."""

    episode: int
    seed: int | str | None
    steps: int
    total: float | None
    said: words.Said
    agent: str = ""
    playing: bool = False


def row_of(summary: EpisodeSummary, env_id: str) -> EpisodeRow:
    said = words.outcome(env_id, summary.outcome, summary.total_reward)
    return EpisodeRow(
        summary.episode, summary.seed, summary.length, summary.total_reward, said, one_line(summary.agent_id)
    )


class EpisodeTable(HeadedTable):
    """Keeps the newest :data:`MOST_EPISODES`. Stripes are put in when they are known."""

    def __init__(self, parent: QObject) -> None:
        tr = parent.tr
        titles = (tr("Episode"), tr("Seed"), tr("Steps"), tr("Return"), tr("Who"), tr("Outcome"))
        helps = {WHO: tr("Who made the steps, from the first to the last: you, or an agent in your seat")}
        super().__init__(titles, NUMBERS, parent, [helps.get(place, "") for place in range(len(titles))])
        self._over: deque[EpisodeRow] = deque(maxlen=MOST_EPISODES)
        self._names_agents = False
        """Whether there are several to be told apart."""
        self._playing: EpisodeRow | None = None
        self._playing_stripe: ActorStripe | None = None
        self.stripes: dict[tuple[str, int], ActorStripe] = {}

    def add(self, rows: Iterable[EpisodeRow]) -> None:
        """Episodes that ended, in order."""
        self.beginResetModel()
        self._over.extend(rows)
        self._names_agents = len({row.agent for row in self._over}) > 1
        known = {(row.agent, row.episode) for row in self._over}
        self.stripes = {key: stripe for key, stripe in self.stripes.items() if key in known}
        self.endResetModel()

    def show_playing(self, row: EpisodeRow | None, stripe: ActorStripe | None = None) -> None:
        """The episode that is being played stands above those that are over."""
        if row is not None and self._over and row.episode == self._over[-1].episode and not row.agent:
            row = None  # its end was recorded meanwhile
        if (row is None) != (self._playing is None):
            self.beginResetModel()
            self._playing, self._playing_stripe = row, stripe
            self.endResetModel()
        elif row is not None and row != self._playing:
            self._playing, self._playing_stripe = row, stripe
            self.dataChanged.emit(self.index(0, 0), self.index(0, OUTCOME))

    def put_stripe(self, agent: str, episode: int, stripe: ActorStripe) -> None:
        self.stripes[(agent, episode)] = stripe
        self.dataChanged.emit(self.index(0, WHO), self.index(max(0, self.rowCount() - 1), WHO))

    def clear(self) -> None:
        self.beginResetModel()
        self._over.clear()
        self._playing = None
        self.stripes.clear()
        self.endResetModel()

    def row_at(self, place: int) -> EpisodeRow | None:
        """From the top."""
        if self._playing is not None:
            if place == 0:
                return self._playing
            place -= 1
        return self._over[-1 - place] if 0 <= place < len(self._over) else None

    def stripe_at(self, place: int) -> ActorStripe | None:
        row = self.row_at(place)
        if row is None:
            return None
        return self._playing_stripe if row.playing else self.stripes.get((row.agent, row.episode))

    def longest_text(self, column: int) -> str:
        """Of the episodes that are over, as the column shows them."""
        return max((self._text(row, column, -1) for row in self._over), key=len, default="")

    # ---- Qt ------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._over) + (self._playing is not None)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self.row_at(index.row()), index.column()
        if row is None:
            return None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._text(row, column, index.row())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(column)
        if role == Qt.ItemDataRole.ToolTipRole:
            stripe = self.stripe_at(index.row())
            if column == WHO:
                return stripe_words(stripe) if stripe is not None else ""
            return "" if row.playing else self.tr("Double-click or Enter replays this episode")
        return None

    def _text(self, row: EpisodeRow, column: int, place: int) -> str:
        match column:
            case 0:
                number = str(row.episode)
                return f"{number} · {row.agent}" if row.agent and self._names_agents else number
            case 1:
                return "–" if row.seed is None else str(row.seed)
            case 2:
                return f"{row.steps:,}"
            case 3:
                return words.signed(row.total)
            case 4:
                stripe = self.stripe_at(place)
                return stripe_words(stripe) if stripe is not None else ""
        return row.said.word
