"""Histograms and images for the pictures: logs of another program, imported; and curves on the whole stage."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from gym_gui.ui.panels.metrics_panel import MetricsPanel
from tools.headless import logs_of_others
from tools.screenshot_camera import LARGE_SIZE, USUAL_SIZE

if TYPE_CHECKING:
    from tools.screenshot_scenes import Scenes

NAMES = ("metrics-grid", "metrics-grid-large", "media-histograms", "media-images", "media-texts", "media-none")
RUN = "vision-probe"
_LOGS = """
import sys
import numpy as np
from torch.utils.tensorboard import SummaryWriter

writer, random = SummaryWriter(sys.argv[1]), np.random.default_rng(1)
y, x = np.mgrid[0:84, 0:84] / 83
for step in range(0, 20_001, 1000):
    share = step / 20_000
    writer.add_scalar("charts/episodic_return", 500 * share**2 + 20 * random.random(), step)
    writer.add_scalar("losses/value_loss", 3 * (1 - share) + random.random() / 4, step)
    for name, width in (("actor", 1.0), ("critic", 0.5)):
        writer.add_histogram(f"weights/{name}", random.normal(share, width * (1 + share), 2000), step)
    writer.add_histogram("gradients/actor", random.laplace(0, 1 - 0.8 * share, 2000), step)
    ring = np.exp(-((np.hypot(x - 0.5, y - 0.5) - 0.15 - 0.25 * share) ** 2) * 200)
    writer.add_image("activations/conv1", (np.stack([ring, ring * x, ring * y]) * 255).astype(np.uint8), step)
    writer.add_image("observations/pixels", (np.stack([x * share, y, ring]) * 255).astype(np.uint8), step)
writer.add_text("notes/why", "A probe of what the first layer sees, with frames of 84 by 84 pixels.", 0)
writer.close()
"""


def media_scenes(scenes: Scenes) -> None:
    panel = scenes.part(MetricsPanel)
    camera = scenes.camera
    scenes.show("metrics", "runs")
    scenes.cockpit.selection.select([_imported(scenes)])
    on_stage = scenes.cockpit.commands.action("metrics-on-stage")
    on_stage.trigger()
    for kind, name in (("histogram", "media-histograms"), ("image", "media-images"), ("text", "media-texts")):
        panel.toolbar.show_kind(kind)
        scenes.until("the cards", lambda: bool(panel.media.cards))
        camera.breathe(1500)
        camera.take(name)
    panel.toolbar.show_kind("curves")
    scenes.select("ppo-1")
    camera.take("metrics-grid")
    scenes.resize(LARGE_SIZE)
    camera.take("metrics-grid-large")
    scenes.resize(USUAL_SIZE)
    on_stage.trigger()
    panel.toolbar.show_kind("histogram")
    scenes.until("the answer", lambda: "Looking" not in panel.media.empty.title.text())
    camera.take("media-none")
    panel.toolbar.show_kind("curves")


def _imported(scenes: Scenes) -> str:
    """What a script of another program logged, as ``mosaic import-logs`` makes a run of it."""
    found = next((run.run_id for run in scenes.cockpit.runs if run.name == RUN), "")
    if not found:
        folder = logs_of_others(scenes.cockpit.bridge.paths.root) / RUN
        subprocess.run([sys.executable, "-c", _LOGS, str(folder)], check=True, stderr=subprocess.DEVNULL)
        words = ["import-logs", "--name", RUN, "--algo", "probe", "--env-id", "Breakout-v5", str(folder)]
        subprocess.run([sys.executable, "-m", "gym_gui.cli", *words], check=True, stdout=subprocess.DEVNULL)
        scenes.until("the imported run", lambda: any(run.name == RUN for run in scenes.cockpit.runs))
        found = next(run.run_id for run in scenes.cockpit.runs if run.name == RUN)
    return found
