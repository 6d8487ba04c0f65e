"""The recorded episodes of a run as a list of cards, and its clips: choose one and it is replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PyQt6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRectF, QSignalBlocker, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen
from PyQt6.QtWidgets import (
    QHBoxLayout,
    QListView,
    QStackedWidget,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.replay.episode_list import ORDERS, ListedEpisode, filtered
from gym_gui.ui.play.actors import actor_colour
from gym_gui.ui.play.words import signed
from gym_gui.ui.replay.desk import ReplayDesk
from gym_gui.ui.replay.words import card_badge, evaluation_words
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.hinted_line import HintedLine
from mosaic_protocol.plain_text import one_line

Index = QModelIndex | QPersistentModelIndex
_ITEM = Qt.ItemDataRole.UserRole
_HEIGHT, _CLIP_HEIGHT, _PADDING = 70, 42, 12.0


class _Items(QAbstractListModel):
    """Episodes, then clips."""

    def __init__(self, desk: ReplayDesk) -> None:
        super().__init__(desk)
        self._desk = desk
        self.items: list[ListedEpisode | Path] = []

    def show_items(self, items: list[ListedEpisode | Path]) -> None:
        if items != self.items:
            self.beginResetModel()
            self.items = items
            self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt declares it
        return 0 if parent.isValid() else len(self.items)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not 0 <= index.row() < len(self.items):
            return None
        item = self.items[index.row()]
        if role == _ITEM:
            return item
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return self._said(item)
        return None

    def _said(self, item: ListedEpisode | Path) -> str:
        if isinstance(item, Path):
            return self.tr("Clip {name}").format(name=item.name)
        verdict = card_badge(self._desk.verdict_of(item.number))
        words = self.tr("Episode {number}, seed {seed}, {steps} steps, return {total}, {outcome}").format(
            number=item.number,
            seed=item.seed,
            steps=item.steps,
            total=signed(item.total),
            outcome=item.outcome or self.tr("not ended"),
        )
        return f"{words}, {verdict.sentence or verdict.text}" if verdict.text else words


class _Cards(QStyledItemDelegate):
    """Paints an episode or a clip as a card."""

    def __init__(self, desk: ReplayDesk, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk, self._themes = desk, themes

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(180, _CLIP_HEIGHT if isinstance(index.data(_ITEM), Path) else _HEIGHT)

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: Index) -> None:
        item = index.data(_ITEM)
        if painter is None or item is None:
            return
        theme = self._themes.theme
        is_current = bool(option.state & QStyle.StateFlag.State_Selected)
        has_focus = bool(option.state & QStyle.StateFlag.State_HasFocus)
        card = QRectF(option.rect).adjusted(8, 4, -8, -4)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.colour("accent" if is_current else "border"), 2 if has_focus else 1))
        painter.setBrush(theme.colour("selection" if is_current and has_focus else "panel"))
        painter.drawRoundedRect(card, 8, 8)
        inside = card.adjusted(_PADDING, 7, -_PADDING, -7)
        if isinstance(item, Path):
            self._paint_line(painter, theme, inside, (item.stem, ""), "", bold=False)
        else:
            self._paint_episode(painter, theme, inside, item)
        painter.restore()

    def _paint_episode(self, painter: QPainter, theme: Theme, room: QRectF, item: ListedEpisode) -> None:
        height = QFontMetricsF(self._font(painter)).height()
        first = QRectF(room.left(), room.top(), room.width(), height)
        title = self.tr("Episode {number}").format(number=item.number)
        seed = self.tr("seed {seed}").format(seed=item.seed) if item.seed is not None else self.tr("no seed")
        seed += f"  {one_line(item.agent_id)}" if item.agent_id else ""
        self._paint_line(painter, theme, first, (title, seed), signed(item.total))
        stripe = QRectF(room.left(), first.bottom() + 5, room.width(), 5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("raised"))
        painter.drawRoundedRect(stripe, 2, 2)
        for one in item.stripes:
            left = stripe.left() + stripe.width() * one.first / max(1, item.steps)
            width = stripe.width() * (one.end - one.first) / max(1, item.steps)
            painter.fillRect(QRectF(left, stripe.top(), max(1.0, width), 5), actor_colour(one.actor, theme))
        facts = self.tr("{steps} steps").format(steps=f"{item.steps:,}")
        if yours := item.share_of("human"):
            facts += "   " + self.tr("you {percent} %").format(percent=round(100 * yours))
        facts += "" if item.outcome else "   " + self.tr("not ended")
        last = QRectF(room.left(), room.bottom() - height, room.width(), height)
        said = card_badge(self._desk.verdict_of(item.number))
        self._paint_line(
            painter, theme, last, ("", facts), said.text, right_colour=theme.colour(said.colour), bold=False
        )

    def _font(self, painter: QPainter, *, bold: bool = False) -> QFont:
        parent = self.parent()
        font = QFont(parent.font()) if isinstance(parent, QWidget) else QFont(painter.font())
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font

    def _paint_line(
        self,
        painter: QPainter,
        theme: Theme,
        room: QRectF,
        left: tuple[str, str],
        right: str,
        *,
        right_colour: QColor | None = None,
        bold: bool = True,
    ) -> None:
        """Something strong, something muted behind it, and something at the right."""
        plain, strong = self._font(painter), self._font(painter, bold=bold)
        vertical = Qt.AlignmentFlag.AlignVCenter
        taken = QFontMetricsF(strong).horizontalAdvance(right) + 8 if right else 0.0
        painter.setFont(strong)
        painter.setPen(right_colour or theme.colour("text"))
        painter.drawText(room, vertical | Qt.AlignmentFlag.AlignRight, right)
        rest = room.adjusted(0, 0, -taken, 0)
        painter.setPen(theme.colour("text"))
        elide = Qt.TextElideMode.ElideRight
        if left[0]:
            text = QFontMetricsF(strong).elidedText(left[0], elide, rest.width())
            painter.drawText(rest, vertical | Qt.AlignmentFlag.AlignLeft, text)
            rest.setLeft(rest.left() + QFontMetricsF(strong).horizontalAdvance(text) + 8)
        painter.setFont(plain)
        painter.setPen(theme.colour("muted"))
        painter.drawText(
            rest, vertical | Qt.AlignmentFlag.AlignLeft, QFontMetricsF(plain).elidedText(left[1], elide, rest.width())
        )


class EpisodeCards(QWidget):
    """Follows the desk: what it lists is here, what it has open is chosen."""

    def __init__(self, desk: ReplayDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.heading = ElidedLabel(cut=cut_name)
        self.heading.setProperty("role", "section")
        self.filter = HintedLine([self.tr("seed, outcome, who acted"), self.tr("seed, outcome"), self.tr("Filter")])
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName(self.tr("Filter the episodes"))
        self.filter.setToolTip(self.tr("Words that all have to match: a number or seed, terminated, you, policy"))
        self.sources = CalmCombo()
        self.sources.setAccessibleName(self.tr("What to replay"))
        about = self.tr("The episodes of the run itself, or of an evaluation that was recorded (mosaic eval --record)")
        self._about_sources = about
        let_shrink(self.sources)
        self.order = CalmCombo()
        titles = {
            "newest": self.tr("Newest"),
            "oldest": self.tr("Oldest"),
            "best": self.tr("Best"),
            "longest": self.tr("Longest"),
        }
        for name in ORDERS:
            self.order.addItem(titles[name], name)
        self.order.setAccessibleName(self.tr("Order of the episodes"))
        self.order.setToolTip(self.tr("Which episodes come first"))
        let_shrink(self.order)
        self.items = _Items(desk)
        self.list = QListView()
        self.list.setModel(self.items)
        self.list.setItemDelegate(_Cards(desk, themes, self.list))
        self.list.setStyleSheet("QListView { background: transparent; }")
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setAccessibleName(self.tr("Recorded episodes"))
        self.list.activated.connect(self._open)
        self.list.clicked.connect(self._open)
        self.empty = EmptyPage()
        self._lay_out()
        self.setFocusProxy(self.list)
        self.filter.textChanged.connect(lambda _: self._show())
        self.order.currentIndexChanged.connect(lambda _: self._show())
        self.sources.currentIndexChanged.connect(lambda _: desk.show_evaluation(self.sources.currentData()))
        desk.listed.connect(self._show)
        desk.opened.connect(self._follow)
        desk.told.connect(self._repaint)
        themes.changed.connect(lambda _: self._repaint())
        self._show()

    def _lay_out(self) -> None:
        source = QHBoxLayout()
        source.setContentsMargins(12, 0, 12, 0)
        source.addWidget(self.sources)
        row = QHBoxLayout()
        row.setContentsMargins(12, 0, 12, 0)
        row.addWidget(self.filter, 2)
        row.addWidget(self.order, 1)
        heading = QHBoxLayout()
        heading.setContentsMargins(12, 0, 12, 0)
        heading.addWidget(self.heading)
        heading.addStretch(1)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.list)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 8, 0, 0)
        layout.addLayout(source)
        layout.addLayout(row)
        layout.addLayout(heading)
        layout.addWidget(self._pages, 1)

    def _show_sources(self) -> None:
        """Where there is a choice: the run's own episodes, then each evaluation; chosen is what the desk has."""
        desk = self._desk
        folder = desk.source.folder if desk.source is not None else None
        with QSignalBlocker(self.sources):
            self.sources.clear()
            self.sources.addItem(self.tr("Episodes of the run"), None)
            for one in desk.evaluations:
                self.sources.addItem(evaluation_words(one), one)
                self.sources.setItemData(self.sources.count() - 1, str(one.folder), Qt.ItemDataRole.ToolTipRole)
                if one.folder == folder:
                    self.sources.setCurrentIndex(self.sources.count() - 1)
        self.sources.setToolTip(f"{self.sources.currentText()}\n{self._about_sources}")
        self.sources.setVisible(bool(desk.evaluations))

    def _show(self) -> None:
        self._show_sources()
        desk, found = self._desk, self._desk.catalogue
        env_id = str(desk.source.about.get("env_id") or "") if desk.source is not None else ""
        episodes = filtered(found.episodes, self.filter.text(), env_id, str(self.order.currentData()))
        words = self.filter.text().lower().split()
        clips = [clip for clip in reversed(found.clips) if all(word in clip.name.lower() for word in words)]
        self.items.show_items([*episodes, *clips])
        self._tell_heading(env_id, len(episodes), len(clips))
        self._pages.setCurrentIndex(1 if self.items.items else 0)
        if not self.items.items:
            self._tell_empty()
        self._follow()

    def _tell_heading(self, env_id: str, episodes: int, clips: int) -> None:
        parts = [one_line(env_id).upper()]
        every = len(self._desk.catalogue.episodes)
        if every:
            count = f"{episodes:,}" if episodes == every else f"{episodes:,} / {every:,}"
            text = self.tr("{count} EPISODES") if every > 1 else self.tr("{count} EPISODE")
            parts.append(text.format(count=count))
        if clips:
            parts.append((self.tr("{count} CLIPS") if clips > 1 else self.tr("{count} CLIP")).format(count=clips))
        if self._desk.catalogue.left_out:
            parts.append(self.tr("OLDER ONES NOT LISTED"))
        self.heading.setText(" · ".join(part for part in parts if part))

    def _tell_empty(self) -> None:
        desk = self._desk
        if desk.source is None:
            text = self.tr("Select a run in the table and choose Replay: its recorded episodes are listed here.")
            self.empty.tell(self.tr("Nothing is replayed"), text)
        elif desk.is_listing:
            self.empty.tell(self.tr("Reading what was recorded…"), "")
        elif desk.catalogue.episodes or desk.catalogue.clips:
            self.empty.tell(self.tr("No episode matches"), self.tr("Clear the filter to see all of them."))
        else:
            self.empty.tell(self.tr("Nothing to replay"), desk.problem)

    def _follow(self) -> None:
        """The one that is open is chosen."""
        now, selection = self._desk.current, self.list.selectionModel()
        wanted = None if now is None else now.episode or now.clip
        row = next((number for number, item in enumerate(self.items.items) if item == wanted), -1)
        if selection is not None and row >= 0 and self.list.currentIndex().row() != row:
            self.list.setCurrentIndex(self.items.index(row))
        elif selection is not None and row < 0:
            selection.clear()

    def _open(self, index: QModelIndex) -> None:
        item, now = index.data(_ITEM), self._desk.current
        if isinstance(item, ListedEpisode) and (now is None or now.episode != item):
            self._desk.open(item)
        elif isinstance(item, Path) and (now is None or now.clip != item):
            self._desk.open_clip(item)

    def _repaint(self) -> None:
        viewport = self.list.viewport()
        if viewport is not None:
            viewport.update()
