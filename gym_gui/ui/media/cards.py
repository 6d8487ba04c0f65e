"""One tag of one run: its histograms, pictures or texts with a slider over the steps. Reads when it is seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QImage
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from gym_gui.services.scalars.histograms import Heat, Histogram, heat
from gym_gui.services.scalars.media import Entry
from gym_gui.ui.media.shelf import MediaShelf, Source
from gym_gui.ui.media.views import BarsView, HeatView, PictureView
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.calm import CalmSlider
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from mosaic_protocol.plain_text import one_line

_BARS = 40


class MediaCard(QFrame):
    """Keeps its place among the steps: at the last one while nobody moved it, also when new ones come."""

    def __init__(self, shelf: MediaShelf, themes: Themes, source: Source, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.source, self._shelf, self._themes = source, shelf, themes
        self._wanted: object = None
        self._read: object = None
        self._is_reading = False
        title = ElidedLabel(one_line(source.tag.removesuffix("/text_summary")), cut=cut_name)
        self.run = ElidedLabel(cut=cut_name)
        self.run.setProperty("role", "muted")
        self.about = QLabel()
        self.about.setProperty("role", "muted")
        self.slider = CalmSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, 0)
        self.slider.setAccessibleName(self.tr("Step of {tag}").format(tag=title.text()))
        self.slider.setToolTip(self.tr("Choose a step"))
        self.step = QLabel()
        self.step.setProperty("role", "muted")
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "error")
        self.problem.hide()
        head, below = QHBoxLayout(), QHBoxLayout()
        head.addWidget(title, 2)
        head.addWidget(self.run, 1)
        head.addWidget(self.about)
        below.addWidget(self.slider, 1)
        below.addWidget(self.step)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(10, 6, 10, 6)
        self._layout.setSpacing(4)
        self._layout.addLayout(head)
        for widget in self.bodies():
            self._layout.addWidget(widget)
        self._layout.addLayout(below)
        self._layout.addWidget(self.problem)
        self.setAccessibleName(title.text())
        self.slider.valueChanged.connect(lambda _: self.step_chosen())
        self.take(source)

    @abstractmethod
    def bodies(self) -> Sequence[QWidget]:
        """What shows the content; called once."""

    @abstractmethod
    def reading(self) -> Any:
        """What is to be read now: a key, and a function for another thread."""

    @abstractmethod
    def show_content(self, content: Any) -> None:
        """What was read."""

    @abstractmethod
    def step_chosen(self) -> None:
        """Another place of the slider."""

    def take(self, source: Source) -> None:
        """The same tag, perhaps with more steps."""
        self.note_source(source)
        self.set_steps(len(source.entries))
        self.tell_step(source.entries)

    def note_source(self, source: Source) -> None:
        self.source = source
        self.run.setText(one_line(source.run))
        self.run.setVisible(bool(source.run))

    def set_steps(self, count: int) -> None:
        at_end = self.slider.value() == self.slider.maximum()
        self.slider.blockSignals(True)
        self.slider.setRange(0, max(0, count - 1))
        if at_end:
            self.slider.setValue(count - 1)
        self.slider.blockSignals(False)
        self.slider.setEnabled(count > 1)
        words = self.tr("1 step") if count == 1 else self.tr("{count} steps").format(count=f"{count:,}")
        self.about.setText(words)

    def tell_step(self, entries: Sequence[Any]) -> None:
        place = min(self.slider.value(), len(entries) - 1)
        self.step.setText(self.tr("step {step}").format(step=f"{entries[place].step:,}") if entries else "")

    @property
    def entry(self) -> Entry:
        return self.source.entries[min(self.slider.value(), len(self.source.entries) - 1)]

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def is_seen(self) -> bool:
        return self.isVisible() and not self.visibleRegion().isEmpty()

    def refresh(self) -> None:
        """Read what should be shown, if somebody can see it; one reading at a time."""
        key, read = self.reading()
        if self._is_reading or key == self._read or not self.is_seen:
            return
        self._is_reading, self._wanted = True, key
        self._shelf.ask(read, self._take_content, self._fail, owner=self)

    def _take_content(self, content: Any) -> None:
        self._is_reading, self._read = False, self._wanted
        self._tell_problem("")
        self.show_content(content)

    def _fail(self, sentence: str) -> None:
        self._is_reading, self._read = False, self._wanted
        self._tell_problem(sentence)
        self.show_content(None)

    def _tell_problem(self, sentence: str) -> None:
        self.problem.setText(one_line(sentence))
        self.problem.setVisible(bool(sentence))


class HistogramCard(MediaCard):
    """All steps as colours, the chosen one as bars."""

    def bodies(self) -> Sequence[QWidget]:
        self.histograms: list[Histogram] = []
        self.heat, self.bars = HeatView(self._themes), BarsView(self._themes)
        self.heat.picked.connect(self.slider.setValue)
        return self.heat, self.bars

    def take(self, source: Source) -> None:
        self.note_source(source)
        if not self.histograms:
            super().take(source)

    def reading(self) -> Any:
        media, entries = self.source.media, self.source.entries

        def read() -> tuple[list[Histogram], Heat, list[str]]:
            found, problems = media.histograms(entries)
            return found, heat(found), problems

        return len(entries), read

    def show_content(self, content: Any) -> None:
        self.histograms, picture, problems = content if content is not None else ([], None, [])
        if problems:
            more = self.tr(" {count} more are like it.").format(count=len(problems) - 1) if len(problems) > 1 else ""
            self._tell_problem(problems[0] + more)
        self._picture = picture
        for widget in (self.heat, self.bars, self.slider):
            widget.setVisible(bool(self.histograms))
        if self.histograms:
            self.set_steps(len(self.histograms))
            self.step_chosen()
        else:
            self.step.setText("")

    def step_chosen(self) -> None:
        if not self.histograms or self._picture is None:
            return
        place = min(self.slider.value(), len(self.histograms) - 1)
        self.heat.show_heat(self._picture, place)
        self.bars.show_heat(heat([self.histograms[place]], _BARS))
        self.tell_step(self.histograms)


class PictureCard(MediaCard):
    """The picture of one step."""

    def bodies(self) -> Sequence[QWidget]:
        self.view = PictureView()
        return (self.view,)

    def reading(self) -> Any:
        media, entry, several = self.source.media, self.entry, self.tr("first of {count}")

        def read() -> tuple[QImage, str]:
            pictures = media.pictures(entry)
            if not pictures:
                raise ValueError(f"There is no picture at step {entry.step:,}.")
            first = pictures[0]
            if first.kind == "gif":
                raise ValueError("This is a GIF clip: `mosaic metrics RUN --images TAG --out DIR` writes it as a file.")
            image = QImage.fromData(first.data, "JPG" if first.kind == "jpeg" else first.kind.upper())
            if image.isNull():
                raise ValueError(f"The picture at step {entry.step:,} cannot be decoded.")
            about = f"{first.width} x {first.height}"
            return image, f"{about}, {several.format(count=len(pictures))}" if len(pictures) > 1 else about

        return entry, read

    def show_content(self, content: Any) -> None:
        image, size = content if content is not None else (None, "")
        self.view.show_image(image)
        self.view.setVisible(image is not None)  # else there is a sentence in its place
        self.view.setAccessibleName(size)
        self.view.setToolTip(size)

    def step_chosen(self) -> None:
        self.tell_step(self.source.entries)
        self.refresh()


class TextCard(MediaCard):
    """The text of one step, as it is."""

    def bodies(self) -> Sequence[QWidget]:
        self.view = QPlainTextEdit()
        self.view.setReadOnly(True)
        self.view.setTabChangesFocus(True)
        self.view.setMinimumHeight(150)
        self.view.setAccessibleName(self.tr("Text of {tag}").format(tag=one_line(self.source.tag)))
        return (self.view,)

    def reading(self) -> Any:
        media, entry = self.source.media, self.entry
        return entry, lambda: media.text(entry)

    def show_content(self, content: Any) -> None:
        self.view.setPlainText(content or "")

    def step_chosen(self) -> None:
        self.tell_step(self.source.entries)
        self.refresh()


CARDS: dict[str, type[MediaCard]] = {"histogram": HistogramCard, "image": PictureCard, "text": TextCard}
