"""What is played: the environment, its seed and the settings of the game, as far as this game has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from PyQt6.QtCore import QTimer, pyqtSignal
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from gym_gui.services.play_sessions import LARGEST_SEED
from gym_gui.services.worker_queries import EnvironmentFamily, WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.environment_picker import EnvironmentPicker
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.play.game import Game, session_fields
from gym_gui.ui.play.seed_row import SeedRow
from gym_gui.ui.styling import tell

ASK_MILLISECONDS = 350
"""After the last letter of an environment's name."""
_MEMORY = "play.game"
_FIRST = "FrozenLake-v1"
T = TypeVar("T")


class GamePanel(QWidget):
    """``changed()`` after every edit; ``described(Game)`` when the worker has told about the environment."""

    changed = pyqtSignal()
    described = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, queries: WorkerQueries, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit, self._queries = cockpit, queries
        self._memory: dict[str, Any] = dict(cockpit.preferences.get(_MEMORY, {}))
        self.worker = ""
        """The type of the worker that is asked; "" while none is known."""
        self.schema: dict[str, Any] = {}
        self.game = Game()
        self._asked = self._listing = ""
        self.picker = EnvironmentPicker(beside=0)
        self.picker.choice.setToolTip(self.tr("What to play; type a few letters to search, or any gymnasium id"))
        self.picker.put(self._kept("env_id", _FIRST))
        self.seed = SeedRow(cockpit.themes)
        self.seed.value.setValue(max(0, min(self._kept("seed", 1), LARGEST_SEED - 1)))
        self.heading = QLabel(self.tr("GAME SETTINGS"))
        self.heading.setProperty("role", "section")
        self.count = QLabel()
        self.count.setProperty("role", "muted")
        self.settings = FieldGroup(cockpit.themes)
        self.session = FieldGroup(cockpit.themes)
        """What belongs to the session: speed, turns, episodes. For the caller to place."""
        self.note = QLabel()
        self.note.setWordWrap(True)
        self._lay_out()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(ASK_MILLISECONDS)
        self._pause.timeout.connect(self._describe)
        self.picker.changed.connect(self._environment_changed)
        self.seed.value.valueChanged.connect(lambda _: self._edited())
        self.settings.changed.connect(self._edited)
        self.session.changed.connect(self._edited)
        tell(self.note, "", "muted")

    def _lay_out(self) -> None:
        self._head = QWidget()
        head = QHBoxLayout(self._head)
        head.setContentsMargins(0, 0, 0, 0)
        head.addWidget(self.heading)
        head.addStretch(1)
        head.addWidget(self.count)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.picker)
        layout.addWidget(self.seed)
        layout.addWidget(self._head)
        layout.addWidget(self.settings)
        layout.addWidget(self.note)

    # ---- what stands in it ---------------------------------------------------------------------------------------

    @property
    def env_id(self) -> str:
        return self.picker.env_id

    def params(self) -> dict[str, Any]:
        """What differs from the defaults, by the worker's names."""
        return {**self.settings.changed_values(), **self.session.changed_values()}

    def game_params(self) -> dict[str, Any]:
        """Those of them that are settings of the game, as a session tells them of itself."""
        more = self.session.changed_values().get("env_kwargs")
        return {**self.settings.changed_values(), **(more if isinstance(more, dict) else {})}

    def problem(self) -> str:
        """What is wrong with what stands in it, "" when nothing is."""
        if not self.env_id:
            return self.tr("Choose an environment first.")
        wrong = {**self.settings.problems(), **self.session.problems()}
        titles = {
            spec.spec.name: spec.spec.title
            for group in (self.settings, self.session)
            for spec in group.editors.values()
        }
        return next((f"{titles[name]} {sentence}." for name, sentence in wrong.items()), "") or self.picker.missing()

    def put(self, env_id: str, seed: int | None = None, settings: Mapping[str, Any] | None = None) -> None:
        """Show this game, as a session that was joined plays it."""
        if settings is not None:
            self._remembered()[env_id] = {name: value for name, value in settings.items() if _is_plain(value)}
        if seed is not None:
            self.seed.put(seed)
        if env_id != self.env_id:
            self.picker.put(env_id)
        elif settings is not None and self.game.env_id == env_id:
            self._fill(self.game)

    # ---- the worker ----------------------------------------------------------------------------------------------

    def use_worker(self, worker: str) -> None:
        """Ask this worker; what was asked already is not asked again."""
        if worker and worker != self.worker:
            self.worker = worker
            self._list()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._list()

    def _list(self) -> None:
        if not self.worker or not self.isVisible() or self._listing == self.worker:
            return
        worker = self._listing = self.worker
        ask = lambda: (self._queries.config_schema(worker) or {}, self._queries.environments(worker))  # noqa: E731
        self._cockpit.bridge.in_background(ask, self._listed, self._not_listed, owner=self)

    def _listed(self, found: tuple[dict[str, Any], list[EnvironmentFamily]]) -> None:
        self.schema, families = found
        self.session.set_fields(session_fields(self.schema), self._kept("session", {}))
        self.picker.offer(families)
        self._describe()

    def _not_listed(self, sentence: str) -> None:
        self._listing = ""
        tell(self.note, sentence, "warning")

    def _environment_changed(self) -> None:
        self._pause.start()
        self._edited()

    def _describe(self) -> None:
        env_id = self.env_id
        if not env_id or not self.schema or env_id in (self.game.env_id, self._asked):
            return
        if self.picker.missing():
            self._show(Game(env_id))
            return
        self._asked = env_id
        ask = lambda: Game.from_worker(self._queries.describe_environment(self.worker, env_id, {}))  # noqa: E731
        failed = lambda sentence: self._not_described(env_id, sentence)  # noqa: E731
        self._cockpit.bridge.in_background(ask, self._take, failed, owner=self)

    def _take(self, game: Game) -> None:
        if game.env_id == self.env_id:
            self._asked = ""
            self._show(game)

    def _not_described(self, env_id: str, sentence: str) -> None:
        if env_id == self.env_id:
            self._asked = ""
            self._show(Game(env_id))
            self.picker.tell(sentence)

    def _show(self, game: Game) -> None:
        self.game = game
        self._fill(game)
        self.described.emit(game)
        self.changed.emit()

    def _fill(self, game: Game) -> None:
        fields = game.fields(self.schema)
        kept = self._remembered().get(game.env_id)
        kept = kept if isinstance(kept, dict) else {}
        self.settings.set_fields(
            fields, {spec.name: spec.shown(kept[spec.name]) for spec in fields if spec.name in kept}
        )
        self._count()

    # ---- memory --------------------------------------------------------------------------------------------------

    def _remembered(self) -> dict[str, Any]:
        """The settings of each environment that was played."""
        found = self._memory["settings"] = self._kept("settings", dict[str, Any]())
        return found

    def _kept(self, name: str, usual: T) -> T:
        """What was remembered, unless it is no longer of the kind that it should be."""
        found = self._memory.get(name)
        return found if type(found) is type(usual) else usual

    def _edited(self) -> None:
        if self.game.env_id and self.game.env_id == self.env_id:
            self._remembered()[self.env_id] = self.settings.changed_values()
        self._memory |= {"env_id": self.env_id, "seed": self.seed.seed, "session": self.session.entries()}
        self._cockpit.preferences.put(_MEMORY, self._memory)
        self._count()
        self.changed.emit()

    def _count(self) -> None:
        changed = len(self.settings.changed_values())
        for part in (self._head, self.settings):
            part.setVisible(bool(self.settings.editors))
        self.count.setText(self.tr("{n} changed").format(n=changed) if changed else "")


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)
