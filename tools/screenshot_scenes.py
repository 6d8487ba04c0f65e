"""What to do in the cockpit before each picture. :mod:`tools.screenshot_camera` takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QPlainTextEdit, QWidget

from gym_gui.services.run_request import RunRequest
from gym_gui.services.trainer.client import TrainerClient
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
from tools.screenshot_camera import LARGE_SIZE, ROOT, SMALL_SIZE, USUAL_SIZE, Camera, InVain
from tools.screenshot_mind import mind_scenes
from tools.screenshot_play import PlayScenes
from tools.screenshot_replay import NAMES as REPLAY_NAMES
from tools.screenshot_replay import replay_scenes
from tools.screenshot_sweep import sweep_scenes

Panel = TypeVar("Panel", bound=QWidget)
ENV_ID = "CartPole-v1"
LEARNING_STEPS, LIVE_STEPS = 40_000, 5_000_000
SEEDS = (1, 2, 3, 4)


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
        self.runs: dict[str, str] = {}
        """Ids of the runs by what they are here for."""
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
        self.first_start()
        self.train.show_page("train")
        self.until("the form", lambda: self.train.form is not None and self._form.parameters.is_known)
        for scenes in (self.nothing_yet, self.submit_runs, self.train_form, self.wait_for_runs):
            scenes()
        for scenes in (self.stages, self.overlays, self.lists, self.tabs, self.doctor, self.trained, self.play):
            self._try(scenes)
        self._try(self.replay)
        self._try(self.minds)
        self._try(self.sweep)
        self._try(self.commands)
        self._try(self.daemon_away)

    def _try(self, scenes: Callable[[], None]) -> None:
        """A picture that cannot be taken keeps none of the others from being taken."""
        try:
            scenes()
        except InVain as error:
            self.camera.failures.append(f"{scenes.__name__}: {error}")
            print(self.camera.failures[-1], flush=True)

    def until(self, what: str, probe: Callable[[], object]) -> None:
        self.camera.until(what, probe)

    # ---- before the first run ------------------------------------------------------------------------------------

    def first_start(self) -> None:
        assert self.app.first_steps is not None
        welcome, tour = self.app.first_steps.welcome, self.app.first_steps.tour
        self.camera.take("window-first-start")
        welcome.later.click()
        tour.start()
        self.camera.take("tour-hint")
        tour.close_button.click()

    def nothing_yet(self) -> None:
        self.camera.take("window-empty")
        self.show("run", "log")
        self.camera.take("run-empty")
        self.show("capacity", "runs")
        self.camera.take("capacity-empty")
        self.train.show_page("use")
        self.until("the checkpoints", lambda: "No checkpoints" in _texts(self.train.trained))
        self.camera.take("checkpoints-empty")
        self.train.show_page("train")
        self.train.mode.choose("human")
        self.show("metrics")
        self.until("the game's keys", lambda: self.train.play is not None and self.train.play.keys.caps)
        self.camera.take("train-human")
        self.train.mode.choose("agent")

    # ---- runs ----------------------------------------------------------------------------------------------------

    def submit_runs(self) -> None:
        """Runs of every kind: learning, failing, waiting, cancelled. They train while the forms are photographed."""
        if not self.camera.wants(*_WITH_RUNS):
            return
        too_fast = {"learning_rate": 1e30}
        with TrainerClient.connect(self.cockpit.bridge.paths) as client:
            submit = partial(self.submit, client)
            for seed in SEEDS:
                tracked = {"track": True} if seed == SEEDS[0] else None
                submit(f"ppo-{seed}", algo="ppo", seed=seed, steps=LEARNING_STEPS, flags=tracked)
            submit("dqn", algo="dqn", seed=1, steps=12_000, flags={"learning_starts": 1000, "train_frequency": 4})
            submit("failed", algo="ppo", seed=5, steps=LEARNING_STEPS, flags=too_fast, name="ppo-learning-rate-1e30")
            submit("live", algo="ppo", seed=4, steps=LIVE_STEPS, name="ppo-cartpole-long")
            submit("paused", algo="dqn", seed=5, steps=LIVE_STEPS, name="dqn-cartpole-long")
            submit("cancelled", algo="c51", seed=6, steps=LIVE_STEPS, name="c51-cartpole-long")
            submit("queued", algo="ppo", seed=7, steps=LEARNING_STEPS, cpus=4, name="ppo-wants-four-cpus")

    def submit(
        self,
        client: TrainerClient,
        what: str,
        *,
        algo: str,
        seed: int,
        steps: int,
        flags: dict[str, Any] | None = None,
        cpus: int = 1,
        name: str = "",
    ) -> None:
        settings = {"algo": algo, "env_id": ENV_ID, "seed": seed, "total_timesteps": steps}
        if flags:
            settings["extras"] = {"algo_params": flags}
        name = name or f"{algo}-cartpole-v1-s{seed}"
        request = RunRequest("cleanrl", "cleanrl_worker.cli", name, settings, cpus=cpus, tags=("screenshots",))
        self.runs[what] = client.submit(request.config()).run.run_id

    def wait_for_runs(self) -> None:
        if not self.runs:
            return
        call = self.cockpit.bridge.call
        learning = [f"ppo-{seed}" for seed in SEEDS]
        self.until("the runs that learn", lambda: all(self.is_in("TERM", *learning, "dqn", "failed")))
        self.until("the long runs", lambda: all(self.is_in("EXEC", "live", "paused", "cancelled")))
        self.until("steps of the long runs", lambda: all(self._steps(name) > 2000 for name in ("live", "paused")))
        call(lambda client: client.cancel(self.runs["cancelled"], "the return does not rise; more exploration next"))
        call(lambda client: client.pause(self.runs["paused"]))
        self.until("one to be cancelled", lambda: all(self.is_in("TERM", "cancelled")))
        self.until("one to pause", lambda: all(self.is_in("PAUSE", "paused")))

    def is_in(self, state: str, *names: str) -> list[bool]:
        found = [self.cockpit.runs.get(self.runs[name]) for name in names]
        return [run is not None and run.state == state for run in found]

    def _steps(self, name: str) -> int:
        run = self.cockpit.runs.get(self.runs[name])
        return run.last_step if run is not None else 0

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
        if not self.camera.wants("train-filled", "train-errors", "train-dry-run", "train-large"):
            return
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
        if not self.runs:
            return
        self.show("metrics", "runs")
        self.select("live")
        self.camera.take("window-live")
        self.select("paused")
        self.camera.take("stage-paused")
        self.select("ppo-1")
        self.camera.take("stage-finished")
        self.show("log")
        self.camera.take("log-busy")
        self.cockpit.selection.select([self.runs["queued"]])
        self.camera.take("stage-queued")
        self.cockpit.selection.select([self.runs["failed"]])
        log = self.part(LogDrawer)
        self.until("the log", lambda: "finite" in _texts(log))
        self.camera.take("stage-failed")
        log.bar.search.setText("loss")
        self.camera.take("log-search")
        log.bar.search.clear()
        self.show("runs")

    def overlays(self) -> None:
        if not self.runs:
            return
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
        if not self.runs:
            return
        self.resize(USUAL_SIZE, bottom=350)
        self.select("ppo-1")
        self.camera.take("runs-busy")
        self.table.grouping.setCurrentIndex(self.table.grouping.findData("algorithm"))
        self.table.list.scrollToTop()
        self.camera.take("runs-grouped")
        self.table.grouping.setCurrentIndex(0)
        self.select("live")
        self.cockpit.commands.action("run-cancel").trigger()
        self.table.cancel_panel.reason.setText("the seed was wrong")
        self.camera.take("runs-cancel")
        self.table.cancel_panel.close_panel()
        self.table.filters.text.setText("breakout")
        self.until("the filter", lambda: self.table.stack.currentWidget() is self.table.empty)
        self.camera.take("runs-no-match")
        self.table.filters.clear()
        self.select("live")
        self.resize(USUAL_SIZE)
        self.show("capacity")
        self.camera.take("capacity-busy")

    def tabs(self) -> None:
        if not self.runs:
            return
        tabs = self.part(RunTabs)
        self.show("run")
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
        self.cockpit.selection.select([self.runs["live"]])
        tabs.show_tab("live")
        self.cockpit.selection.select([self.runs[f"ppo-{SEEDS[0]}"]])
        tabs.show_tab("wandb")
        self.until("W&B's curves", lambda: any(tab.grid.cards for tab in tabs.findChildren(WandbTab)))
        self.camera.take("run-wandb")

    def doctor(self) -> None:
        if not self.camera.wants("doctor-busy"):
            return
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
        if not self.runs or not self.camera.wants(*(name for name in _WITH_RUNS if name.startswith("checkpoints"))):
            return
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

    def play(self) -> None:
        PlayScenes(self).take()

    def replay(self) -> None:
        replay_scenes(self)

    def minds(self) -> None:
        mind_scenes(self)

    def sweep(self) -> None:
        sweep_scenes(self)

    # ---- the frame -----------------------------------------------------------------------------------------------

    def commands(self) -> None:
        if not self.camera.wants("palette-busy", "palette-found", "snackbar-undo", "runs-trash"):
            return
        popup = self.window.palette_popup
        self.camera.take("palette-busy", popup.open)
        self.camera.take("palette-found", self._find_run)
        popup.hide()
        if self.runs:
            self.select("failed")
            self.cockpit.commands.action("run-delete").trigger()
            self.until("the notice", lambda: self.part(Snackbar).isVisible())
            self.camera.take("snackbar-undo")
            self.cockpit.commands.action("trash").trigger()
            self.camera.take("runs-trash")
            self.table.trash.left.emit()

    def _find_run(self) -> None:
        self.window.palette_popup.open()
        self.window.palette_popup.query.setText("run")

    def daemon_away(self) -> None:
        if not self.camera.wants("daemon-away", "doctor-error"):
            return
        if self.runs:
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


_WITH_RUNS: Sequence[str] = (
    *(
        "window-live",
        "window-large",
        "window-small",
        "stage-differences",
        "stage-statistics",
        "run-overview",
        "stage-paused",
        "stage-finished",
        "stage-queued",
        "stage-failed",
    ),
    *("stage-compared", "log-busy", "log-search", "metrics-seeds", "runs-busy", "runs-grouped", "runs-cancel"),
    *("runs-no-match", "capacity-busy", "run-live", "run-tensorboard", "run-wandb", "checkpoints-busy"),
    "checkpoints-evaluated",
    *("checkpoints-large", "checkpoints-import", "checkpoints-import-error", "snackbar-undo", "runs-trash"),
    *REPLAY_NAMES,
    "daemon-away",
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
