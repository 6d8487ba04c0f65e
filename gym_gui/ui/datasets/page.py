"""A dataset on the stage: whether it can be trusted, how good its episodes are, what its values range over, where it
came from, and some episodes of it."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.datasets.inside import Inside, Sample
from gym_gui.services.datasets.words import (
    BADGE_COLOURS,
    BADGE_MEANINGS,
    MISSING,
    actors,
    number,
    provenance,
    references_line,
    spread,
)
from gym_gui.services.run_words import counted, quantity, size
from gym_gui.ui.context import Cockpit
from gym_gui.ui.datasets.drawings import HistogramView, RangesView
from gym_gui.ui.datasets.job import DatasetJob
from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.datasets import DatasetEntry, Integrity
from mosaic_protocol.plain_text import one_line

_NUMBER = Qt.ItemDataRole.UserRole
_ROWS_SHOWN = 7
_SIDE_BY_SIDE = 520


class DatasetPage(QWidget):
    """``left()``: the person wants the stage back. ``replay_wanted(str, int)``: a run and the number of one of its
    episodes. What is inside is read by a process of its own, and kept while the data is the same."""

    left = pyqtSignal()
    replay_wanted = pyqtSignal(str, int)

    def __init__(self, cockpit: Cockpit, shelf: DatasetShelf) -> None:
        super().__init__()
        self._cockpit, self._shelf = cockpit, shelf
        self.shown = ""
        self._looks: dict[tuple[str, str, int | None], Inside] = {}
        self._job: DatasetJob | None = None
        self.inside: Inside | None = None
        tr = self.tr
        self.name = ElidedLabel(cut=cut_name)
        self.name.setProperty("role", "huge")
        self.badge = StatusBadge(cockpit.themes)
        self.badge.setAccessibleName(tr("Whether the dataset can be trusted"))
        self.close_button = QPushButton(tr("Close"))
        self.close_button.setProperty("kind", "flat")
        self.close_button.setToolTip(tr("Show the runs on the stage again (Esc)"))
        self.close_button.clicked.connect(self.left)
        self.about, self.doubts, self.state, self.facts = QLabel(), QLabel(), QLabel(), QLabel()
        for label, role in ((self.about, "muted"), (self.doubts, "warning"), (self.state, "muted"), (self.facts, "")):
            label.setWordWrap(True)
            label.setProperty("role", role)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.hash, self.file = _long_fact(tr("Hash")), _long_fact(tr("File"))
        self.returns = HistogramView(cockpit.themes, tr("episodes"))
        self.lengths = HistogramView(cockpit.themes, tr("episodes"))
        self.returns.setAccessibleName(tr("Returns of episodes"))
        self.lengths.setAccessibleName(tr("Lengths of episodes"))
        self.returns_told, self.lengths_told = QLabel(), QLabel()
        self.ranges = RangesView(cockpit.themes)
        self.ranges_told = QLabel()
        self.samples = _table(
            [tr("Episode"), tr("Number"), tr("Return"), tr("Steps"), tr("End"), tr("Actors")], (1, 2, 3)
        )
        self.samples.setAccessibleName(tr("Sample episodes"))
        self.samples.setToolTip(tr("Choose one to see its rows; Return replays it where its run is still here"))
        self.rows = _table([tr("Step"), tr("Action"), tr("Reward"), tr("End"), tr("Observation")], (0, 2))
        self.rows.setAccessibleName(tr("Rows of the episode"))
        self.rows_told = QLabel()
        self.replay = QPushButton(tr("Replay it"))
        self.replay.clicked.connect(self._replay)
        for label in (self.returns_told, self.lengths_told, self.ranges_told, self.rows_told):
            label.setProperty("role", "muted")
            label.setWordWrap(True)
        self._lay_out()
        self.samples.itemSelectionChanged.connect(self._sample_chosen)
        self.samples.itemActivated.connect(lambda *_: self._replay())
        shelf.changed.connect(self.follow)
        cockpit.runs.changed.connect(lambda _: self._offer_replay())

    def _lay_out(self) -> None:
        tr = self.tr
        head = QHBoxLayout()
        head.addWidget(self.name)
        head.addSpacing(6)
        head.addWidget(self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignVCenter)
        self._charts = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._charts.setSpacing(10)
        self._charts.addWidget(_card(tr("Returns of episodes"), self.returns, self.returns_told), 1)
        self._charts.addWidget(_card(tr("Lengths of episodes"), self.lengths, self.lengths_told), 1)
        self._inside = QWidget()
        inside = QVBoxLayout(self._inside)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(10)
        inside.addLayout(self._charts)
        inside.addWidget(_card(tr("Ranges of observations and actions"), self.ranges, self.ranges_told))
        row = QHBoxLayout()
        row.addWidget(self.rows_told, 1)
        row.addWidget(self.replay)
        inside.addWidget(_card(tr("Sample episodes"), self.samples, row, self.rows))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(8)
        layout.addLayout(head)
        for widget in (self.about, self.doubts, self.state, self._inside):
            layout.addWidget(widget)
        layout.addWidget(_card(tr("Where it came from"), self.facts, self._long_facts()))
        layout.addStretch(1)

    def _long_facts(self) -> QWidget:
        """What has no place to be broken at: in lines of their own, which scroll and can be copied."""
        named = self._named = QWidget()
        rows = QFormLayout(named)
        rows.setContentsMargins(0, 0, 0, 0)
        for line in (self.hash, self.file):
            rows.addRow(line.accessibleName(), line)
        return named

    def fit(self, room: QSize) -> None:
        wide = room.width() >= _SIDE_BY_SIDE
        direction = QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom
        self._charts.setDirection(direction)

    # ---- showing -------------------------------------------------------------------------------------------------

    def show_dataset(self, name: str) -> None:
        if name != self.shown:
            self.shown = name
            self.inside = None
        self.follow()

    def follow(self) -> None:
        """Show what is known of the dataset now, and look inside where its data is there."""
        entry = self._shelf.get(self.shown)
        if not self.shown:
            return
        self.name.setText(self.shown)
        badge = entry.badge if entry is not None else Integrity.ABSENT
        self.badge.show_state(str(badge), colour_name=BADGE_COLOURS[badge])
        self.badge.setToolTip(BADGE_MEANINGS[badge])
        told = entry.found if entry is not None else None
        if entry is None or told is None:
            self._forget_job()
            self.about.setText(one_line(entry.problem) if entry is not None else self.tr("It is not there any more."))
            self._nothing_inside("")
            self.facts.setText("")
            self._show_long("", str(entry.folder) if entry is not None else "")
            tell(self.doubts, "", "warning")
            return
        parts = [told.env_id or "", counted(told.episodes, "episode"), counted(told.steps, "step"), size(told.bytes)]
        self.about.setText(" · ".join(one_line(part) for part in parts if part))
        doubts = "\n".join(self.tr("Doubtful: {why}.").format(why=one_line(one)) for one in told.doubts)
        tell(self.doubts, doubts, "warning")
        self.facts.setText("\n".join(f"{word}: {value}" for word, value in self._facts(entry) if value))
        self._show_long(told.sha256, str(entry.data))
        if badge in (Integrity.ABSENT, Integrity.CORRUPT):
            self._forget_job()  # it may have read the data before it was found out
            self._nothing_inside(self.tr("Nothing of it is shown: {why}.").format(why=BADGE_MEANINGS[badge]))
        else:
            self._look(entry, self.inside.episode if self.inside is not None else None)

    def _show_long(self, sha256: str, file: str) -> None:
        rows = self._named.layout()
        assert isinstance(rows, QFormLayout)
        for line, text in ((self.hash, sha256), (self.file, file)):
            if line.text() != text:
                line.setText(text)
                line.setCursorPosition(0)
                line.setToolTip(text)
            rows.setRowVisible(line, bool(text))

    def _facts(self, entry: DatasetEntry) -> list[tuple[str, str]]:
        tr, told = self.tr, entry.manifest
        played = told.source.get("checkpoint")
        made = played.get("path") or played.get("id") if isinstance(played, dict) else ""
        spaces = {told.observation_space_from, told.action_space_from}
        references = references_line(told.references)
        if told.references is None:
            references += tr(": Measure references… plays for them")
        return [
            (tr("From"), "" if provenance(entry) == MISSING else provenance(entry)),
            (tr("Worker"), one_line(str(told.source.get("worker") or ""))),
            (tr("Checkpoint"), one_line(str(made or ""))),
            (tr("Actors"), actors(told.actors)),
            (tr("References"), references),
            (tr("Rewards"), spread(told.rewards) if told.rewards else ""),
            (
                tr("Spaces"),
                tr("of the environment") if spaces == {"environment"} else tr("as the file or the data shows them"),
            ),
        ]

    # ---- looking inside ------------------------------------------------------------------------------------------

    def _look(self, entry: DatasetEntry, episode: int | None) -> None:
        key = (entry.name, entry.manifest.sha256, episode)
        if key in self._looks:
            self._show_inside(self._looks[key])
            return
        chosen = [] if episode is None else ["--episode", str(episode)]
        words = ["look", "--rows", "100", *chosen, "--", entry.name]
        if self._job is not None:
            if self._job.words == words:
                return
            self._forget_job()
        if self.inside is None:
            self._nothing_inside(self.tr("Looking inside…"))
        job = self._job = DatasetJob(str(self._cockpit.bridge.paths.root), words, "", self)
        job.done.connect(lambda told: self._take(key, told))
        job.failed.connect(lambda why: self._nothing_inside(self.tr("It cannot be looked into: {why}").format(why=why)))
        job.ended.connect(self._job_ended)
        job.start()

    def _take(self, key: tuple[str, str, int | None], told: dict[str, Any]) -> None:
        told.pop("status", None)
        found = Inside.from_json(told)
        self._looks = dict([*self._looks.items(), (key, found), ((*key[:2], found.episode), found)][-40:])
        if found.name == self.shown:
            self._show_inside(found)

    def _job_ended(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.deleteLater()

    def _forget_job(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.stop()
            job.deleteLater()

    def close_page(self) -> None:
        """Nobody looks any more."""
        self._forget_job()

    def _nothing_inside(self, sentence: str) -> None:
        self.inside = None
        self._inside.hide()
        tell(self.state, sentence, "muted")

    def _show_inside(self, found: Inside) -> None:
        before, self.inside = self.inside, found
        entry = self._shelf.get(found.name)
        told = entry.found if entry is not None else None
        tell(self.state, "", "muted")
        self._inside.show()
        references = told.references if told is not None else None
        marks = {} if references is None else {"random": references.random, "expert": references.expert}
        self.returns.show_histogram(found.returns, marks)
        self.lengths.show_histogram(found.lengths)
        if told is not None:
            self.returns_told.setText(spread(told.returns) if told.returns else "")
            self.lengths_told.setText(self._ends_told(found, told.episodes))
        self.ranges.show_ranges([*found.observations, *found.actions])
        outside = sum(one.is_outside for one in (*found.observations, *found.actions))
        more = [self.tr("{count} more columns").format(count=found.columns_left_out)] if found.columns_left_out else []
        more += [self.tr("{count} outside of what is allowed").format(count=outside)] if outside else []
        tell(self.ranges_told, " · ".join(more), "warning" if outside else "muted")
        if before is None or before.samples != found.samples:
            self._fill_samples(found)
        self._fill_rows(found)

    def _ends_told(self, found: Inside, episodes: int) -> str:
        if found.terminated == episodes:
            return self.tr("all ended by termination")
        if not found.terminated:
            return self.tr("all were cut off by a limit of time")
        return self.tr("{ended} of {all} ended by termination, the others were cut off").format(
            ended=f"{found.terminated:,}", all=f"{episodes:,}"
        )

    def _fill_samples(self, found: Inside) -> None:
        words = {"best": self.tr("best"), "median": self.tr("median"), "worst": self.tr("worst")}
        words["first"] = self.tr("first")
        self.samples.blockSignals(True)
        self.samples.clear()
        for one in found.samples:
            cells = [words.get(one.why, one.why), str(one.number), quantity(one.total), f"{one.length:,}", one.end]
            item = QTreeWidgetItem([*cells, one_line(one.actors) or MISSING])
            item.setData(0, _NUMBER, one.number)
            _align(item, (1, 2, 3))
            self.samples.addTopLevelItem(item)
            if one.number == found.episode:
                self.samples.setCurrentItem(item)
        self.samples.blockSignals(False)
        _fit_height(self.samples, len(found.samples))
        self._offer_replay()

    def _fill_rows(self, found: Inside) -> None:
        self.rows.clear()
        for one in found.rows:
            item = QTreeWidgetItem([str(one.step), one.action, number(one.reward), one.end, one.observation])
            _align(item, (0, 2))
            self.rows.addTopLevelItem(item)
        _fit_height(self.rows, min(len(found.rows), _ROWS_SHOWN))
        told = self.tr("Rows of episode {number}").format(number=found.episode)
        if found.rows_left_out:
            told = self.tr("The first {count} rows of episode {number}").format(
                count=len(found.rows), number=found.episode
            )
        self.rows_told.setText(told)

    # ---- episodes ------------------------------------------------------------------------------------------------

    @property
    def sample(self) -> Sample | None:
        """The episode that is chosen."""
        items = self.samples.selectedItems()
        chosen = items[0].data(0, _NUMBER) if items else None
        found = self.inside.samples if self.inside is not None else []
        return next((one for one in found if one.number == chosen), None)

    def _sample_chosen(self) -> None:
        sample, entry = self.sample, self._shelf.get(self.shown)
        self._offer_replay()
        if sample is not None and entry is not None and self.inside is not None:
            self._look(entry, sample.number)

    def _replayable(self) -> tuple[str, int, str]:
        """The run and the number of the episode there, or why there is nothing to replay."""
        sample, entry = self.sample, self._shelf.get(self.shown)
        if sample is None or entry is None or entry.found is None:
            return "", 0, self.tr("Choose an episode first.")
        run_id = str(entry.found.source.get("run_id") or "")
        if not run_id or sample.recorded_as is None:
            return "", 0, self.tr("This episode was not recorded by a run here; its rows are below.")
        if self._cockpit.runs.get(run_id) is None:
            return "", 0, self.tr("The run that recorded it is not here any more; its rows are below.")
        return run_id, sample.recorded_as, ""

    def _offer_replay(self) -> None:
        why = self._replayable()[2]
        self.replay.setEnabled(not why)
        self.replay.setToolTip(why or self.tr("Show the episode in the replay player, as it was recorded (Return)"))

    def _replay(self) -> None:
        run_id, episode, why = self._replayable()
        if not why:
            self.replay_wanted.emit(run_id, episode)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


def _card(title: str, *parts: QWidget | QHBoxLayout) -> QFrame:
    card = QFrame()
    card.setProperty("role", "card")
    heading = QLabel(title)
    heading.setStyleSheet("font-weight: 600;")
    layout = QVBoxLayout(card)
    layout.setContentsMargins(12, 8, 12, 10)
    layout.setSpacing(6)
    layout.addWidget(heading)
    for part in parts:
        if isinstance(part, QWidget):
            layout.addWidget(part)
        else:
            layout.addLayout(part)
    layout.addStretch(1)  # of cards beside each other the headings stand at one height
    return card


def _long_fact(name: str) -> QLineEdit:
    line = QLineEdit()
    line.setReadOnly(True)
    line.setAccessibleName(name)
    return line


def _table(titles: list[str], numbers: tuple[int, ...]) -> QTreeWidget:
    table = QTreeWidget()
    table.setHeaderLabels(titles)
    table.setRootIsDecorated(False)
    table.setUniformRowHeights(True)
    table.setAllColumnsShowFocus(True)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setTabKeyNavigation(False)
    header, head = table.header(), table.headerItem()
    assert header is not None and head is not None
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setStretchLastSection(True)
    for column in numbers:
        head.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return table


def _align(item: QTreeWidgetItem, columns: tuple[int, ...]) -> None:
    for column in columns:
        item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)


def _fit_height(table: QTreeWidget, rows: int) -> None:
    header = table.header()
    tall = header.sizeHint().height() if header is not None else 0
    row = max(table.sizeHintForRow(0), 18)
    table.setFixedHeight(tall + row * max(rows, 1) + 4)
