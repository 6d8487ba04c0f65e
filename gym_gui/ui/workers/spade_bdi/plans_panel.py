"""Which plans an agent has: some that come with the worker, or a file of one's own; and an editor to change them."""

from __future__ import annotations

from gym_gui.ui.own_files.file_panel import FilePanel, FileWords
from gym_gui.ui.own_files.files import OwnFiles
from gym_gui.ui.own_files.mistake import Mistake
from gym_gui.ui.workers.spade_bdi.asl_colours import AslColours
from gym_gui.ui.workers.spade_bdi.asl_words import mistake_in

FIELD = "plans"
SUFFIX = ".asl"


class PlansPanel(FilePanel):
    field = FIELD
    names_the_file = "--plans "
    colours = AslColours

    def find_files(self) -> OwnFiles:
        shipped = self._queries.manifest(self._entry.type).package_dir / "plans"
        return OwnFiles.of(shipped, self._queries.paths.custom / "spade_bdi" / "plans", SUFFIX)

    def mistake_in(self, sentence: str) -> Mistake | None:
        return mistake_in(sentence)

    def words(self) -> FileWords:
        tr = self.tr
        return FileWords(
            title=tr("Plans"),
            choose=tr("Plans that come with the worker, or the path of your own .asl file"),
            browse=tr("Look for a file of plans on the disk"),
            edit=tr("Look at these plans, and change them: those of the worker are saved as a copy"),
            check=tr("Have the worker read these plans, saved or not; a mistake is shown in its line"),
            filters=tr("AgentSpeak (*.asl)"),
            editor=tr("Plans in AgentSpeak"),
            unsaved=tr("have changes that are not saved: save them, or close the editor"),
            save_first=tr("Save these plans first, or close them: they have changes."),
            saved_tip=tr("Write the file; runs that go on keep their plans"),
            checking=tr("The worker reads these plans…"),
            fine=tr("These plans can be run."),
        )
