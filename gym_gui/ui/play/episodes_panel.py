"""The Episodes panel below the stage: what the current run played, and the way to its replays."""

from __future__ import annotations

from PyQt6.QtCore import QModelIndex, QRectF, QSize, Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QKeyEvent, QPainter, QShowEvent
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStackedLayout,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit
from gym_gui.ui.play import words
from gym_gui.ui.play.actors import ActorStripe, stripe_of
from gym_gui.ui.play.episodes_model import (
    EPISODE,
    MOST_EPISODES,
    OUTCOME,
    RETURN,
    SEED,
    STEPS,
    WHO,
    EpisodeRow,
    EpisodeTable,
    row_of,
)
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.sessions import LiveSessions
from gym_gui.ui.play.stage_stripe import paint_stripe
from gym_gui.ui.play.steps_feed import BusBatch, BusFeed
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.status_badge import paint_badge
from mosaic_protocol.proto import trainer_pb2 as pb

_LOOK_MILLISECONDS = 250
_LONGEST_STRIPE = 20_000
"""Steps of an episode whose stripe is read from the store: a longer one would take long to read for a stripe."""
_AT_ONCE = 2
_FITTED = {EPISODE: (74, 170), SEED: (60, 110)}
"""Columns that are as wide as what they show, between these."""
_BESIDE_TEXT = 20


class EpisodesPanel(QWidget):
    """Follows the episodes of the current run while it can be seen. ``replay_wanted(run_id, episode)`` for one that a
    person wants to see again."""

    replay_wanted = pyqtSignal(str, int)

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._sessions = LiveSessions.of(cockpit.bridge)
        self._run_id: str | None = None
        self._feed: BusFeed | None = None
        self._asked: set[tuple[str, int]] = set()
        self._asking = 0
        self.table = EpisodeTable(self)
        self.view = _EpisodeView(self.table, cockpit.themes)
        self.view.opened.connect(self._open)
        self.empty = EmptyPage()
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.view)
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_MILLISECONDS)
        self._timer.timeout.connect(self._look)
        cockpit.selection.changed.connect(lambda _: self._follow())
        cockpit.runs.changed.connect(self._runs_changed)
        self._tell()

    # ---- which run -----------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._timer.start()
        self._follow()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()
        self._stop()

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self._cockpit.selection.current in run_ids and self._feed is None:
            self._follow()

    def _follow(self) -> None:
        current = self._cockpit.selection.current
        run = self._cockpit.runs.get(current) if current else None
        if not self.isVisible() or (run is not None and run.run_id == self._run_id):
            return
        self._stop()
        if run is not None:
            self._run_id = run.run_id
            feed = self._feed = BusFeed(self._cockpit.bridge, run.run_id, "episodes", MOST_EPISODES, self)
            feed.arrived.connect(self._take)
            feed.ended.connect(self._end)
            feed.failed.connect(lambda _: self._end())
            self._cockpit.bridge.begin(feed)
        self._tell()

    def _stop(self) -> None:
        feed, self._feed, self._run_id = self._feed, None, None
        self.table.clear()
        self._asked.clear()
        if feed is not None:
            feed.stop()
            feed.deleteLater()

    def _end(self) -> None:
        self._feed = None
        self._tell()

    @property
    def _run(self) -> pb.Run | None:
        return self._cockpit.runs.get(self._run_id) if self._run_id is not None else None

    # ---- what comes ----------------------------------------------------------------------------------------------

    def _take(self, batches: list[BusBatch]) -> None:
        run = self._run
        env_id = run.env_id if run is not None else ""
        self.table.add([row_of(summary, env_id) for batch in batches for summary in batch.records])
        self._tell()

    def _look(self) -> None:
        """The episode that is played, and stripes of those in sight."""
        session = self._sessions.get(self._run_id) if self._run_id is not None else None
        self._show_playing(session)
        for place in self.view.places_in_sight():
            row = self.table.row_at(place)
            if row is not None and not row.playing and self.table.stripe_at(place) is None:
                self._ask_stripe(row)
        self._tell()

    def _show_playing(self, session: LiveSession | None) -> None:
        hello = session.hello_message if session is not None else None
        if session is None or hello is None or not session.is_joined or session.state.over or session.state.seats:
            self.table.show_playing(None)
            return
        state = session.state
        said = words.situation(hello, state)
        row = EpisodeRow(state.episode, state.seed, state.step, state.total, said, playing=True)
        self.table.show_playing(row, self._sessions.stripe_of(session.run_id))

    def _ask_stripe(self, row: EpisodeRow) -> None:
        """Who acted is in the recorded steps; they are read for the episodes in sight, a few at once."""
        key, run_id = (row.agent, row.episode), self._run_id
        if run_id is None or key in self._asked or self._asking >= _AT_ONCE or row.steps > _LONGEST_STRIPE:
            return
        self._asked.add(key)
        self._asking += 1

        def read(client: TrainerClient) -> ActorStripe:
            return stripe_of(client.step_chunks(run_id, episode=row.episode), row.episode)

        def done(stripe: ActorStripe) -> None:
            self._asking -= 1
            if run_id == self._run_id:
                self.table.put_stripe(row.agent, row.episode, stripe)

        def failed(_: str) -> None:
            self._asking -= 1

        self._cockpit.bridge.call(read, done, failed, owner=self)

    def _open(self, place: int) -> None:
        row = self.table.row_at(place)
        if row is not None and not row.playing and self._run_id is not None:
            self.replay_wanted.emit(self._run_id, row.episode)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        if self.table.rowCount():
            self._pages.setCurrentWidget(self.view)
            return
        self._pages.setCurrentWidget(self.empty)
        if self._run is None:
            title, text = self.tr("No run is selected"), self.tr("Choose a run to see its episodes.")
        else:
            title = self.tr("No episode yet")
            text = self.tr(
                "Episodes appear here when they end: those of sessions, and of runs whose worker records steps."
            )
        self.empty.tell(title, text)

    def sizeHint(self) -> QSize:
        return QSize(480, 200)


