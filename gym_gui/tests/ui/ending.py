"""What must be true when a cockpit is gone."""

from __future__ import annotations

import gc

from PyQt6 import sip
from PyQt6.QtCore import QEvent, QTimer
from PyQt6.QtWidgets import QApplication

from gym_gui.ui.app import CockpitApp


def delete_now(cockpit: CockpitApp) -> None:
    """Outside an event loop nobody else does what ``deleteLater`` promises, and every style sheet is applied to all."""
    if not sip.isdeleted(cockpit.window):
        cockpit.window.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    QApplication.processEvents()


def require_no_timer() -> None:
    """A timer without an owner ticks for ever."""
    # By type and not by isinstance, which asks every object in the process for its class: some of torch warn then.
    timers = [found for found in gc.get_objects() if issubclass(type(found), QTimer) and not sip.isdeleted(found)]
    assert [repr(timer.parent()) for timer in timers if timer.isActive()] == [], "a timer outlives its cockpit"
