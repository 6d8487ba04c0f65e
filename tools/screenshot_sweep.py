"""A sweep for the pictures: ranges in the form, a short search on CartPole, its trials and charts, and the study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gym_gui.services.sweeps.model import SweepSpec
from gym_gui.services.sweeps.space import read_space
from gym_gui.services.sweeps.wish import SweepWish, spec_of
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.panels.optuna_tab import OptunaTab
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.sweeps.screen import SweepScreen
from gym_gui.ui.widgets.cleanrl_train_form import CleanRlTrainForm
from tools.screenshot_camera import LARGE_SIZE, SMALL_SIZE, USUAL_SIZE

if TYPE_CHECKING:
    from tools.screenshot_scenes import Scenes

FORM = "sweep-form"
SWEEP = ("sweep-live", "sweep", "sweep-small", "sweep-large", "sweep-filtered", "sweeps-list", "run-optuna")
STEPS, TRIALS = 3_000, 10
NAME = "tune-cartpole"
SPACE = """
learning_rate = { low = 1e-4, high = 1e-2, log = true }
num_steps = [32, 64, 128, 256]
update_epochs = { low = 2, high = 10 }
ent_coef = { low = 0.0, high = 0.02 }
"""


def form_scenes(scenes: Scenes) -> None:
    _form(scenes, _form_of(scenes))


def sweep_scenes(scenes: Scenes) -> None:
    _sweep(scenes, _form_of(scenes))


def _form_of(scenes: Scenes) -> CleanRlTrainForm:
    scenes.train.mode.choose("agent")
    scenes.train.workers.choose("cleanrl")
    scenes.train.show_page("train")
    form = scenes.train.form
    assert isinstance(form, CleanRlTrainForm)
    return form


def _form(scenes: Scenes, form: CleanRlTrainForm) -> None:
    kept = {**form.state(), "sweep": form.sweep.state()}
    form.content.sections["sweep"].set_open(True)
    form.sweep.switch.setChecked(True)
    for name, entry in (("learning_rate", "1e-4 to 1e-2 log"), ("num_steps", "32, 64, 128, 256")):
        form.parameters.fields[name].put_range(entry)
    form.refresh()
    scenes.camera.take(FORM, lambda: form.bring_into_sight(form.parameters.fields))
    form.put_state(kept)
    form.bring_into_sight(form.content.picker)


def _spec(form: CleanRlTrainForm) -> SweepSpec:
    wish = SweepWish(trials=TRIALS, parallel=2, seeds=1, pruner="asha")
    return spec_of(form.request().config(), read_space(SPACE, "sweep.toml"), wish, STEPS)


def _sweep(scenes: Scenes, form: CleanRlTrainForm) -> None:
    screen = scenes.stage.findChild(SweepScreen)
    assert screen is not None
    sweep_id = _begun(scenes, form)
    screen.open(sweep_id)
    scenes.until("the sweep", lambda: screen.desk.sweep is not None)
    if screen.desk.sweep is not None and not screen.desk.sweep.is_over:
        scenes.until("some trials", lambda: screen.desk.sweep is not None and len(screen.desk.sweep.trials) >= 5)
        scenes.camera.take("sweep-live", fleeting=True)
    scenes.until("the sweep's end", lambda: screen.desk.sweep is not None and screen.desk.sweep.is_over)
    for name, size in (("sweep", USUAL_SIZE), ("sweep-small", SMALL_SIZE), ("sweep-large", LARGE_SIZE)):
        scenes.resize(size)
        screen.open(sweep_id)
        scenes.camera.take(name)
    scenes.resize(USUAL_SIZE)
    screen.open(sweep_id)
    screen.desk.set_range("", (0.6, 1.0))
    scenes.camera.take("sweep-filtered")
    best = screen.desk.trial
    assert best is not None
    screen.desk.choose(best.number)
    scenes.show("run")
    tabs = scenes.part(RunTabs)
    tabs.show_tab("optuna")
    scenes.until("the study", lambda: any(tab.studies for tab in tabs.findChildren(OptunaTab)))
    scenes.camera.take("run-optuna")
    screen.close()
    scenes.show("sweeps", "metrics")
    scenes.camera.take("sweeps-list")


def _begun(scenes: Scenes, form: CleanRlTrainForm) -> str:
    """One sweep, also in a data root that is kept."""
    with TrainerClient.connect(scenes.cockpit.bridge.paths) as client:
        there = NAME if any(NAME in one.document.decode() for one in client.sweeps()) else None
        sweep = client.sweep(there) if there else client.submit_sweep(NAME, _spec(form))
        return sweep.sweep_id
