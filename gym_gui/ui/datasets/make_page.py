"""Making a dataset, on the stage: of a file, of a run, of policies that play, of an address, or of other datasets."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.datasets.dataset_ticks import DatasetTicks
from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.datasets.wishes import KINDS, words_of
from gym_gui.ui.datasets.work_strip import WorkStrip
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldError, FieldSpec
from gym_gui.ui.forms.path_field import PathField
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.giving_stack import GivingStack
from gym_gui.ui.widgets.segments import Segments
from mosaic_protocol.proto import trainer_pb2 as pb

_WIDEST = 640
_FILTERS = "HDF5 (*.hdf5 *.h5);;All files (*)"
_NEEDED = ("file", "run", "checkpoints", "address", "dataset", "fractions", "name")
"""What must not be left empty, where a kind asks for it."""


class MakePage(QWidget):
    """``left()``: the person wants the stage back. ``made(str)``: there is a dataset of this name now."""

    left = pyqtSignal()
    made = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, shelf: DatasetShelf) -> None:
        super().__init__()
        self._cockpit, self._shelf = cockpit, shelf
        self._filled_in = ""
        """The run that was named without anybody typing it."""
        tr = self.tr
        title = QLabel(tr("New dataset"))
        title.setProperty("role", "huge")
        self.close_button = QPushButton(tr("Close"))
        self.close_button.setProperty("kind", "flat")
        self.close_button.setToolTip(tr("Leave this page (Esc); work that is under way goes on"))
        self.close_button.clicked.connect(self.left)
        self.kind = Segments(
            [
                ("import", tr("File"), tr("An HDF5 file of D4RL's or Minari's, checked and copied")),
                ("from-run", tr("Run"), tr("What a run recorded, or what it kept in its replay buffer")),
                ("collect", tr("Policies"), tr("Policies play whole episodes until there are enough steps")),
                ("download", tr("Address"), tr("Fetch a file, or a set of D4RL's by its name, and import it")),
                ("merge", tr("Merge"), tr("One dataset of all episodes of several")),
                ("split", tr("Split"), tr("Several datasets of one, such as one to learn from and one to judge by")),
            ]
        )
        self.kind.chosen.connect(lambda _: self._choose())
        themes = cockpit.themes
        self.file = PathField(self._file_spec(), themes, filters=_FILTERS)
        self.ticks = DatasetTicks(shelf)
        fields = self._fields()
        self.groups = {kind: FieldGroup(themes, fields[kind]) for kind in KINDS}
        self.pages = GivingStack()
        self._sheets: dict[str, QWidget] = {}
        for kind, group in self.groups.items():
            sheet = self._sheets[kind] = QWidget()
            rows = QVBoxLayout(sheet)
            rows.setContentsMargins(0, 0, 0, 0)
            rows.setSpacing(8)
            above = {"import": self.file, "merge": self.ticks}.get(kind)
            if above is not None:
                rows.addWidget(above)
            rows.addWidget(group)
            rows.addStretch(1)
            self.pages.addWidget(sheet)
            group.changed.connect(self._judge)
        self.file.changed.connect(self._judge)
        self.ticks.changed.connect(self._judge)
        self.about, self.said = QLabel(), QLabel()
        for label in (self.about, self.said):
            label.setWordWrap(True)
        self.about.setProperty("role", "muted")
        self.make = QPushButton(tr("Make the dataset"))
        self.make.setProperty("kind", "primary")
        self.make.clicked.connect(self.start)
        self.work = WorkStrip(shelf)
        self._lay_out(title)
        shelf.job_changed.connect(self._judge)
        shelf.changed.connect(self._judge)
        self._choose()

    def _lay_out(self, title: QLabel) -> None:
        head = QHBoxLayout()
        head.addWidget(title)
        head.addStretch(1)
        head.addWidget(self.close_button)
        card = QFrame()
        card.setProperty("role", "card")
        inside = QVBoxLayout(card)
        inside.setContentsMargins(14, 12, 14, 12)
        inside.setSpacing(10)
        foot = QHBoxLayout()
        foot.addWidget(self.make)
        foot.addStretch(1)
        for part in (self.kind, self.about, self.pages):
            inside.addWidget(part)
        inside.addLayout(foot)
        inside.addWidget(self.said)
        inside.addWidget(self.work)
        card.setMaximumWidth(_WIDEST)
        middle = QHBoxLayout()
        middle.addWidget(card, 1)
        middle.addStretch(0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addLayout(middle)
        layout.addStretch(1)

    def fit(self, room: QSize) -> None:
        """The stage scrolls; nothing here depends on the room."""

    # ---- fields --------------------------------------------------------------------------------------------------

    def _file_spec(self) -> FieldSpec:
        tr = self.tr
        return FieldSpec(
            "file", tr("File"), help=tr("The file to import; Minari's folders can be typed"), placeholder="data.hdf5"
        )

    def _fields(self) -> dict[str, list[FieldSpec]]:
        tr = self.tr
        name = FieldSpec(
            "name", tr("Name"), help=tr("What the dataset is called; no other has the name"), placeholder="pendulum-mix"
        )
        env_id = FieldSpec("env_id", tr("Environment"), help=tr("The environment it is of"), placeholder="Hopper-v5")
        limit = FieldSpec(
            "max_episode_steps",
            tr("Longest episode"),
            "int",
            None,
            tr("After how many steps episodes end, for old files that do not say it"),
            least=1,
            unit=tr("steps"),
        )
        clip = FieldSpec(
            "clip_actions", tr("Clip actions"), "bool", False, tr("Clip actions that are out of bounds; else refuse")
        )
        run = FieldSpec("run", tr("Run"), help=tr("A run by its name or id"), placeholder="last")
        only = FieldSpec(
            "only",
            tr("Only"),
            help=tr("Episodes in which this actor made every step; or agent=ID, episode=N. Empty: all that ended"),
            placeholder="actor=human",
        )
        buffer = FieldSpec(
            "buffer", tr("Replay buffer"), "bool", False, tr("What dqn, sac or td3 kept in its last checkpoint instead")
        )
        checkpoints = FieldSpec(
            "checkpoints",
            tr("Policies"),
            help=tr("Checkpoints to play, with commas: RUN@best, or NAME=RUN@5000"),
            placeholder="last@best",
        )
        mix = FieldSpec(
            "mix",
            tr("Mix"),
            help=tr("How much of each; random stands for random actions. Empty: as much of each"),
            placeholder="random:0.8,expert:0.2",
        )
        steps = FieldSpec("steps", tr("Steps"), "int", 20_000, tr("At least so many, in whole episodes"), least=1)
        best = FieldSpec(
            "deterministic", tr("Preferred actions"), "bool", False, tr("Actions that policies prefer; else drawn ones")
        )
        seed = FieldSpec("seed", tr("Seed"), "int", 1, tr("The same one plays the same episodes"), least=0)
        address = FieldSpec(
            "address", tr("Address"), help=tr("A URL, or a name of D4RL's"), placeholder="hopper-medium-v2"
        )
        sha256 = FieldSpec("sha256", tr("Hash"), help=tr("What the file must hash to (SHA-256); another is refused"))
        dataset = FieldSpec("dataset", tr("Dataset"), help=tr("The dataset to take apart; it stays as it is"))
        fractions = FieldSpec(
            "fractions",
            tr("Parts"),
            default="train:0.9,test:0.1",
            help=tr("What each part is called behind the dataset's name, and its share of the episodes"),
        )
        draw = FieldSpec("seed", tr("Seed"), "int", 1, tr("The same one draws the same episodes"), least=0)
        return {
            "import": [name, env_id, limit, clip],
            "from-run": [run, name, only, buffer],
            "collect": [checkpoints, mix, name, steps, best, seed],
            "download": [address, name, sha256, env_id, limit, clip],
            "merge": [name],
            "split": [dataset, fractions, draw],
        }

    def _texts(self) -> dict[str, str]:
        tr = self.tr
        return {
            "import": tr("Values are checked and copied. Links, plug-ins and pickles in the file are refused."),
            "from-run": tr("Whole episodes alone: what was not played to its end is left out and counted."),
            "collect": tr("Each policy plays whole episodes until it has its share of the steps."),
            "download": tr("A download that breaks off goes on where it was when you start it again."),
            "merge": tr("Every step of the datasets that you tick, once. They stay as they are."),
            "split": tr("Whole episodes, drawn; none is in two parts. To judge a policy, keep some from its training."),
        }

    # ---- doing ---------------------------------------------------------------------------------------------------

    def open_kind(self, kind: str, dataset: str = "") -> None:
        """Show what one kind needs, with the run or the dataset that is selected filled in."""
        self.kind.choose(kind)
        self._choose()
        run_id = self._cockpit.selection.current
        run = self._cockpit.runs.get(run_id) if run_id else None
        if run is not None and kind == "from-run":
            self._fill_in(run)
        if kind == "merge":
            self.ticks.tick([dataset] if dataset else [])
        elif kind == "split" and dataset:
            self.groups[kind]["dataset"].put(dataset)
        self.groups["from-run"]["run"].suggest([one.name for one in self._cockpit.runs][:500])
        self.groups["split"]["dataset"].suggest(list(self._shelf.entries or ()))
        self._shelf.ask_checkpoints(self.groups["collect"]["checkpoints"].suggest, self)

    def _fill_in(self, run: pb.Run) -> None:
        """Name the run that is looked at, unless somebody typed another one."""
        field = self.groups["from-run"]["run"]
        if str(field.entry) in ("", self._filled_in):
            unique = self._cockpit.runs.label(run) == run.name
            self._filled_in = run.name if unique else run.run_id
            field.put(self._filled_in)

    def _choose(self) -> None:
        self.pages.setCurrentWidget(self._sheets[self.kind.choice])
        self.about.setText(self._texts()[self.kind.choice])
        doing = {"merge": self.tr("Merge them"), "split": self.tr("Split it")}
        self.make.setText(doing.get(self.kind.choice, self.tr("Make the dataset")))
        tell(self.said, "", "error")
        self._judge()

    @property
    def _editors(self) -> dict[str, FieldEditor]:
        kind = self.kind.choice
        return {**({"file": self.file} if kind == "import" else {}), **self.groups[kind].editors}

    def values(self) -> dict[str, Any]:
        """What stands in the fields of the chosen kind, None where it cannot be read."""

        def value(editor: FieldEditor) -> Any:
            try:
                return editor.value()
            except FieldError:
                return None

        found = {name: value(editor) for name, editor in self._editors.items()}
        return {**found, "names": self.ticks.names} if self.kind.choice == "merge" else found

    def why_not(self) -> str:
        """Why nothing can be made of what stands here; "" when it can."""
        if self._shelf.job is not None:
            return self.tr("Other work on datasets is under way.")
        values, editors = self.values(), self._editors
        if len(values.get("names", "??")) < 2:
            return self.tr("Tick two datasets or more.")
        for name in _NEEDED:
            if name in editors and not str(values[name] or "").strip():
                return self.tr("{field} is empty.").format(field=editors[name].spec.title)
        wrong = next((editor for editor in editors.values() if editor.problem()), None)
        if wrong is not None:
            return f"{wrong.spec.title} {wrong.problem()}."
        whole, name = str(values.get("dataset") or "").strip(), str(values.get("name") or "").strip()
        if whole and self._shelf.get(whole) is None:
            return self.tr("There is no dataset {name}.").format(name=whole)
        if name and self._shelf.get(name) is not None:
            return self.tr("There is a dataset {name} already: choose another name.").format(name=name)
        return ""

    def _judge(self) -> None:
        why = self.why_not()
        self.make.setEnabled(not why)
        self.make.setToolTip(why or self.tr("Make it in a process of its own; it can be cancelled"))
        named = self._editors.get("name") or self._editors["dataset"]
        tell(self.said, why if self._shelf.job is None and named.entry else "", "warning")

    def _finish(self) -> None:
        """Return in a field: make it, or say what is missing and go there."""
        if why := self.why_not():
            tell(self.said, why, "warning")
            if self._shelf.job is None:
                self.setFocus()
        else:
            self.start()

    def start(self) -> None:
        if self.why_not():
            return
        values, kind = self.values(), self.kind.choice
        self.close_button.setFocus()  # the button that was pressed goes grey, and would send the keyboard far away
        subject = str(values.get("name") or values.get("dataset")).strip()
        splits = kind == "split"
        title = self.tr("Split {name}") if splits else self.tr("Make {name}")

        def done(told: dict[str, Any]) -> None:
            parts = told["datasets"] if splits else [{**told, "name": subject}]
            names = [str(one["name"]) for one in parts]
            doubts = any(one.get("doubts") for one in parts)
            text = self.tr("{name} was split into {parts}") if splits else self.tr("{name} was made")
            said = text.format(name=subject, parts=", ".join(names))
            self._shelf.told.emit(said, "warning" if doubts else "good", subject)
            for editor in (one for one in self._editors.values() if one.spec.name in ("name", "dataset")):
                editor.put("")
            self.made.emit(names[0])

        job = self._shelf.work(words_of(kind, values), title.format(name=subject), subject, done)
        if job is not None:
            job.failed.connect(lambda why: tell(self.said, why, "error"))

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        """To what is to be filled in next."""
        if self.kind.choice == "merge":
            self.ticks.setFocus(reason)
            return
        editors = self._editors
        empty = (editors[name] for name in _NEEDED if name in editors and not str(editors[name].entry or "").strip())
        next(empty, next(iter(editors.values()))).editor.setFocus(reason)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif event is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._finish()
        else:
            super().keyPressEvent(event)
