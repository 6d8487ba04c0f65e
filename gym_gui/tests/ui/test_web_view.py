"""Embedding pages: never at the price of the cockpit, and with a word where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_gui.ui import web_view

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from PyQt6.QtCore import QCoreApplication, Qt
from gym_gui.ui.web_view import allow_web_views
allow_web_views()
assert QCoreApplication.testAttribute(Qt.ApplicationAttribute.AA_ShareOpenGLContexts)
assert "PyQt6.QtWebEngineCore" not in sys.modules
"""


def test_root_reads_the_reason_instead_of_losing_the_whole_cockpit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("QTWEBENGINE_DISABLE_SANDBOX", raising=False)
    assert "root" in web_view.why_not() and web_view.make_web_view() is None


def test_without_webengine_the_way_to_get_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setitem(sys.modules, "PyQt6.QtWebEngineWidgets", None)
    assert web_view.INSTALL in web_view.why_not() and web_view.make_web_view() is None


def test_the_application_is_made_ready_without_loading_the_browser() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, timeout=60)
