"""What all W&B tabs of one cockpit share: the key that was typed here, and uploads, which outlive a tab."""

from __future__ import annotations

import os

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.widgets.fix_runner import FixRunner
from mosaic_protocol.wandb_keys import KEY_VARIABLE, KeyringError, WandbKey, find_key, keep_in_keyring


class WandbRoom(QObject):
    """Lives in the GUI's thread; :meth:`of` gives the one of a cockpit.

    Signals: ``said(run_id, line)`` of an upload under way, ``finished(run_id, ok, sentence)`` at its end.
    """

    said = pyqtSignal(str, str)
    finished = pyqtSignal(str, bool, str)

    def __init__(self, bridge: TrainerBridge) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self._typed = ""
        """A key for which there is no keyring: in memory until the cockpit closes, and nowhere else."""
        self._uploads: dict[str, FixRunner] = {}
        bridge.stopping.connect(self._stop)

    @classmethod
    def of(cls, bridge: TrainerBridge) -> WandbRoom:
        found: WandbRoom | None = bridge.findChild(cls)
        return found if found is not None else cls(bridge)

    # ---- the key -------------------------------------------------------------------------------------------------

    def environ(self) -> dict[str, str]:
        """The cockpit's environment, with the key that was typed where the environment has none."""
        typed = {KEY_VARIABLE: self._typed} if self._typed and not os.environ.get(KEY_VARIABLE) else {}
        return {**os.environ, **typed}

    def find_key(self) -> WandbKey | None:
        """May wait for a keyring: to be called in the background."""
        if self._typed and not os.environ.get(KEY_VARIABLE):
            return WandbKey(self.tr("the memory of this cockpit"), self._typed)
        return find_key(os.environ)

    def keep(self, secret: str) -> str:
        """Keep a key that was typed; the sentence says where. May wait for a keyring: for the background."""
        try:
            keep_in_keyring(secret)
        except KeyringError as error:
            self._typed = secret
            told = self.tr(
                "{why} The key stays in memory until this cockpit closes: uploads from here use it. Runs are recorded "
                "offline and can be uploaded when they are over."
            )
            return told.format(why=error)
        self._typed = ""
        return self.tr("The key is in the keyring: uploads use it, and runs that are tracked from now on are online.")

    # ---- uploads -------------------------------------------------------------------------------------------------

    def is_uploading(self, run_id: str) -> bool:
        return run_id in self._uploads

    def upload(self, run_id: str) -> None:
        """Start ``mosaic wandb sync`` for a run, unless one is under way. The key is in its environment only."""
        if run_id in self._uploads:
            return
        runner = self._uploads[run_id] = FixRunner(str(self._bridge.paths.root), self)
        runner.said.connect(lambda line: self.said.emit(run_id, line))
        runner.finished.connect(lambda ok, sentence: self._ended(run_id, ok, sentence))
        runner.run(["wandb", "sync", run_id], self.environ())

    def cancel(self, run_id: str) -> None:
        if run_id in self._uploads:
            self._uploads[run_id].cancel()

    def _ended(self, run_id: str, ok: bool, sentence: str) -> None:
        self._uploads.pop(run_id).deleteLater()
        self.finished.emit(run_id, ok, sentence)

    def _stop(self) -> None:
        for runner in self._uploads.values():
            runner.stop()
        self._uploads.clear()
