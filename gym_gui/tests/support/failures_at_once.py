"""A pytest plugin: a failure is printed when it happens, so that a session that is cut off has named what failed.

pytest itself prints a letter, and tracebacks when the session is over; of one that is killed nothing would be known.
"""

from __future__ import annotations

import pytest

LINES = 40
"""How much of a traceback is printed at once: its end says what went wrong. The summary has it whole."""


@pytest.hookimpl(trylast=True)  # the reporter of the terminal comes first
def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist has its reports sent to the session that started it, which prints.
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(terminal), "failures-at-once")


class FailuresAtOnce:
    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)  # after the letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        where = "" if report.when == "call" else f" ({report.when})"
        traceback = report.longreprtext.splitlines()[-LINES:]
        for line in ("", f"FAILED NOW {report.nodeid}{where}", *traceback):
            self._terminal.line(line)
        self._terminal.flush()