class _EpisodeView(QTableView):
    """``opened(int)`` brings the place of an episode that was double-clicked, or chosen with Enter."""

    opened = pyqtSignal(int)

    def __init__(self, table: EpisodeTable, themes: Themes) -> None:
        super().__init__()
        self.setModel(table)
        self.setItemDelegate(_EpisodeDelegate(table, themes, self))
        self.setAccessibleName(self.tr("Episodes, the newest on top"))
        self.setShowGrid(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        rows, across = self.verticalHeader(), self.horizontalHeader()
        assert rows is not None and across is not None
        rows.hide()
        rows.setDefaultSectionSize(28)
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        across.setHighlightSections(False)
        across.setSectionsClickable(False)
        for column, width in ((EPISODE, 74), (SEED, 60), (STEPS, 62), (RETURN, 66), (OUTCOME, 108)):
            across.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            self.setColumnWidth(column, width)
        across.setSectionResizeMode(WHO, QHeaderView.ResizeMode.Stretch)
        across.setMinimumSectionSize(52)
        self.doubleClicked.connect(lambda index: self.opened.emit(index.row()))
        table.modelReset.connect(self._fit_texts)

    def _fit_texts(self) -> None:
        """Several seats or agents are told apart by their names, episodes by their seeds, which may be long."""
        table = self.model()
        assert isinstance(table, EpisodeTable)
        for column, (least, most) in _FITTED.items():
            wide = self.fontMetrics().horizontalAdvance(table.longest_text(column)) + _BESIDE_TEXT
            self.setColumnWidth(column, min(max(least, wide), most))

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.currentIndex().isValid():
                self.opened.emit(self.currentIndex().row())
            return
        super().keyPressEvent(event)

    def places_in_sight(self) -> range:
        viewport = self.viewport()
        height = viewport.height() if viewport is not None else 0
        first, last = self.rowAt(0), self.rowAt(height - 1)
        model = self.model()
        count = model.rowCount() if model is not None else 0
        return range(max(0, first), (last if last >= 0 else count - 1) + 1)


class _EpisodeDelegate(QStyledItemDelegate):
    """Paints stripes and outcomes; the rest is Qt's."""

    def __init__(self, table: EpisodeTable, themes: Themes, view: QTableView) -> None:
        super().__init__(view)
        self._table, self._themes = table, themes

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        assert painter is not None
        row, theme = self._table.row_at(index.row()), self._themes.theme
        if row is None or index.column() not in (WHO, OUTCOME):
            super().paint(painter, option, index)
            return
        if QStyle.StateFlag.State_Selected in option.state:
            painter.fillRect(option.rect, theme.colour("selection"))
        room = QRectF(option.rect).adjusted(8, 0, -8, 0)
        if index.column() == OUTCOME:
            paint_badge(painter, room, row.said.word, theme, option.font, colour_name=row.said.colour)
            return
        stripe = self._table.stripe_at(index.row())
        if stripe is not None and stripe.steps:
            wide = min(room.width(), 180.0)
            place = QRectF(room.left(), room.center().y() - 4, wide, 8)
            paint_stripe(painter, place, stripe, theme)
