"""The structured log: one JSON object a line, each with a code, and no secrets in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config import structured
from gym_gui.logging_config.structured import log_event, write_structured_log

logger = logging.getLogger("gym_gui.tests.structured")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "daemon.jsonl"


@pytest.fixture
def handler(path: Path) -> Iterator[logging.Handler]:
    made = write_structured_log(path)
    yield made
    logging.getLogger("gym_gui").removeHandler(made)
    made.close()


@pytest.fixture
def read(path: Path, handler: logging.Handler) -> Any:
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_is_one_line_with_code_time_level_and_fields(read: Any) -> None:
    log_event(logger, codes.LOG_RUN_ENDED, run_id="01K", outcome="failed")
    (entry,) = read()
    assert entry["code"] == codes.LOG_RUN_ENDED.code
    assert entry["message"] == codes.LOG_RUN_ENDED.message
    assert (entry["level"], entry["run_id"], entry["outcome"]) == ("INFO", "01K", "failed")
    assert entry["time"].endswith("+00:00")


def test_the_level_can_be_another_than_the_usual(read: Any) -> None:
    log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING)
    assert read()[0]["level"] == "WARNING"


@pytest.mark.parametrize("text", ["two\nlines", 'quotes " and \\', "\x00\x1b[31m", "ünï ☃", "\ud800"])
def test_no_value_breaks_the_line(read: Any, text: str) -> None:
    log_event(logger, codes.LOG_RPC_REFUSED, reason=text, path=Path("/x"), strange=object())
    log_event(logger, codes.LOG_RPC_REFUSED, reason="next")
    entries = read()
    assert [entry["reason"] for entry in entries] == [text, "next"]


@pytest.mark.parametrize(
    "name", ["token", "launch_token", "API_KEY", "apikey", "password", "Authorization", "client_secret"]
)
def test_what_is_named_like_a_secret_is_hidden_at_any_depth(read: Any, path: Path, name: str) -> None:
    fields: dict[str, Any] = {name: "hunter2", "detail": {"deep": [{name: "hunter2"}, {"n": 1}]}}
    log_event(logger, codes.LOG_WORKER_MESSAGE, **fields)
    (entry,) = read()
    assert entry[name] == "[hidden]"
    assert entry["detail"] == {"deep": [{name: "[hidden]"}, {"n": 1}]}
    assert "hunter2" not in path.read_text()


def test_a_field_cannot_pose_as_another_code_or_level(read: Any) -> None:
    extra = {"code": "LOG505", "fields": {"code": "LOG999", "time": "never", "message": "lies"}}
    logger.info("truth", extra=extra)
    (entry,) = read()
    assert (entry["code"], entry["message"]) == ("LOG505", "truth")
    assert entry["time"] != "never"


def test_an_unexpected_error_keeps_its_traceback_on_one_line(read: Any) -> None:
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        logger.exception("unexpected", extra={"code": codes.LOG_TRAINER_INTERNAL_ERROR.code})
    (entry,) = read()
    assert "RuntimeError: a bug" in entry["traceback"]


def test_only_our_own_loggers_are_written(read: Any) -> None:
    logging.getLogger("somebody.else").error("not ours")
    assert read() == []


def test_the_log_is_rotated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "_MAX_BYTES", 500)
    made = write_structured_log(path)
    try:
        for number in range(20):
            log_event(logger, codes.LOG_RUN_ENDED, number=number)
    finally:
        logging.getLogger("gym_gui").removeHandler(made)
        made.close()
    files = list(path.parent.iterdir())
    assert len(files) > 1
    assert all(file.stat().st_size <= 500 for file in files)


def test_a_full_disk_drops_the_entry_and_nothing_else(
    read: Any, handler: logging.Handler, capfd: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(handler, logging.StreamHandler)
    stream = handler.stream

    class Full:
        def write(self, _: str) -> None:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            return

        def __getattr__(self, name: str) -> Any:
            return getattr(stream, name)

    handler.stream = Full()
    log_event(logger, codes.LOG_RUN_ENDED, number=1)
    handler.stream = stream
    log_event(logger, codes.LOG_RUN_ENDED, number=2)
    assert [entry["number"] for entry in read()] == [2]
    assert capfd.readouterr().err == ""


def test_every_code_is_used_once_and_says_something() -> None:
    constants = [value for value in vars(codes).values() if isinstance(value, codes.LogConstant)]
    assert len({constant.code for constant in constants}) == len(constants)
    assert all(constant.message for constant in constants)
    assert codes.by_code() == {constant.code: constant for constant in constants}
