"""The minds of a run that trains, as they come over its live channel. What is looked at is asked for, and nothing else:
a run makes no states while nobody is connected."""

from __future__ import annotations

import time
from pathlib import Path

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.run_words import is_over
from gym_gui.ui.context import Cockpit
from gym_gui.ui.mind.beliefs import RecentChanges
from gym_gui.ui.mind.entries import PERSON
from gym_gui.ui.play.live_session import LiveSession
from mosaic_protocol.live.messages import Hello, State, Tell, TellKind
from mosaic_protocol.mind import AgentMind, Mind, Said

MOST_FEEDS = 8
"""How many runs that were looked at are remembered as they were."""


class EpisodesShown:
    """How many episodes went by unseen. Without Qt."""

    def __init__(self) -> None:
        self.missed = 0
        self._last: int | None = None

    def take(self, episode: int) -> None:
        if self._last is not None and episode > self._last:
            self.missed += episode - self._last - 1
        self._last = episode


class MindFeed(QObject):
    """``changed()``: there is another state, another agent is looked at, or it is over. ``refused(str)``: why something
    was not told. ``heard()``: what was told arrived. ``frame_arrived(object)``: a picture of the environment."""

    changed = pyqtSignal()
    refused = pyqtSignal(str)
    heard = pyqtSignal()
    frame_arrived = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, run_id: str, parent: QObject) -> None:
        super().__init__(parent)
        self._cockpit, self.run_id = cockpit, run_id
        self._watchers: dict[int, bool] = {}
        """Who looks, and whether they want pictures."""
        self._session: LiveSession | None = None
        self.hello: Hello | None = None
        self.state = State()
        self.chosen = ""
        """The agent that is looked at; "" for the first."""
        self.ended = ""
        """Why there is nothing more to come; "" while there may be."""
        self._recent: dict[str, RecentChanges] = {}
        self._minds: dict[str, Mind] = {}
        self._shown: dict[str, EpisodesShown] = {}
        self._said_before: set[Said] | None = None
        """What a person had said when something was told that nobody has heard or refused yet."""
        cockpit.runs.changed.connect(self._runs_changed)

    # ---- looking -------------------------------------------------------------------------------------------------

    def look(self, who: QObject, on: bool, *, wants_frames: bool = False) -> None:
        """Somebody looks at it from now on, or not any more. The last who leaves closes the channel."""
        if on:
            self._watchers[id(who)] = wants_frames
        else:
            self._watchers.pop(id(who), None)
        if self._watchers and self._session is None:
            self._join()
        elif not self._watchers and self._session is not None:
            self._part()
        if self._session is not None:
            self._session.wants_frames = any(self._watchers.values())

    def _join(self) -> None:
        if self._is_over():
            self._end()
            return
        self._recent, self._shown = {}, {}
        session = self._session = LiveSession(self._directory, self.run_id, self)
        session.frame_arrived.connect(self.frame_arrived)
        session.hello.connect(self._greet)
        session.state_changed.connect(self._take)
        session.refused.connect(self._refuse)
        session.closed.connect(lambda _: self._end())

    def _part(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
            session.deleteLater()

    @property
    def _directory(self) -> Path:
        run = self._cockpit.runs.get(self.run_id)
        known = Path(run.run_dir) if run is not None and run.run_dir else None
        return known or self._cockpit.bridge.paths.run(self.run_id).directory

    def _is_over(self) -> bool:
        run = self._cockpit.runs.get(self.run_id)
        return run is not None and is_over(run)

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self.run_id in run_ids and self._session is not None and self._is_over():
            self._session.give_up("")

    # ---- what it says --------------------------------------------------------------------------------------------

    def _greet(self, hello: Hello) -> None:
        self.hello, self.ended = hello, ""
        self.changed.emit()

    def _take(self, state: State) -> None:
        self.state = state
        now = time.monotonic()
        for agent in state.mind or ():
            self._minds[agent.name] = self._recent.setdefault(agent.name, RecentChanges()).take(agent.mind, now)
            self._shown.setdefault(agent.name, EpisodesShown()).take(agent.episode)
            self._listen_for_told(agent.mind)
        self.changed.emit()

    def _end(self) -> None:
        run = self._cockpit.runs.get(self.run_id)
        reason = run.reason if run is not None and is_over(run) else ""
        self._part()
        self.ended = reason or self.tr("The run does not say anything any more.")
        self.changed.emit()

    # ---- the agent that is looked at -----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Of the agents, in their order."""
        return [agent.name for agent in self.state.mind or ()]

    def choose(self, name: str) -> None:
        if name != self.chosen:
            self.chosen = name
            self.changed.emit()

    @property
    def agent(self) -> AgentMind | None:
        agents = self.state.mind or ()
        return next((one for one in agents if one.name == self.chosen), agents[0] if agents else None)

    @property
    def mind(self) -> Mind:
        """Of that agent, with the changes of the last moments."""
        agent = self.agent
        return self._minds.get(agent.name, agent.mind) if agent is not None else Mind()

    # ---- how it stands -------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        return self._session is not None and self._session.is_joined and self.hello is not None

    @property
    def missed(self) -> int:
        """Episodes of that agent that went by unseen, since somebody looks."""
        agent = self.agent
        return self._shown[agent.name].missed if agent is not None and agent.name in self._shown else 0

    def standing(self) -> tuple[str, str, str]:
        """A word, the colour of the theme that it has, and the sentence behind it."""
        if self.ended:
            return self.tr("over"), "idle", self.ended
        if not self.is_live:
            return self.tr("waiting"), "warning", self.tr("Waiting for the agents of this run to listen.")
        word = self.tr("live · {count} missed").format(count=f"{self.missed:,}")
        if not self.missed:
            return word, "good", self.tr("Every episode since this was opened is shown.")
        told = self.tr("{count} episodes went by without being shown here, faster than anybody sees. All are recorded.")
        return word, "good", told.format(count=f"{self.missed:,}")

    # ---- telling -------------------------------------------------------------------------------------------------

    @property
    def waits_for_answer(self) -> bool:
        return self._said_before is not None

    def tell(self, text: str, kind: TellKind, agent: str = "") -> None:
        """Tell an agent something, or with "" all of them. ``refused`` or ``heard`` follows."""
        if self._session is None or self.ended:
            self.refused.emit(self.tr("The run is over: nobody listens any more."))
            return
        self._said_before = {said for one in self.state.mind or () for said in _by_a_person(one.mind)}
        self._session.send(Tell(text, kind, agent))

    def _refuse(self, sentence: str) -> None:
        if self._said_before is not None:
            self._said_before = None
            self.refused.emit(sentence)

    def _listen_for_told(self, mind: Mind) -> None:
        """What a person told comes back among the messages of the agent that heard it."""
        before = self._said_before
        if before is not None and any(said not in before for said in _by_a_person(mind)):
            self._said_before = None
            self.heard.emit()


def _by_a_person(mind: Mind) -> list[Said]:
    return [one for one in mind.messages if one.way == "in" and one.peer == PERSON]


class MindFeeds(QObject):
    """The feeds of a cockpit: the stage and the tab of a run share one."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit.bridge)
        self._cockpit = cockpit
        self._feeds: dict[str, MindFeed] = {}

    @classmethod
    def feed(cls, cockpit: Cockpit, run_id: str) -> MindFeed:
        """Of a run; it is made when it is first asked for."""
        found: MindFeeds | None = cockpit.bridge.findChild(cls)
        return (cls(cockpit) if found is None else found)._get(run_id)

    def _get(self, run_id: str) -> MindFeed:
        found = self._feeds.pop(run_id, None) or MindFeed(self._cockpit, run_id, self)
        self._feeds[run_id] = found
        unseen = [name for name, feed in self._feeds.items() if not feed._watchers and name != run_id]
        for name in unseen[: max(0, len(self._feeds) - MOST_FEEDS)]:
            self._feeds.pop(name).deleteLater()
        return found
