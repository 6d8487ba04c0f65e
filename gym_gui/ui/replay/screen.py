"""The Replay screen as a whole: opened for a run, with its list on the left, the stage, and the step on the right."""

from __future__ import annotations

from pathlib import Path

from PyQt6 import sip
from PyQt6.QtCore import QObject, Qt, pyqtSignal
from PyQt6.QtWidgets import QApplication, QDockWidget, QFileDialog, QWidget

from gym_gui.services.datasets import DatasetEntry
from gym_gui.services.datasets.from_steps import Only, make
from gym_gui.services.play_sessions import SessionWish
from gym_gui.services.replay.take_over import policy_at, taken_over
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panes import enter
from gym_gui.ui.replay.desk import ReplayDesk
from gym_gui.ui.replay.episode_cards import EpisodeCards
from gym_gui.ui.replay.mind_inspector import InspectorPane
from gym_gui.ui.replay.replay_stage import ACTIONS, STEPPING, TURNS, ReplayStage
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.replay_messages import Exported

_FOLDER = "replay.export_folder"


class ReplayScreen(QObject):
    """One for a window. ``session_wanted(SessionWish)``: somebody takes over at a step."""

    session_wanted = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, stage: Stage) -> None:
        super().__init__(stage)
        self._cockpit, self._stage = cockpit, stage
        self.desk = ReplayDesk(cockpit, self)
        self._add_commands()
        self.page = ReplayStage(cockpit, self.desk)
        self.page.left.connect(self.close)
        stage.displaced.connect(self._displaced)
        stage.closing.connect(self.desk.shut)
        self.cards = EpisodeCards(self.desk, cockpit.themes)
        self.pane = InspectorPane(self.desk, cockpit.themes)
        self.inspector = self.pane.step
        # Up, Down, Home and End choose an episode in the list.
        self.page.lend_keys(self.cards.list, *STEPPING, *TURNS, "Space", "Escape")
        self.page.lend_keys(self.pane, *TURNS)
        for widget in (self.page, self.cards, self.pane):
            widget.setParent(stage)  # until they are shown elsewhere
            widget.hide()
        self._is_taking_over = False
        self._borrowed: dict[str, tuple[QDockWidget, QWidget | None, str]] = {}
        """Docks that show something of the replay, with what they showed before."""
        self._came_from: QWidget | None = None
        self._front: list[QDockWidget] = []
        """What had the focus, and which docks were in front, before a replay was opened."""
        for changed in (self.desk.opened, self.desk.told, self.desk.place_changed):
            changed.connect(lambda *_: self._offer())
        self.desk.exported.connect(self._tell_exported)
        self._offer()

    # ---- opening -------------------------------------------------------------------------------------------------

    def open(self, run_id: str, episode: int | None = None) -> None:
        """Show what a run recorded; the newest episode, or the one of this number."""
        if self._cockpit.runs.get(run_id) is None:
            return
        self._come_forward()
        self.desk.show_run(run_id, episode)

    def open_clip(self, run_id: str, clip: Path) -> None:
        """Show one of the films of a training."""
        if self._cockpit.runs.get(run_id) is None:
            return
        self._come_forward()
        self.desk.show_clip(run_id, clip)

    def open_folder(self, folder: Path, episode: int | None = None) -> None:
        """The same for a recorded evaluation. Raises RecordingError."""
        self.desk.show_folder(folder, episode)
        self._come_forward()

    def _come_forward(self) -> None:
        if self._stage.over is None:
            self._came_from = QApplication.focusWidget()
            docks = getattr(self._stage.window(), "docks", {}).values()
            self._front = [dock for dock in docks if not dock.visibleRegion().isEmpty()]
        self._borrow()
        self._stage.show_over(self.page)
        self.page.setFocus()
        self._offer()

    def close(self) -> None:
        """Give the stage back, the docks, and the focus."""
        self.desk.close()
        step = self._borrowed.get("run")
        was_looked_at = step is not None and not step[0].visibleRegion().isEmpty()
        self._stage.end_over(self.page)
        for name in list(self._borrowed):
            self._give_back(name)
        self._offer()
        self._go_back(raise_docks=was_looked_at)

    def _go_back(self, *, raise_docks: bool) -> None:
        """To where the replay was opened from. Who brought another panel forward meanwhile wants to see that one."""
        for dock in self._front if raise_docks else ():
            dock.raise_()
        came_from, self._came_from, self._front = self._came_from, None, []
        if came_from is not None and not sip.isdeleted(came_from) and came_from.isVisible():
            came_from.setFocus(Qt.FocusReason.OtherFocusReason)

    def _displaced(self) -> None:
        if self._stage.over is not self.page:
            self.close()

    def _borrow(self) -> None:
        """The list and the step stand in docks of the window while a replay is open, in the place of what is there."""
        docks = getattr(self._stage.window(), "docks", {})
        titles = {"train": (self.cards, self.tr("Replay")), "run": (self.pane, self.tr("Step"))}
        for name, (widget, title) in titles.items():
            dock = docks.get(name)
            if dock is None:
                continue
            if name not in self._borrowed:
                self._borrowed[name] = (dock, dock.widget(), dock.windowTitle())
                dock.setWidget(widget)
                dock.setWindowTitle(title)
            dock.show()
            dock.raise_()

    def watch_docks(self) -> None:
        """The command of one of these panels shows it, and the replay stays on the stage."""
        for name in ("train", "run"):
            self._cockpit.commands.action(f"show-{name}").triggered.connect(lambda *_, name=name: self._want_back(name))

    def _want_back(self, name: str) -> None:
        if name in self._borrowed:
            dock = self._borrowed[name][0]
            self._give_back(name)
            enter(dock.widget() or dock)

    def _give_back(self, name: str) -> None:
        if name in self._borrowed:
            dock, widget, title = self._borrowed.pop(name)
            dock.setWidget(widget)
            dock.setWindowTitle((widget.windowTitle() if widget is not None else "") or title)

    # ---- what can be done ----------------------------------------------------------------------------------------

    def _add_commands(self) -> None:
        tr, add = self.tr, self._cockpit.commands.add
        film = tr("Film the episode: a picture of the beginning and one after each step")
        also = "video movie film save record"
        add(Command("replay-mp4", tr("Export MP4…"), "Run/Replay", "", film, also), lambda: self.ask_export("mp4"))
        add(Command("replay-gif", tr("Export GIF…"), "Run/Replay", "", film, also), lambda: self.ask_export("gif"))
        text = tr("Make a dataset of this episode, for learning from it offline")
        dataset = Command("replay-dataset", tr("Add to a dataset…"), "Run/Replay", "", text, "minari offline data")
        add(dataset, self.ask_dataset)
        text = tr("Begin a session in this very state, with you in the seat")
        also = "what if branch play from fork"
        take = Command("replay-take-over", tr("Take over here"), "Run/Replay", "Ctrl+Shift+H", text, also)
        add(take, self.take_over)

        text = tr("Give the stage back to what was there before")
        add(Command("replay-close", tr("Close the replay"), "Run/Replay", "", text, "leave end back"), self.close)

    def _offer(self) -> None:
        is_open = self._stage.over is self.page
        self._cockpit.commands.enable("replay-close", is_open, "" if is_open else self.tr("Open a replay first."))
        for name in ACTIONS:
            why = self._why_not(name)
            self._cockpit.commands.enable(name, not why, why)

    def _why_not(self, name: str) -> str:
        now = self.desk.current
        if now is None:
            return self.tr("Open a replay first.")
        if now.clip is not None:
            return self.tr("This is a clip: open a recorded episode.")
        if name in ("replay-mp4", "replay-gif"):
            if now.gone:
                return self.tr("The simulation is not running.")
            return self.tr("A film is being made.") if now.exporting is not None else ""
        episode = now.episode
        if name == "replay-dataset":
            ended = episode is not None and episode.outcome in ("terminated", "truncated")
            return "" if ended else self.tr("A dataset takes whole episodes; this one did not end.")
        return self._why_no_take_over()

    def _why_no_take_over(self) -> str:
        now = self.desk.current
        assert now is not None
        if self._is_taking_over:
            return self.tr("A session is being started.")
        if now.episode is None or now.episode.seed is None:
            return self.tr("This episode was recorded without a seed, so nobody can get there again.")
        if self.desk.place >= now.steps and now.episode.outcome:
            return self.tr("The episode is over here: go back a step.")
        differing = now.checked.difference if now.checked is not None else None
        if differing is not None and self.desk.place > differing.place:
            return self.tr("From step {place} on the simulation is not what was recorded.").format(
                place=differing.place
            )
        return ""

    # ---- films ---------------------------------------------------------------------------------------------------

    def ask_export(self, kind: str) -> QFileDialog | None:
        """Ask where to, without blocking, and begin when an answer comes."""
        now = self.desk.current
        if now is None or self._why_not(f"replay-{kind}"):
            return None
        dialog = QFileDialog(self.page, self.tr("Export the episode"))
        folder = Path(self._cockpit.preferences.get(_FOLDER, "") or Path.home())
        dialog.setDirectory(str(folder if folder.is_dir() else Path.home()))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(f"{kind.upper()} (*.{kind})")
        dialog.setDefaultSuffix(kind)
        dialog.selectFile(f"{now.title.lower().replace(' ', '-')}.{kind}")
        dialog.fileSelected.connect(lambda chosen: self.export(Path(chosen)))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def export(self, file: Path) -> None:
        self._cockpit.preferences.put(_FOLDER, str(file.parent))
        self.page.setFocus()  # the button is off until the film is there, and the focus would fall on any field
        self.desk.export(file)

    def _tell_exported(self, made: Exported) -> None:
        name = Path(made.file).name
        if made.why == "cancelled":
            self._cockpit.notify(Notice(self.tr("{name} was given up.").format(name=name)))
        elif made.why:
            text = self.tr("{name} was not written: {why}").format(name=name, why=made.why)
            self._cockpit.notify(Notice(text, "error"))
        else:
            cut = self.tr(", up to the step that differs") if made.cut else ""
            text = self.tr("{name}: {frames} frames{cut}").format(name=name, frames=f"{made.frames:,}", cut=cut)
            self._cockpit.notify(Notice(text))

    # ---- datasets ------------------------------------------------------------------------------------------------

    def ask_dataset(self) -> None:
        now = self.desk.current
        if now is None or now.episode is None or self._why_not("replay-dataset"):
            return
        number = now.episode.number
        question = self.tr("Make a dataset of episode {number}?").format(number=number)
        answers = (self.tr("Make it"), self.tr("Cancel"))
        text = self.tr("Writes it below the data root; `mosaic datasets` lists it and exports it for Minari")
        self.page.dataset_bar.ask(question, [], answers, text, lambda: self.make_dataset(self.page.dataset_name.text()))
        self.page.dataset_name.setFocus()

    def make_dataset(self, name: str) -> None:
        now, source, paths = self.desk.current, self.desk.source, self._cockpit.bridge.paths
        if now is None or now.episode is None or source is None:
            return
        only = Only("episode", str(now.episode.number))

        def done(entry: DatasetEntry) -> None:
            text = self.tr("The dataset {name} was made: `mosaic datasets show {name}`").format(name=entry.name)
            self._cockpit.notify(Notice(text))

        failed = lambda sentence: self._cockpit.notify(Notice(sentence, "error"))  # noqa: E731
        self._cockpit.bridge.in_background(lambda: make(source, name.strip(), paths, only), done, failed, owner=self)

    # ---- taking over ---------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Have a session begin at this step, with the person in the seat and the policy of then at hand."""
        now, source, place = self.desk.current, self.desk.source, self.desk.place
        if now is None or now.episode is None or source is None or self._why_not("replay-take-over"):
            return
        number, record, paths = now.episode.number, now.record, self._cockpit.bridge.paths
        checkpoint = policy_at(source.about, record.episode.extras if record is not None else {}, place)
        self._is_taking_over = True
        self._offer()

        def done(wish: SessionWish) -> None:
            self._is_taking_over = False
            self.close()
            self.session_wanted.emit(wish)

        def failed(sentence: str) -> None:
            self._is_taking_over = False
            self._offer()
            self._cockpit.notify(Notice(one_line(sentence), "error"))

        wish = lambda: taken_over(source, paths, number, place, checkpoint=checkpoint)  # noqa: E731
        self._cockpit.bridge.in_background(wish, done, failed, owner=self)
