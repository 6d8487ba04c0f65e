"""Datasets for the pictures: collected from a policy, looked into, damaged, and learned from, offline and online."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from gym_gui.ui.datasets.screen import DatasetScreen
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.workers.corl.form import CorlTrainForm
from gym_gui.ui.workers.corl.offline_tab import OfflineTab
from mosaic_protocol.datasets import DatasetRegistry
from tools.screenshot_camera import LARGE_SIZE, SMALL_SIZE, USUAL_SIZE
from tools.screenshot_runs import Wish

if TYPE_CHECKING:
    from tools.screenshot_scenes import Scenes

WORKER = "corl_worker"
LISTS = ("datasets-list", "dataset-inside", "dataset-inside-small", "dataset-inside-large", "dataset-corrupt")
MAKING = ("dataset-make", "dataset-refused", "dataset-collecting")
FORM = ("train-corl", "train-corl-large", "train-corl-small", "train-corl-corrupt")
OFFLINE = ("offline-chart", "offline-chart-large")
NAMES = (*LISTS, *MAKING, *FORM, *OFFLINE)
MIX, EXPERT, DAMAGED, LARGE = "cartpole-mix", "cartpole-expert", "cartpole-damaged", "cartpole-large"
UPDATES, ONLINE = 1_500, 1_500


def dataset_scenes(scenes: Scenes) -> None:
    screen = scenes.window.findChild(DatasetScreen)
    assert screen is not None
    _make_datasets(scenes, screen)
    if scenes.camera.wants(*OFFLINE):
        _begin_learners(scenes)
    if scenes.camera.wants(*LISTS):
        _lists(scenes, screen)
    if scenes.camera.wants(*MAKING):
        _making(scenes, screen)
    screen.close()
    if scenes.camera.wants(*FORM):
        _form(scenes)
    if scenes.camera.wants(*OFFLINE):
        _offline(scenes)


def _make_datasets(scenes: Scenes, screen: DatasetScreen) -> None:
    """With the commands of a terminal; one of them is damaged afterwards, as a bad disk would."""
    paths = scenes.cockpit.bridge.paths
    policy = f"{scenes.runs['ppo-1']}@best"
    registry = DatasetRegistry(paths)
    there = {entry.name for entry in registry.list()}
    for name, mix, steps in ((MIX, "random:0.5,ppo:0.5", "4000"), (EXPERT, "ppo:1", "2000"), (DAMAGED, "ppo:1", "500")):
        if name not in there:
            words = ["collect", "--from", f"ppo={policy}", "--mix", mix, "--steps", steps, name]
            subprocess.run(
                [sys.executable, "-m", "gym_gui.cli", "datasets", *words], check=True, stdout=subprocess.DEVNULL
            )
    data = paths.root / "var" / "training" / "datasets" / DAMAGED / "data.hdf5"
    entry = registry.find(DAMAGED)
    data = entry.data
    if DAMAGED not in there:
        with data.open("r+b") as file:
            file.seek(-100, 2)
            file.write(b"\xff" * 8)
    scenes.show("datasets")
    screen.shelf.look()
    scenes.until("the datasets", lambda: len(screen.shelf.entries or {}) >= 3)


def _open(scenes: Scenes, screen: DatasetScreen, name: str) -> None:
    screen.open(name)
    scenes.until("what is inside", lambda: screen.page.inside is not None or name == DAMAGED)
    scenes.camera.breathe(300)


def _lists(scenes: Scenes, screen: DatasetScreen) -> None:
    camera = scenes.camera
    scenes.show("datasets", "metrics")
    camera.take("datasets-list")
    for word, size in (("", USUAL_SIZE), ("-small", SMALL_SIZE), ("-large", LARGE_SIZE)):
        if camera.wants(f"dataset-inside{word}"):
            scenes.resize(size)
            _open(scenes, screen, MIX)
            camera.take(f"dataset-inside{word}")
    scenes.resize(USUAL_SIZE)
    if camera.wants("dataset-corrupt"):
        _open(scenes, screen, DAMAGED)
        screen.shelf.verify(DAMAGED)
        scenes.until("the hash", lambda: screen.shelf.job is None)
        camera.breathe(500)
        camera.take("dataset-corrupt")


def _making(scenes: Scenes, screen: DatasetScreen) -> None:
    camera, page = scenes.camera, screen.making
    scenes.show("datasets")
    screen.make("import")
    page.file.put("/data/hopper-medium-v2.hdf5")
    page.groups["import"]["name"].put("hopper-medium")
    camera.take("dataset-make")
    page.start()
    scenes.until("the refusal", lambda: screen.shelf.job is None)
    camera.take("dataset-refused")
    if not camera.wants("dataset-collecting"):
        return
    screen.make("collect")
    fields = page.groups["collect"]
    for name, value in (("checkpoints", f"ppo={scenes.runs['ppo-1']}@best"), ("mix", "random:0.2,ppo:0.8")):
        fields[name].put(value)
    fields["name"].put(LARGE)
    fields["steps"].put("2000000")
    page.start()
    scenes.until("progress", lambda: screen.shelf.job is None or screen.shelf.job.share > 0.002)
    camera.take("dataset-collecting")
    screen.shelf.cancel()
    scenes.until("the end of the collection", lambda: screen.shelf.job is None)


def _form(scenes: Scenes) -> None:
    train = scenes.train
    train.mode.choose("agent")
    train.show_page("train")
    train.workers.choose(next(type_ for type_, one in train.catalog.entries.items() if "dataset" in one.needs))
    scenes.until("the form", lambda: isinstance(train.form, CorlTrainForm))
    form = train.form
    assert isinstance(form, CorlTrainForm)
    form.run["algo"].put("iql")
    form.choose_dataset(MIX)
    scenes.until("the flags", lambda: not form.waiting() and "online_steps" in form.online)
    scenes.show("metrics", "runs")
    for word, size, left in (("", USUAL_SIZE, 400), ("-large", LARGE_SIZE, 900), ("-small", SMALL_SIZE, 330)):
        if scenes.camera.wants(f"train-corl{word}"):
            scenes.resize(size, left=left)
            scenes.camera.take(f"train-corl{word}")
    scenes.resize(USUAL_SIZE)
    form.choose_dataset(DAMAGED)
    scenes.camera.breathe(1500)
    scenes.camera.take("train-corl-corrupt")
    train.workers.choose("cleanrl")


def _begin_learners(scenes: Scenes) -> None:
    worker = next(one for one in scenes.train.catalog.entries.values() if "dataset" in one.needs)
    for what, algo, more in (("iql", "iql", {"online_steps": ONLINE}), ("bc", "bc", {})):
        settings = {
            "algo": algo,
            "dataset": MIX,
            "seed": 1,
            "total_timesteps": UPDATES,
            "extras": {"algo_params": {"eval_freq": 250, "n_episodes": 5, **more}},
        }
        scenes.runs.add(what, Wish(f"{algo}-{MIX}-s1", settings, worker.type, worker.module))


def _offline(scenes: Scenes) -> None:
    scenes.runs.need("iql", "bc")
    scenes.show("run", "runs")
    scenes.cockpit.selection.select([scenes.runs["iql"]])
    tabs = scenes.part(RunTabs)
    tabs.show_tab("offline")
    scenes.until("the chart", lambda: any(tab.chart is not None for tab in tabs.findChildren(OfflineTab)))
    scenes.camera.take("offline-chart")
    scenes.resize(LARGE_SIZE, right=760)
    scenes.camera.take("offline-chart-large")
    scenes.resize(USUAL_SIZE)
