"""BDI agents for the pictures: their form with a mistake in the plans, their minds live, and in a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gym_gui.ui.mind.mind_feed import MindFeeds
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.replay.screen import ReplayScreen
from gym_gui.ui.widgets.spade_bdi_train_form import SpadeBdiTrainForm
from gym_gui.ui.workers.spade_bdi.mind_tab import MindTab
from tools.screenshot_camera import LARGE_SIZE, SMALL_SIZE, USUAL_SIZE
from tools.screenshot_runs import Wish

if TYPE_CHECKING:
    from tools.screenshot_scenes import Scenes

WORKER = "spade_bdi_rl_worker"
LIVE = ("mind-live", "mind-live-small", "mind-live-large", "mind-replay", "mind-replay-small")
TABLE = "mind-table"
FORM = ("mind-train", "mind-form", "mind-form-large")
NAMES = (*LIVE, TABLE, *FORM)


def mind_scenes(scenes: Scenes) -> None:
    """Where the worker is installed; elsewhere there is nothing to show."""
    if WORKER not in scenes.train.catalog.entries:
        return
    if scenes.camera.wants(*FORM):
        _form(scenes)
    if scenes.camera.wants(*LIVE):
        _minds(scenes)
    if scenes.camera.wants(TABLE):
        _table(scenes)
    scenes.train.workers.choose("cleanrl")


def _form(scenes: Scenes) -> None:
    train = scenes.train
    train.mode.choose("agent")
    train.workers.choose(WORKER)
    scenes.until("the form", lambda: isinstance(train.form, SpadeBdiTrainForm) and not train.form.waiting())
    form = train.form
    assert isinstance(form, SpadeBdiTrainForm)
    form.run["env_id"].put("FrozenLake-v1")
    scenes.until("the plans", lambda: form.plans.files is not None)
    scenes.camera.take("mind-train", lambda: _to(scenes, form, top=False))
    form.plans.open_editor()
    scenes.until("the editor", lambda: form.plans.is_editing)
    text = form.plans.editor.toPlainText()
    form.plans.editor.setPlainText(text.replace(".cache_policy; .run", ".cache_polcy; .run"))
    form.plans.check()
    scenes.until("the mistake", lambda: form.plans.editor.mistake is not None)
    scenes.until("the server", lambda: form.server.readiness.property("role") == "good")
    scenes.camera.take("mind-form", lambda: _to(scenes, form))
    scenes.resize(LARGE_SIZE, left=900)
    scenes.camera.take("mind-form-large", lambda: _to(scenes, form, top=False))
    scenes.resize(USUAL_SIZE)
    form.plans.close_editor()


def _to(scenes: Scenes, form: SpadeBdiTrainForm, *, top: bool = True) -> None:
    scenes.camera.breathe()
    bar = form.area.verticalScrollBar()
    if bar is not None:
        bar.setValue(0)
    if top:
        form.bring_into_sight(form.sections["plans"])


def _minds(scenes: Scenes) -> None:
    learning = {"is_slippery": True, "mind": "steps", "episodes": 400_000, "exploration_fraction": 0.02}
    run_id = _submitted(scenes, "bdi", "FrozenLake-v1", learning)
    _look(scenes, run_id)
    feed = MindFeeds.feed(scenes.cockpit, run_id)
    scenes.until("something learned", lambda: feed.agent is not None and feed.agent.episode > 9000)
    feed.tell("camera(on)", "belief")
    scenes.until("the answer", lambda: bool(feed.mind.messages))
    for word, size, left, right in (
        ("", USUAL_SIZE, 400, 356),
        ("-small", SMALL_SIZE, 330, 356),
        ("-large", LARGE_SIZE, 420, 440),
    ):
        scenes.resize(size, left=left, right=right)
        scenes.show("run")
        scenes.camera.take(f"mind-live{word}")
    scenes.resize(USUAL_SIZE)
    scenes.runs.ask("cancel", "bdi", "TERM", "seen enough")
    _replay(scenes, run_id)


def _table(scenes: Scenes) -> None:
    run_id = _submitted(scenes, "bdi-taxi", "Taxi-v4", {})
    _look(scenes, run_id)
    feed = MindFeeds.feed(scenes.cockpit, run_id)
    scenes.until("something learned", lambda: feed.agent is not None and feed.agent.episode > 300)
    scenes.camera.take(TABLE)
    scenes.runs.ask("cancel", "bdi-taxi", "TERM", "seen enough")


def _submitted(scenes: Scenes, what: str, env_id: str, params: dict[str, object]) -> str:
    settings = {"algo": "q_learning", "env_id": env_id, "seed": 2, "params": {"episodes": 50_000_000, **params}}
    wish = Wish(f"{what}-{env_id.lower()}-s2", settings, WORKER, "spade_bdi_rl_worker.cli", "EXEC")
    scenes.runs.add(what, wish)
    scenes.runs.forget(*([what] if scenes.runs.state(what) == "TERM" else []))
    run_id = scenes.runs.add(what, wish)
    scenes.runs.need(what)
    return run_id


def _look(scenes: Scenes, run_id: str) -> None:
    scenes.cockpit.selection.select([run_id])
    scenes.show("run", "runs")
    tabs = scenes.part(RunTabs)
    scenes.until("the tab", lambda: tabs.tabs.count() > 1)
    tabs.show_tab("mind")
    scenes.until("the mind", lambda: any(tab.feed.agent is not None for tab in tabs.findChildren(MindTab)))


def _replay(scenes: Scenes, run_id: str) -> None:
    screen = scenes.window.findChild(ReplayScreen)
    assert screen is not None
    for name, size in (("mind-replay", USUAL_SIZE), ("mind-replay-small", SMALL_SIZE)):
        if not scenes.camera.wants(name):
            continue
        scenes.resize(size)
        screen.open(run_id)
        scenes.until("the list", lambda: bool(screen.desk.catalogue.episodes))
        scenes.until("the minds", lambda: bool(screen.pane.mind.minds))
        screen.desk.seek(3)
        scenes.until("the picture", lambda: screen.desk.current is not None and screen.desk.current.shown is not None)
        scenes.camera.take(name)
    scenes.resize(USUAL_SIZE)
    screen.close()
