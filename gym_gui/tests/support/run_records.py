"""Run records for tests of the trainer's parts, with only what a test cares about spelled out."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from gym_gui.services.trainer.runs.run_queue import Reservation
from gym_gui.services.trainer.runs.run_record import RunRecord
from mosaic_host.executor import locator_of
from mosaic_protocol.process_identity import ProcessIdentity, boot_id

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_numbers = count(1)

HELD = Reservation(2, 512, (1,))
LEADER = locator_of(ProcessIdentity(4242, 777, boot_id()))


def new_run_id() -> str:
    """A valid run id that no other record of this test process has."""
    number, digits = next(_numbers), ""
    for _ in range(8):
        number, digit = divmod(number, 32)
        digits = _ALPHABET[digit] + digits
    return "01K9ZQ3V7X00000000" + digits


def run_record(**facts: Any) -> RunRecord:
    """A freshly accepted run, or one about which the given facts hold."""
    defaults: dict[str, Any] = {
        "run_id": new_run_id(),
        "name": "toy",
        "worker_type": "toy",
        "config_json": "{}",
        "created_at": time.time(),
    }
    return RunRecord(**{**defaults, **facts})


def live_record(**facts: Any) -> RunRecord:
    """A run whose worker was launched and holds resources."""
    return run_record(**{"attempt": 1, "reservation": HELD, "locator": LEADER, "pid": 4242, **facts})
