"""Which template prompts are made from: the worker's own, or a file of one's own; and an editor to change it."""

from __future__ import annotations

import re

from gym_gui.ui.own_files.file_panel import FilePanel, FileWords
from gym_gui.ui.own_files.files import OwnFiles
from gym_gui.ui.own_files.mistake import Mistake
from gym_gui.ui.workers.llm.template_colours import TemplateColours

FIELD = "prompt"
SUFFIX = ".prompt"
_PLACE = re.compile(r"(?P<file>/.+?\.prompt), line (?P<line>\d+): (?P<what>.+)")


def mistake_in(sentence: str) -> Mistake | None:
    """The line of a template that a refusal names; None for a refusal of another kind."""
    found = _PLACE.search(sentence)
    return Mistake(found["file"], int(found["line"]), 1, found["what"].strip()) if found is not None else None


class PromptsPanel(FilePanel):
    field = FIELD
    names_the_file = "--prompt: "
    colours = TemplateColours

    def find_files(self) -> OwnFiles:
        shipped = self._queries.manifest(self._entry.type).package_dir / "prompting" / "templates"
        return OwnFiles.of(shipped, self._queries.paths.custom / "llm" / "prompts", SUFFIX)

    def mistake_in(self, sentence: str) -> Mistake | None:
        return mistake_in(sentence)

    def words(self) -> FileWords:
        tr = self.tr
        return FileWords(
            title=tr("Template"),
            choose=tr("The template that comes with the worker, or the path of your own .prompt file"),
            browse=tr("Look for a template on the disk"),
            edit=tr("Look at this template, and change it: that of the worker is saved as a copy"),
            check=tr("Have the worker read this template, saved or not; a mistake is shown in its line"),
            filters=tr("Prompt templates (*.prompt)"),
            editor=tr("Prompt template"),
            unsaved=tr("has changes that are not saved: save them, or close the editor"),
            save_first=tr("Save this template first, or close it: it has changes."),
            saved_tip=tr("Write the file; runs that go on keep the text they began with"),
            checking=tr("The worker reads this template…"),
            fine=tr("Prompts can be made from this template."),
        )
