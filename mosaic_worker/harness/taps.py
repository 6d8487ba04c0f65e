"""Listens to the TensorBoard writers of a script, whichever library they are from, and says where their files go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from mosaic_protocol.full_disk import is_disk_full
from mosaic_worker.harness.after_import import AfterImport

Listener = Callable[[str, Any, Any], None]
"""Called with tag, value and step, the last of which may be None."""

Maker = Callable[[Path, Callable[[], None]], None]
"""Makes something that writes to a folder when there is space for it (:meth:`TrainingSession.with_space`)."""

_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")


def tap_writers(listener: Listener, directory: Path | None, with_space: Maker) -> None:
    """From now on every scalar written is heard, and files go to `directory`; None: no files are written at all."""
    redirect = _Redirect(directory, with_space)
    waiting = {}
    for name in _WRITERS:
        if name in sys.modules:
            _tap(sys.modules[name], listener, redirect)
        else:
            waiting[name] = lambda module: _tap(module, listener, redirect)
    sys.meta_path.insert(0, AfterImport(waiting))


class _Redirect:
    """The first writer gets the run's TensorBoard folder itself, any further one a folder in it."""

    def __init__(self, directory: Path | None, with_space: Maker) -> None:
        self.directory, self.with_space = directory, with_space
        self._taken: set[str] = set()

    def place(self, wanted: str) -> str:
        assert self.directory is not None
        name = Path(wanted).name or "more"
        first = not self._taken or self._taken == {name}
        self._taken.add(name)
        place = self.directory if first else self.directory / name
        place.mkdir(parents=True, exist_ok=True)
        _leave_link(Path(wanted), place)
        return str(place)


def _leave_link(wanted: Path, place: Path) -> None:
    """Scripts save more than scalars into the folder they named: that must exist, and be the same."""
    if wanted.exists() or wanted.is_symlink():
        return
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.symlink_to(place.absolute(), target_is_directory=True)


def _tap(module: ModuleType, listener: Listener, redirect: _Redirect) -> None:
    kind: Any = module.SummaryWriter
    make, add = kind.__init__, _past_a_full_disk(kind.add_scalar)

    def made(writer: Any, log_dir: Any = None, *rest: Any, **options: Any) -> None:
        wanted = str(log_dir or options.pop("logdir", None) or "runs/script")
        if redirect.directory is None:
            _make_mute(writer, wanted)
        else:
            try:
                redirect.with_space(redirect.directory, lambda: make_there(writer, wanted, *rest, **options))
            except OSError as error:
                if not is_disk_full(error):
                    raise
                _make_mute(writer, wanted)  # the run is to stop before there is space

    def make_there(writer: Any, wanted: str, *rest: Any, **options: Any) -> None:
        place = redirect.place(wanted)
        make(writer, place, *rest, **options)
        writer.logdir = place  # one of the libraries calls it otherwise

    def heard(writer: Any, tag: str, scalar_value: Any, global_step: Any = None, *rest: Any, **options: Any) -> None:
        add(writer, tag, scalar_value, global_step, *rest, **options)
        listener(tag, scalar_value, global_step)

    kind.__init__, kind.add_scalar = made, heard
    kind.flush, kind.close = _past_a_full_disk(kind.flush), _past_a_full_disk(kind.close)


def _past_a_full_disk(call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a writer that ends the writer's files on a full disk instead of the script."""

    def spared(writer: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return call(writer, *arguments, **options)
        except OSError as error:
            if not is_disk_full(error):
                raise
            print(f"TensorBoard files in {writer.logdir} end here: {error}", file=sys.stderr, flush=True)
            _make_mute(writer, writer.logdir)
            return None

    return spared


class _Mute:
    """Stands for the file that a writer writes to, and writes nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _make_mute(writer: Any, wanted: str) -> None:
    writer.log_dir = writer.logdir = wanted
    Path(wanted).mkdir(parents=True, exist_ok=True)
    writer.file_writer, writer.all_writers = _Mute(), {}
    writer._get_file_writer = _Mute
    writer.default_bins, writer.scalar_dict = [], {}
