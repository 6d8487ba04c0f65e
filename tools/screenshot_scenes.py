"""What to do in the cockpit before each picture. :mod:`tools.screenshot_camera` takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from subprocess import CalledProcessError
from typing import Any, TypeVar

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QPlainTextEdit, QWidget

from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.doctor_panel import DoctorPanel
from gym_gui.ui.panels.log_drawer import LogDrawer
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.overview_tab import OverviewTab
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.tensorboard_tab import TensorBoardTab
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.panels.wandb_tab import WandbTab
from gym_gui.ui.widgets.cleanrl_train_form import CleanRlTrainForm
from gym_gui.ui.widgets.snackbar import Snackbar
from mosaic_protocol.paths import MosaicPaths
from tools import (
    screenshot_datasets,
    screenshot_media,
    screenshot_mind,
    screenshot_play,
    screenshot_replay,
    screenshot_sweep,
)
from tools.screenshot_camera import LARGE_SIZE, ROOT, SMALL_SIZE, USUAL_SIZE, Camera, InVain
from tools.screenshot_runs import ENV_ID, LEARNERS, SEEDS, WAITING, Runs

Panel = TypeVar("Panel", bound=QWidget)
_CURVES = ("window-live", "stage-paused", "stage-finished", "log-busy", "stage-failed", "log-search")
_OVERLAYS = ("stage-compared", "metrics-seeds", "window-large", "window-small", "stage-differences", "stage-statistics")
_LISTS = ("runs-busy", "runs-grouped", "runs-columns", "runs-cancel", "runs-no-match")
_EMPTY = (
    *("window-first-start", "tour-hint", "window-empty", "run-empty", "capacity-empty", "checkpoints-empty"),
    *("episodes-empty", "sweeps-empty", "datasets-empty", "trash-empty", "train-human"),
)
_TABS = ("run-live", "run-tensorboard", "run-overview", "run-overview-small", "run-overview-large", "run-wandb")
_TRAINED = (
    *("checkpoints-busy", "checkpoints-evaluated", "checkpoints-large", "checkpoints-small"),
    *("checkpoints-import", "checkpoints-import-error"),
)


@dataclass(frozen=True)
class Chapter:
    """Pictures that are taken together, and the runs that they show."""

    take: Callable[[Scenes], None]
    pictures: Sequence[str]
    runs: Sequence[str] = ()


def take_all(camera: Camera, paths: MosaicPaths) -> None:
    """Take every picture that the camera wants, in the order in which a new user would see the screens."""
    cockpit = CockpitApp(camera.app, paths, start_daemon=False)
    camera.cockpit = cockpit
    cockpit.reporter.happened.connect(lambda report: camera.failures.append(f"the cockpit met an error:\n{report}"))
    try:
        Scenes(camera, cockpit).take()
    finally:
        cockpit.close()


class Scenes:
    """One cockpit from its first start to a daemon that is away."""

    def __init__(self, camera: Camera, app: CockpitApp) -> None:
        self.camera, self.app, self.window = camera, app, app.window
        self.cockpit = app.window.cockpit
        self.runs = Runs(self.cockpit, camera)
        self.stage, self.metrics = self.part(Stage), self.part(MetricsPanel)
        self.train, self.table = self.part(TrainDock), self.part(RunsPanel)

    def part(self, kind: type[Panel]) -> Panel:
        found = self.window.findChild(kind)
        assert found is not None, f"the cockpit has no {kind.__name__}"
        return found

    def take(self) -> None:
        self.window.move(0, 0)
        self.app.open()
        self.until("the daemon's answer", lambda: self.cockpit.bridge.connection.connected)
        self.until("the workers", lambda: self.train.workers.count() > 0)
        first, *middle, last = CHAPTERS
        self._tell(self.camera.themes, [first])
        self._be_usual()
        # All at once and before any picture, so that they train while forms are photographed.
        self.runs.begin(name for one in middle if self.camera.wants(*one.pictures) for name in one.runs)
        for theme in self.camera.themes:
            self._tell([theme], middle)
        self._tell(self.camera.themes, [last])

    def _tell(self, themes: Sequence[str], chapters: Sequence[Chapter]) -> None:
        self.camera.passing = themes
        for chapter in chapters:
            if self.camera.wants(*chapter.pictures):
                self._try(chapter)
        self.camera.passing = self.camera.themes

    def _be_usual(self) -> None:
        assert self.app.first_steps is not None
        self.app.first_steps.welcome.later.click()
        self.train.mode.choose("agent")
        self.train.workers.choose("cleanrl")
        self.train.show_page("train")
        self.until("the form", lambda: isinstance(self.train.form, CleanRlTrainForm) and self._form.parameters.is_known)
        self.resize(USUAL_SIZE)
        self.show("metrics", "runs")

    def _try(self, chapter: Chapter) -> None:
        """A picture that cannot be taken keeps none of the others from being taken."""
        try:
            self.runs.need(*chapter.runs)
            chapter.take(self)
        except (InVain, CalledProcessError) as error:
            self.camera.failures.append(f"{chapter.pictures[0]} …: {error}")
            self.camera.say(self.camera.failures[-1])

    def until(self, what: str, probe: Callable[[], object]) -> None:
        self.camera.until(what, probe)

    def sizes(self, name: str, *, left: int = 400, again: Callable[[], object] = lambda: None) -> None:
        """The same on a small and on a large screen, as far as it is wanted."""
        for word, size, wide in (("small", SMALL_SIZE, 330), ("large", LARGE_SIZE, left)):
            if self.camera.wants(f"{name}-{word}"):
                self.resize(size, left=wide, right=440 if word == "large" else 356)
                again()
                self.camera.take(f"{name}-{word}")
        self.resize(USUAL_SIZE)

    # ---- before the first run ------------------------------------------------------------------------------------

    def nothing_yet(self) -> None:
        """What stands where there is nothing: in a data root that is new."""
        if len(self.cockpit.runs) or self.app.first_steps is None:
            raise InVain("a data root without runs: leave --home out, or name a new folder")
        welcome, tour = self.app.first_steps.welcome, self.app.first_steps.tour
        self.camera.take("window-first-start")
        welcome.later.click()
        tour.start()
        self.camera.take("tour-hint")
        tour.close_button.click()
        self.train.show_page("train")
        self.until("the form", lambda: self.train.form is not None and self._form.parameters.is_known)
        self.camera.take("window-empty")
        self.show("run", "log")
        self.camera.take("run-empty")
        self.show("capacity", "runs")
        self.camera.take("capacity-empty")
        self.show("metrics")
        for name in ("episodes", "sweeps", "datasets"):
            self.show(name)
            self.camera.breathe(500)
            self.camera.take(f"{name}-empty")
        self.show("runs")
        self.cockpit.commands.action("trash").trigger()
        self.camera.take("trash-empty")
        self.table.trash.left.emit()
        self.train.show_page("use")
        self.until("the checkpoints", lambda: "No checkpoints" in _texts(self.train.trained))
        self.camera.take("checkpoints-empty")
        self.train.show_page("train")
        self.train.mode.choose("human")
        self.until("the game's keys", lambda: self.train.play is not None and self.train.play.keys.caps)
        self.camera.take("train-human")
        self.train.mode.choose("agent")

    # ---- runs ----------------------------------------------------------------------------------------------------

    def _has_steps(self, name: str) -> bool:
        return self.runs.steps(name) > 2000

    def select(self, *names: str) -> None:
        """Look at these runs, and wait until their curves are there."""
        ids = [self.runs[name] for name in names]
        self.cockpit.selection.select(ids)
        self.until("curves", lambda: self.metrics.isHidden() or all(self._has_curves(run_id) for run_id in ids))

    def _has_curves(self, run_id: str) -> bool:
        from gym_gui.ui.metrics_store import MetricsStore

        metrics = MetricsStore.of(self.cockpit.bridge).metrics(run_id)
        return metrics is not None and len(metrics.series) > 1

    # ---- forms ---------------------------------------------------------------------------------------------------

    @property
    def _form(self) -> CleanRlTrainForm:
        form = self.train.form
        assert isinstance(form, CleanRlTrainForm)
        return form

    def train_form(self) -> None:
        form = self._form
        form.content.run["total_timesteps"].put("100k")
        form.content.remarks["notes"].put("A baseline to compare with.")
        self._scroll_to(form.content.picker)
        self.camera.take("train-filled")
        form.dry_run()
        self.until("the dry run", lambda: "dry run" in _texts(form.notes_panel))
        self._forget_where_we_are(form.notes_panel)
        self.camera.take("train-dry-run", lambda: self._scroll_to(form.content.sections["notes"], top=True))
        form.content.run["seed"].put("minus one")
        form.content.run["total_timesteps"].put("0")
        form.environment.put("CartPole-v9")
        self.camera.take("train-errors", lambda: self._scroll_to(form.content.picker))
        form.put_state({})
        form.environment.put(ENV_ID)
        self.until("the form", lambda: form.parameters.is_known)
        self.resize(LARGE_SIZE, left=900)
        self.camera.take("train-large", lambda: self._scroll_to(form.content.picker))
        self.resize(SMALL_SIZE, left=330)
        self.camera.take("train-small", lambda: self._scroll_to(form.content.picker))
        self.resize(USUAL_SIZE)

    def _forget_where_we_are(self, notes: QPlainTextEdit) -> None:
        """In which folder the pictures were taken is of no interest to those who look at them."""
        notes.setPlainText(notes.toPlainText().replace(str(ROOT), "~/mosaic"))

    def _scroll_to(self, widget: QWidget, *, top: bool = False) -> None:
        self.camera.breathe()
        bar = self._form.area.verticalScrollBar()
        inside = self._form.area.widget()
        if bar is not None and inside is not None:
            bar.setValue(widget.mapTo(inside, widget.rect().topLeft()).y() - 12 if top else 0)

    # ---- looking at runs -----------------------------------------------------------------------------------------

    def stages(self) -> None:
        for name in ("live", "paused"):
            self.until("steps", partial(self._has_steps, name))
        self.runs.ask("pause", "paused", "PAUSE")
        self.show("metrics", "runs")
        self.select("live")
        self.camera.take("window-live")
        self.select("paused")
        self.camera.take("stage-paused")
        self.select("ppo-1")
        self.camera.take("stage-finished")
        self.show("log")
        self.camera.take("log-busy")
        self.cockpit.selection.select([self.runs["failed"]])
        log = self.part(LogDrawer)
        self.until("the log", lambda: "finite" in _texts(log))
        self.camera.take("stage-failed")
        log.bar.search.setText("loss")
        self.camera.take("log-search")
        log.bar.search.clear()
        self.show("runs")

    def overlays(self) -> None:
        self.select("ppo-1", "ppo-2", "dqn")
        self.camera.take("stage-compared")
        self.select(*(f"ppo-{seed}" for seed in SEEDS), "dqn")
        self.metrics.toolbar.seeds.setChecked(True)
        self.camera.take("metrics-seeds")
        self.resize(LARGE_SIZE, right=760)
        self.camera.take("window-large")
        self.metrics.toolbar.seeds.setChecked(False)
        self.select("ppo-1")
        self.resize(SMALL_SIZE)
        self.camera.take("window-small")
        self.resize(USUAL_SIZE)
        self.select("ppo-1", "ppo-2", "dqn")
        self.cockpit.commands.action("compare-settings").trigger()
        self.camera.take("stage-differences")
        self.select(*(f"ppo-{seed}" for seed in SEEDS), "dqn")
        self.cockpit.commands.action("compare-runs").trigger()
        comparison = self.part(Stage).compared.comparison
        self.until("the comparison", lambda: comparison.found is not None)
        self.camera.take("stage-statistics")
        self.part(Stage).compared.views.choose("curves")

    def lists(self) -> None:
        self.resize(USUAL_SIZE, bottom=350)
        self.select("ppo-1")
        self.camera.take("runs-busy")
        self.table.grouping.setCurrentIndex(self.table.grouping.findData("algorithm"))
        self.table.list.scrollToTop()
        self.camera.take("runs-grouped")
        self.table.grouping.setCurrentIndex(0)
        self.cockpit.commands.action("choose-columns").trigger()
        self.camera.take("runs-columns")
        self._close_popup()
        self.select("live")
        self.cockpit.commands.action("run-cancel").trigger()
        self.table.cancel_panel.reason.setText("the seed was wrong")
        self.camera.take("runs-cancel")
        self.table.cancel_panel.close_panel()
        self.table.filters.text.setText("pacman")
        self.until("the filter", lambda: self.table.stack.currentWidget() is self.table.empty)
        self.camera.take("runs-no-match")
        self.table.filters.clear()
        self.select("live")
        self.resize(USUAL_SIZE)

    def _close_popup(self) -> None:
        popup = self.camera.app.activePopupWidget()
        if popup is not None:
            popup.close()

    def queue(self) -> None:
        """Runs that wait. Nothing passes the first of them, so this comes when nothing else is to train."""
        self.runs.begin(WAITING)
        self.runs.need(*WAITING)
        self.show("capacity", "runs")
        self.cockpit.selection.select([self.runs["queued"]])
        self.camera.take("stage-queued")
        self.camera.take("capacity-busy")
        self.cockpit.selection.select([self.runs["queued-last"]])
        self.cockpit.commands.action("queue-front").trigger()
        self.until("the notice", lambda: self.part(Snackbar).isVisible())
        self.camera.take("queue-moved")
        self.part(Snackbar).close()
        self.runs.forget(*WAITING)
        self.show("metrics")

    def tabs(self) -> None:
        tabs = self.part(RunTabs)
        self.show("run", "runs")
        self.cockpit.selection.select([self.runs["live"]])
        for name in ("live", "tensorboard"):
            tabs.show_tab(name)
            if name == "tensorboard":
                self.until("TensorBoard", lambda: any(tab.address for tab in tabs.findChildren(TensorBoardTab)))
            self.camera.take(f"run-{name}")
        self.cockpit.selection.select([self.runs["ppo-1"]])
        tabs.show_tab("overview")
        self.until("the overview", lambda: any(tab.facts for tab in tabs.findChildren(OverviewTab)))
        self.camera.take("run-overview")

        def shown_again() -> None:  # each arrangement of the docks has a tab of its own in front
            self.show("run")
            tabs.show_tab("overview")

        self.sizes("run-overview", again=shown_again)
        self.show("run")
        self.cockpit.selection.select([self.runs["live"]])
        tabs.show_tab("live")
        self.cockpit.selection.select([self.runs[f"ppo-{SEEDS[0]}"]])
        tabs.show_tab("wandb")
        self.until("W&B's curves", lambda: any(tab.grid.cards for tab in tabs.findChildren(WandbTab)))
        self.camera.take("run-wandb")

    def doctor(self) -> None:
        self.show("doctor")
        panel = self.part(DoctorPanel)
        self.until("the checks", lambda: panel.checks and all("connecting" not in one.detail for one in panel.checks))
        self._take_checks(panel, "doctor-busy")

    def _take_checks(self, panel: DoctorPanel, name: str) -> None:
        panel.checks = [replace(one, detail=one.detail.replace(str(ROOT), "~/mosaic")) for one in panel.checks]
        self.app.themes.toggle()  # has them drawn again
        self.camera.take(name)

    # ---- what was trained ----------------------------------------------------------------------------------------

    def trained(self) -> None:
        self.show("metrics")
        self.select("ppo-1")
        self.train.show_page("use")
        browser: Any = self.train.trained
        self.until("the checkpoints", lambda: len(browser.cards) >= 3)
        self.camera.take("checkpoints-busy")
        browser.filter.setText("ppo-cartpole-v1-s1")
        browser.choose(max((card.entry for card in browser.cards), key=lambda entry: entry.created_at))
        browser.details.episodes.setValue(30)
        browser.details.evaluate.click()
        self.until("the evaluation", lambda: browser.details.job is None)
        self.camera.take("checkpoints-evaluated")
        self.resize(LARGE_SIZE, left=900)
        self.camera.take("checkpoints-large")
        self.resize(SMALL_SIZE, left=330)
        self.camera.take("checkpoints-small")
        self.resize(USUAL_SIZE)
        browser.details.hide()
        browser.filter.clear()
        panel = browser.import_panel
        panel.show()
        self.camera.take("checkpoints-import")
        panel.file.setText("/models/cartpole.cleanrl_model")
        panel.env_id.setText(ENV_ID)
        panel.start.click()
        self.until("the refusal", lambda: "no file" in panel.told.text())
        self.camera.take("checkpoints-import-error")
        panel.hide()
        self.train.show_page("train")

    # ---- the frame -----------------------------------------------------------------------------------------------

    def commands(self) -> None:
        popup = self.window.palette_popup
        self.camera.take("palette-busy", popup.open)
        self.camera.take("palette-found", self._find_run)
        popup.hide()
        self.cockpit.selection.select([self.runs["failed"]])
        self.cockpit.commands.action("run-delete").trigger()
        self.until("the notice", lambda: self.part(Snackbar).isVisible())
        self.camera.take("snackbar-undo")
        self.cockpit.commands.action("trash").trigger()
        self.camera.take("runs-trash")
        self.table.trash.left.emit()
        failed = self.runs["failed"]
        self.cockpit.bridge.call(lambda client: client.restore(failed))
        self.until("the run to be back", lambda: self.runs.run("failed") is not None)

    def _find_run(self) -> None:
        self.window.palette_popup.open()
        self.window.palette_popup.query.setText("run")

    def daemon_away(self) -> None:
        if "live" in self.runs:
            self.select("live")
        self.cockpit.bridge.call(lambda client: client.shutdown())
        self.until("the daemon to be away", lambda: not self.cockpit.bridge.connection.connected)
        self.camera.take("daemon-away")
        self.show("doctor")
        panel = self.part(DoctorPanel)
        self.until("what is wrong", lambda: any(one.status == "fail" for one in panel.checks))
        self._take_checks(panel, "doctor-error")

    # ---- windows -------------------------------------------------------------------------------------------------

    def show(self, *names: str) -> None:
        for name in names:
            self.window.show_part(name)

    def resize(self, size: tuple[int, int], *, left: int = 400, right: int = 356, bottom: int = 260) -> None:
        self.window.resize(*size)
        self.until("the size", lambda: (self.window.width(), self.window.height()) == size)
        docks = self.window.docks
        wide, high = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
        self.window.resizeDocks([docks["train"], docks["metrics"]], [left, right], wide)
        self.window.resizeDocks([docks["runs"]], [bottom], high)
        self.camera.breathe()


# The first and the last cannot be told twice: they are taken in all themes at once.
CHAPTERS: Sequence[Chapter] = (
    Chapter(Scenes.nothing_yet, _EMPTY),
    Chapter(Scenes.train_form, ("train-filled", "train-errors", "train-dry-run", "train-large", "train-small")),
    Chapter(screenshot_sweep.form_scenes, (screenshot_sweep.FORM,)),
    Chapter(Scenes.stages, _CURVES, (*LEARNERS, "failed", "live", "paused")),
    Chapter(Scenes.overlays, _OVERLAYS, LEARNERS),
    Chapter(Scenes.lists, _LISTS, (*LEARNERS, "failed", "live")),
    Chapter(Scenes.tabs, _TABS, ("ppo-1", "live")),
    Chapter(Scenes.doctor, ("doctor-busy",)),
    Chapter(Scenes.trained, _TRAINED, ("ppo-1", "dqn")),
    Chapter(screenshot_play.play_scenes, screenshot_play.NAMES, ("ppo-1",)),
    Chapter(screenshot_replay.replay_scenes, screenshot_replay.NAMES, ("ppo-1", "failed")),
    Chapter(screenshot_media.media_scenes, screenshot_media.NAMES, ("ppo-1",)),
    Chapter(screenshot_datasets.dataset_scenes, screenshot_datasets.NAMES, ("ppo-1",)),
    Chapter(screenshot_mind.mind_scenes, screenshot_mind.NAMES),
    Chapter(screenshot_sweep.sweep_scenes, screenshot_sweep.SWEEP),
    Chapter(Scenes.queue, ("stage-queued", "capacity-busy", "queue-moved"), ("live",)),
    Chapter(Scenes.commands, ("palette-busy", "palette-found", "snackbar-undo", "runs-trash"), ("failed",)),
    Chapter(Scenes.daemon_away, ("daemon-away", "doctor-error")),
)


def _texts(widget: QWidget) -> str:
    """Everything that a widget says."""
    found = []
    for child in [widget, *widget.findChildren(QWidget)]:
        for name in ("text", "toPlainText"):
            read = getattr(child, name, None)
            if callable(read):
                found.append(str(read()))
    return "\n".join(found)
