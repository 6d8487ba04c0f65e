"""Pictures of live sessions: a person on a frozen lake, and a person and a policy who share a pole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PyQt6.QtWidgets import QWidget

from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.play.play_panel import PlayPanel
from gym_gui.ui.play.stage_live import LiveStage
from gym_gui.ui.play.steps_tab import StepsTab
from mosaic_protocol.live.messages import HandOver, Hold, Pause, Press, Restart, State
from tools.screenshot_camera import LARGE_SIZE, SMALL_SIZE, USUAL_SIZE

if TYPE_CHECKING:
    from tools.screenshot_scenes import Scenes

HUMAN = ("play-human", "play-grid", "play-keys", "play-over", "play-human-small", "play-human-large")
HYBRID = ("play-hybrid", "play-hybrid-small", "play-hybrid-large", "play-ended")
SEATS = ("play-seats", "play-seats-small", "play-seats-large")


NAMES = (*HUMAN, *HYBRID, *SEATS)


def play_scenes(scenes: Scenes) -> None:
    PlayScenes(scenes).take()


class PlayScenes:
    """Sessions in the cockpit of other scenes; it is as it was afterwards."""

    def __init__(self, scenes: Scenes) -> None:
        self.scenes, self.camera = scenes, scenes.camera
        panel = scenes.train.play
        assert isinstance(panel, PlayPanel)
        self.panel, self.desk = panel, panel.desk

    def take(self) -> None:
        wanted = ((HUMAN, self.human), (HYBRID, self.hybrid), (SEATS, self.seats))
        try:
            for names, scene in wanted:
                if self.camera.wants(*names):
                    scene()
        finally:
            if self.desk.session is not None:
                self.desk.end()
            self.scenes.train.mode.choose("agent")
            self.scenes.show("metrics", "runs")

    # ---- a person ------------------------------------------------------------------------------------------------

    def human(self) -> None:
        self.scenes.train.mode.choose("human")
        self._choose("FrozenLake-v1")
        self.panel.game.settings["slippery"].put(False)
        self._start(seed=7)
        self._moves("right", "right", "down", "down", "down", "right")
        self._moves("left", "down", "down", "right", "right")
        self._until("the second end", lambda state: state.episodes >= 2 or state.step >= 3)
        self.desk.session.send(Restart("next")) if self.desk.session else None
        self._until("another beginning", lambda state: state.step == 0 and not state.over)
        self._moves("right", "right", "down")
        self._until("three moves", lambda state: state.step == 3)
        self._look()
        self.camera.take("play-human")
        self._sizes("play-human")
        stage = self.stage
        stage.view_choice.choose("grid")
        self.camera.take("play-grid")
        stage.toggle_keys()
        self.camera.take("play-keys")
        stage.toggle_keys()
        stage.view_choice.choose("raw")
        self._moves("down", "down", "right")
        self._until("the goal", lambda state: bool(state.over))
        self.camera.take("play-over")
        self._end()

    # ---- a person and a policy -----------------------------------------------------------------------------------

    def hybrid(self) -> None:
        run_id = self._trained()
        self.scenes.train.mode.choose("hybrid")
        self._choose("CartPole-v1")
        entry = TrainingRegistry(self.scenes.cockpit.bridge.paths).find(run_id)
        self.desk.choose_policy(entry)
        self._start(seed=42)
        self._send(Hold(("right",)))
        self._until("some steps", lambda state: state.step >= 2)
        self._send(Hold(()), HandOver("policy", checkpoint=str(entry.path)))
        self._until("the policy", lambda state: state.actor == "policy" and state.step > 60)
        self._send(HandOver("human"))
        self._until("the person", lambda state: state.actor == "human" and not state.loading)
        for key in ("left", "right", "left"):
            self._send(Hold((key,)))
            self.camera.breathe(120)
        self._send(HandOver("policy", checkpoint=str(entry.path)), Hold(()))
        self._until("the policy again", lambda state: state.actor == "policy" and bool(state.advice))
        self.camera.breathe(2000)
        self._send(Pause())  # first: on a busy machine the pole falls before the picture is taken
        self._until("a pause", lambda state: state.paused)
        self._send(HandOver("human"))
        self._until("the person at the seat", lambda state: state.actor == "human")
        self._look()
        self.camera.take("play-hybrid")
        self._sizes("play-hybrid")
        self._end()
        self.camera.take("play-ended")

    # ---- seats side by side --------------------------------------------------------------------------------------

    def seats(self) -> None:
        """A policy against chance, on the same seeds, some rounds into the session."""
        entry = TrainingRegistry(self.scenes.cockpit.bridge.paths).find(self._trained())
        self.scenes.train.mode.choose("hybrid")
        self._choose("CartPole-v1")
        seats, panel = self.panel.seats, self.panel
        self.scenes.until("the checkpoints", lambda: bool(panel.seat.entries))
        panel.sections["seats"].set_open(True)
        seats.put([f"policy:{entry.path}", "random"])
        seats.changed.emit()
        self._start(seed=42)
        self._until("a round", lambda state: state.seats[0].actor == "policy" and bool(state.seats[1].over))
        self._send(Pause())
        self._until("a pause", lambda state: state.paused)
        self._look()
        panel.area.ensureWidgetVisible(seats)
        self.camera.take("play-seats")
        self._sizes("play-seats", seats)
        self._end()
        seats.put([])
        panel.sections["seats"].set_open(False)

    def _trained(self) -> str:
        """The run of a policy that balances."""
        self.scenes.runs.need("ppo-1")
        return self.scenes.runs["ppo-1"]

    # ---- parts ---------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> LiveStage:
        live = self.scenes.stage.live
        assert isinstance(live, LiveStage)
        return live

    @property
    def state(self) -> State:
        assert self.desk.session is not None
        return self.desk.session.state

    def _choose(self, env_id: str) -> None:
        game = self.panel.game
        game.picker.put(env_id)
        self.scenes.until("the environment", lambda: game.game.env_id == env_id and bool(game.schema))

    def _start(self, seed: int) -> None:
        self.panel.game.seed.value.setValue(seed)
        self.scenes.until("the daemon's line", self.panel.start.isEnabled)
        self.panel.start.click()
        self.scenes.until("the session", lambda: self.desk.status == "live" and bool(self.state.frames))

    def _look(self) -> None:
        """The tab with the steps and the list of episodes in front."""
        self.scenes.show("run", "episodes")
        tabs = self.scenes.part(RunTabs)
        tabs.show_tab("steps")
        self.scenes.until("the steps", lambda: any(tab.table.rowCount() for tab in tabs.findChildren(StepsTab)))
        self.stage.setFocus()

    def _moves(self, *keys: str) -> None:
        """One after the other, as a person would make them."""
        for key in keys:
            before = (self.state.episode, self.state.step)
            self._send(Press(key))
            self._until("a move", lambda state, before=before: (state.episode, state.step) != before)

    def _send(self, *commands: Hold | Press | HandOver | Pause) -> None:
        assert self.desk.session is not None
        for command in commands:
            self.desk.session.send(command)

    def _until(self, what: str, probe: object) -> None:
        assert callable(probe)
        self.scenes.until(what, lambda: probe(self.state))

    def _sizes(self, name: str, in_sight: QWidget | None = None) -> None:
        sizes: Sequence[tuple[str, tuple[int, int], int]] = (("small", SMALL_SIZE, 330), ("large", LARGE_SIZE, 420))
        for word, size, left in sizes:
            if self.camera.wants(f"{name}-{word}"):
                self.scenes.resize(size, left=left, right=440 if word == "large" else 356)
                if in_sight is not None:
                    self.panel.area.ensureWidgetVisible(in_sight)
                self.camera.take(f"{name}-{word}")
        self.scenes.resize(USUAL_SIZE)

    def _end(self) -> None:
        self.desk.end()
        self.scenes.until("the end", lambda: self.desk.status == "idle")
