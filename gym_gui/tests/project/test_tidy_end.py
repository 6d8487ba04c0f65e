"""Tools that start processes clear up behind them, however often they are asked to end."""

from __future__ import annotations

import signal
import subprocess
import sys

_TOOL = """
import sys
from tools.tidy_end import end_tidily_on_sigterm
end_tidily_on_sigterm()
try:
    print("at work", flush=True)
    sys.stdin.readline()
finally:
    print("clearing up", flush=True)
    sys.stdin.readline()
    print("all is away", flush=True)
"""


def test_a_second_request_to_end_does_not_cut_the_clearing_up_short() -> None:
    tool = subprocess.Popen(
        [sys.executable, "-c", _TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert tool.stdin is not None and tool.stdout is not None
    with tool:
        for said in ("at work", "clearing up"):
            assert tool.stdout.readline().strip() == said
            tool.send_signal(signal.SIGTERM)
        rest = tool.communicate("go on\n", timeout=60)[0]
    assert rest.strip() == "all is away"
    assert tool.returncode == 128 + signal.SIGTERM
