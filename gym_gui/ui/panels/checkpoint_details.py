"""One checkpoint in detail: where it comes from, what it can be used for, and how it does when evaluated."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.services.checkpoints import evaluations
from gym_gui.services.checkpoints.entry import CheckpointEntry, recorded_origin
from gym_gui.services.checkpoints.use import capabilities, declares
from gym_gui.ui.context import Cockpit
from gym_gui.ui.evaluation_job import EvaluationJob
from gym_gui.ui.styling import set_style_property, tell
from gym_gui.ui.widgets.calm import CalmSpinBox
from gym_gui.ui.widgets.checkpoint_card import facts_text, score_text, score_words
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.sparkline import Histogram
from mosaic_protocol.plain_text import one_line


class CheckpointDetails(QFrame):
    """Shows one entry at a time; an evaluation under way goes on when another one is looked at. ``spoke()`` when it
    has begun and when it is over, for whoever keeps :attr:`told` in sight."""

    spoke = pyqtSignal()
    deploy_requested = pyqtSignal(object)
    switch_requested = pyqtSignal(object)
    warm_start_requested = pyqtSignal(object)
    resume_requested = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self._cockpit = cockpit
        self.entry: CheckpointEntry | None = None
        self.job: EvaluationJob | None = None
        self._checked = False
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._facts = QLabel()
        self._facts.setWordWrap(True)
        self._facts.setTextFormat(Qt.TextFormat.PlainText)
        self._facts.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.episodes = CalmSpinBox()
        self.episodes.setRange(1, 10_000)
        kept = cockpit.preferences.get("checkpoints.episodes", 100)
        self.episodes.setValue(min(max(int(kept), 1), self.episodes.maximum()))
        self.episodes.valueChanged.connect(self._name_unit)
        self._name_unit(self.episodes.value())
        self.episodes.setToolTip(self.tr("How many episodes to play"))
        self.episodes.setAccessibleName(self.tr("Episodes"))
        self.deploy = self._button(
            self.tr("Deploy"),
            self.tr("Give this policy the seat of the live session, or start one on its environment"),
        )
        self.deploy.setProperty("kind", "primary")
        self.deploy.clicked.connect(lambda: self.deploy_requested.emit(self.entry))
        self.deployed = QLabel()
        self.deployed.setWordWrap(True)
        self.deployed.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        about = self.tr("End and keep this session, and start one on the policy's own environment")
        self.switch = self._button(self.tr("Switch Environment"), about)
        self.switch.clicked.connect(lambda: self.switch_requested.emit(self.entry))
        self.evaluate = self._button(
            self.tr("Evaluate"), self.tr("Play episodes with this policy, beside everything else")
        )
        self.evaluate.clicked.connect(self._evaluate_or_cancel)
        self.warm_start = self._button(
            self.tr("Warm start"), self.tr("Train a new run that begins with these networks")
        )
        self.warm_start.clicked.connect(lambda: self.warm_start_requested.emit(self.entry))
        self.resume = self._button(self.tr("Resume"), self.tr("Go on exactly where this checkpoint was written"))
        self.resume.clicked.connect(lambda: self.resume_requested.emit(self.entry))
        self.histogram = Histogram(cockpit.themes)
        buttons = QGridLayout()
        for number, widget in enumerate((self.episodes, self.evaluate, self.warm_start, self.resume)):
            buttons.addWidget(widget, number // 2, number % 2)
            buttons.setColumnStretch(number % 2, 1)
        # One below the other: beside each other they would widen the left side at the stage's cost.
        layout = QVBoxLayout(self)
        layout.addWidget(self._title)
        layout.addWidget(self._facts)
        layout.addWidget(self.deploy)
        layout.addWidget(self.deployed)
        layout.addWidget(self.switch)
        layout.addLayout(buttons)
        layout.addWidget(self.told)
        layout.addWidget(self.histogram)

    def _button(self, text: str, tooltip: str) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(tooltip)
        return button

    def _name_unit(self, number: int) -> None:
        """A number alone beside Evaluate does not say of what."""
        self.episodes.setSuffix(self.tr(" episode") if number == 1 else self.tr(" episodes"))

    def show_entry(self, entry: CheckpointEntry) -> None:
        if self.entry is not None and self.entry.path == entry.path:
            return
        self.entry = entry
        self._checked = entry.integrity.state == "ok"
        self._title.setText("  ·  ".join(filter(None, (entry.algo or entry.id, entry.env_id))))
        self.tell_facts()
        able, declared = capabilities(entry), declares(entry)
        self.warm_start.setVisible(declared.warm_start)
        self.resume.setVisible(declared.resume)
        self._enable(self.deploy, able["act"])
        tell(self.deployed, "", "muted")
        self.switch.hide()
        self._enable(self.evaluate, able["evaluate"])
        self._enable(self.warm_start, able["warm_start"])
        self._enable(self.resume, able["resume"])
        self.histogram.show_values([])
        damaged = entry.integrity.state == "damaged"
        self._tell(entry.integrity.reason if damaged else "", "error" if damaged else "")
        show = lambda kept: self._show_kept(entry, kept)  # noqa: E731
        self._cockpit.bridge.in_background(lambda: evaluations.kept(entry), show, owner=self)

    def tell_deployed(self, entry: CheckpointEntry, sentence: str, role: str, env_id: str) -> None:
        """How it goes with a policy that was to take the seat; ``env_id`` is the environment that it needs, where the
        session plays another."""
        if self.entry is None or entry.path != self.entry.path:
            return
        tell(self.deployed, sentence, role)
        self.switch.setVisible(bool(env_id))

    def tell_facts(self) -> None:
        """Say where it comes from; again as time goes by, for its age is among it."""
        if self.entry is not None:
            self._facts.setText(facts_of(self.entry, checked=self._checked))

    def close_panel(self) -> None:
        if self.job is not None:
            self.job.cancel()

    def _enable(self, button: QPushButton, able: bool) -> None:
        button.setEnabled(able)

    def _show_kept(self, entry: CheckpointEntry, kept: list[dict[str, Any]]) -> None:
        if kept and entry is self.entry and not self._is_about_shown(self.job):
            self._show_result(kept[-1])

    def _is_about_shown(self, job: EvaluationJob | None) -> bool:
        return job is not None and self.entry is not None and job.entry.path == self.entry.path

    # ---- evaluating ----------------------------------------------------------------------------------------------

    def _evaluate_or_cancel(self) -> None:
        if self.job is not None:
            self.job.cancel()
            return
        if self.entry is None:
            return
        self._cockpit.preferences.put("checkpoints.episodes", self.episodes.value())
        job = self.job = EvaluationJob(self._cockpit.bridge, self.entry, self.episodes.value(), seed=7, parent=self)
        job.progressed.connect(lambda returns: self._progressed(job, returns))
        job.done.connect(lambda result: self._done(job, result))
        job.failed.connect(lambda sentence: self._failed(job, sentence))
        self.evaluate.setText(self.tr("Stop"))
        self._tell(self.tr("Starting the evaluation…"))
        job.start()

    def _progressed(self, job: EvaluationJob, returns: list[float]) -> None:
        if not self._is_about_shown(job):
            return
        self.histogram.show_values(returns)
        mean = sum(returns) / len(returns)
        words = self.tr("{done} of {all} episodes, mean return {mean}")
        self._tell(words.format(done=len(returns), all=job.episodes, mean=f"{mean:,.4g}"))

    def _done(self, job: EvaluationJob, result: dict[str, Any]) -> None:
        self._end_job()
        if self._is_about_shown(job):
            self._show_result(result)
        else:
            self._cockpit.notify(Notice(self.tr("{id} was evaluated.").format(id=job.entry.id), "good"))

    def _failed(self, job: EvaluationJob, sentence: str) -> None:
        self._end_job()
        if self._is_about_shown(job):
            self._tell(sentence, "error")
        else:
            self._cockpit.notify(Notice(f"{job.entry.id}: {sentence}", "error"))

    def _end_job(self) -> None:
        if self.job is not None:
            self.job.deleteLater()
            self.job = None
        self.evaluate.setText(self.tr("Evaluate"))

    def _show_result(self, result: dict[str, Any]) -> None:
        one = result.get("results", {}).get("deterministic")
        if not isinstance(one, dict) or not one.get("episodes"):
            return
        self.histogram.show_values([value for value in one.get("returns", []) if value is not None])
        self._checked = True  # a checkpoint is read to the last byte before it plays
        self.tell_facts()
        words = self.tr("Evaluated: {mean} ± {std} (median {median}, IQM {iqm}) over {n} episodes, greedy actions")
        figures = {name: one.get(name) for name in ("mean", "std", "median", "iqm")}
        numbers = {name: "?" if value is None else f"{value:,.4g}" for name, value in figures.items()}
        self._tell(words.format(n=one["episodes"], **numbers), "good")

    def _tell(self, sentence: str, role: str = "") -> None:
        is_news = bool(sentence) and (not self.told.text() or self.told.property("role") != role)
        self.told.setText(sentence)
        set_style_property(self.told, "role", role)
        if is_news:
            self.spoke.emit()


def facts_of(entry: CheckpointEntry, *, checked: bool = False) -> str:
    """What is known of a checkpoint; ``checked`` when its bytes were compared with its hash since it was listed."""
    lines = ["  ·  ".join(filter(None, (one_line(entry.run_name), facts_text(entry))))]
    if entry.integrity.state == "damaged":
        lines.append(str(entry.integrity))
    else:
        lines.append(f"{score_words(entry)} in training: {score_text(entry)}")
        lines.append("every byte checked" if checked else "bytes not checked yet; an evaluation checks them")
    if name := entry.offline_dataset.get("name"):
        lines.append(f"learned from the dataset {one_line(str(name))}")
    if entry.lineage:
        begun = f"{entry.lineage.get('kind', '?')} of {entry.lineage.get('checkpoint', '?')}"
        lines.append(recorded_origin(entry.lineage) or begun)
    if entry.sha256:
        lines.append(f"sha256 {entry.sha256[:16]}…")
    return "\n".join(lines)
