"""What can be done on the left side, for the menus, the shortcuts and the palette."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gym_gui.ui.commands import Command, Found
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.workers.catalog import WorkerEntry

if TYPE_CHECKING:
    from gym_gui.ui.panels.train_dock import TrainDock


_ALSO = {"train": "new run form set up", "use": "checkpoints policy evaluate play warm start import"}


def add_train_commands(cockpit: Cockpit, dock: TrainDock) -> None:
    """Offer them once for a dock; those about a form act on the one that is shown."""
    add, tr = cockpit.commands.add, dock.tr
    start = tr("Check what stands in the form, and submit it")
    launch = Command("launch", tr("Launch the run"), "Run", "Ctrl+Return", start, "start begin submit go")
    add(launch, lambda: _with_form(dock, TrainForm.launch))
    check = Command(
        "dry-run",
        tr("Dry run"),
        "Run/Form",
        "Ctrl+Shift+Return",
        tr("Let the worker check the form; nothing starts"),
        "check validate test",
    )
    add(check, lambda: _with_form(dock, TrainForm.dry_run))
    copy = Command("copy-command", tr("Copy the command line"), "Run/Form", "Ctrl+Shift+C", tr("The same run, to type"))
    add(copy, lambda: _copy_command(cockpit, dock))
    reset = Command("reset-form", tr("Reset the form"), "Run/Form", "", tr("Every field of the form to its default"))
    add(reset, lambda: _reset_form(cockpit, dock))
    ranges = tr("Many runs instead of one: fields of the form get ranges, and the best settings are found")
    also = "sweep tune hyperparameters optuna grid ranges population"
    search = Command("search-settings", tr("Search settings"), "Run/Form", "", ranges, also)
    add(search, lambda: _with_form(dock, TrainForm.search_settings))
    for name, title in (("human", tr("Human mode")), ("hybrid", tr("Hybrid mode")), ("agent", tr("Agent mode"))):
        tooltip = dock.mode.buttons[name].toolTip()
        add(Command(f"mode-{name}", title, "View/Mode", "", tooltip), partial(dock.mode.choose, name))
    for name, title in (("train", tr("Train new")), ("use", tr("Use trained"))):
        tooltip = dock.what.buttons[name].toolTip()
        add(Command(f"do-{name}", title, "View/Mode", "", tooltip, _ALSO[name]), partial(dock.show_page, name))
    cockpit.commands.finders.append(partial(_found_workers, dock))


def _found_workers(dock: TrainDock, query: str) -> Iterator[Found]:
    """Who can train, by name."""
    for entry in dock.catalog.entries.values():
        if all(word in entry.name.lower() for word in query.lower().split()):
            title = dock.tr("Train with › {worker}").format(worker=entry.name)
            yield Found(title, entry.reason, entry.summary, partial(_set_up, dock, entry))


def _set_up(dock: TrainDock, entry: WorkerEntry) -> None:
    dock.show_form(entry)
    dock.setFocus()


def _with_form(dock: TrainDock, act: Callable[[TrainForm], None]) -> None:
    dock.show_page("train")
    if dock.form is not None:
        act(dock.form)


def _copy_command(cockpit: Cockpit, dock: TrainDock) -> None:
    preview = getattr(dock.form, "preview", None)
    if preview is not None:
        preview.copy()
        cockpit.notify(Notice(dock.tr("The command line was copied"), "good"))


def _reset_form(cockpit: Cockpit, dock: TrainDock) -> None:
    form = dock.form
    if form is None:
        return
    before = form.state()
    form.put_state({})
    undo = partial(form.put_state, before)
    cockpit.notify(Notice(dock.tr("The form was reset"), action=dock.tr("Undo"), act=undo))
