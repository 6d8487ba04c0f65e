"""A download is whole, resumed, or refused: never believed because a server said so."""

from __future__ import annotations

import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.datasets import DatasetsError, downloading
from gym_gui.services.datasets.d4rl_names import known_names
from gym_gui.services.datasets.downloading import Download, fetched
from mosaic_protocol.datasets import RetryableError
from mosaic_protocol.paths import MosaicPaths

CONTENT = bytes(range(256)) * 4096


@dataclass
class Site:
    """A server with one file. ``breaks``: after how many bytes of an answer it hangs up, one for each answer."""

    content: bytes = CONTENT
    tag: str | None = '"one"'
    breaks: list[int] = field(default_factory=list)
    status: int = 200
    length: int | None = None
    asked: list[str | None] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    told = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            told.asked.append(asked)
            first = 0
            if asked and self.headers.get("If-Range") == told.tag and told.status == 200:
                first = int(asked.removeprefix("bytes=").rstrip("-"))
            if first and first >= len(told.content):
                self.send_error(416)
                return
            body = told.content[first:]
            self.send_response(206 if first else told.status)
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(told.content) - 1}/{len(told.content)}")
            if told.tag:
                self.send_header("ETag", told.tag)
            self.send_header("Content-Length", str(told.length if told.length is not None else len(body)))
            self.end_headers()
            self.wfile.write(body[: told.breaks.pop(0)] if told.breaks else body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/some/data.hdf5?token=secret"
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "_ATTEMPTS", 2)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def left(paths: MosaicPaths) -> list[str]:
    return sorted(file.suffix for file in (paths.datasets / ".downloads").iterdir())


def got(order: Download, paths: MosaicPaths) -> bytes:
    with fetched(order, paths) as file:
        return file.read_bytes()


def refusal(order: Download, paths: MosaicPaths) -> str:
    with pytest.raises(DatasetsError) as raised, fetched(order, paths):
        pass
    assert "secret" not in str(raised.value) and "\n" not in str(raised.value)
    return str(raised.value)


def test_a_file_arrives_whole_and_nothing_is_left(site: Site, paths: MosaicPaths) -> None:
    told: list[tuple[int, int | None]] = []
    with fetched(Download(site.url), paths, lambda read, of: told.append((read, of))) as file:
        assert file.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT)) and left(paths) == []


def test_a_connection_that_breaks_is_taken_up_where_it_was(site: Site, paths: MosaicPaths) -> None:
    site.breaks = [300_000, 200_000]
    assert got(Download(site.url), paths) == CONTENT
    assert site.asked == [None, "bytes=300000-", "bytes=500000-"]


def test_another_command_goes_on_where_the_first_was_broken_off(site: Site, paths: MosaicPaths) -> None:
    site.breaks = [1000, 0, 0]
    assert "the connection ended after 1,000 of" in refusal(Download(site.url), paths)
    assert left(paths) == [".json", ".lock", ".part"]
    assert got(Download(site.url), paths) == CONTENT and site.asked[-1] == "bytes=1000-"


def test_a_file_that_changed_meanwhile_is_fetched_from_the_beginning(site: Site, paths: MosaicPaths) -> None:
    site.breaks = [1000, 0, 0]
    refusal(Download(site.url), paths)
    site.content, site.tag = CONTENT[::-1], '"two"'
    assert got(Download(site.url), paths) == CONTENT[::-1]


def test_without_a_tag_a_broken_download_begins_again(site: Site, paths: MosaicPaths) -> None:
    site.tag, site.breaks = None, [1000]
    assert got(Download(site.url), paths) == CONTENT and site.asked == [None, None]


def test_what_another_option_would_take_stays_and_what_is_no_good_goes(site: Site, paths: MosaicPaths) -> None:
    said = "clip them; what was downloaded stays for the next try"
    with pytest.raises(DatasetsError, match=said), fetched(Download(site.url), paths):
        raise RetryableError("clip them")
    assert got(Download(site.url), paths) == CONTENT and site.asked == [None], "it was downloaded twice"
    with pytest.raises(DatasetsError, match="it is noise"), fetched(Download(site.url), paths):
        raise DatasetsError("it is noise")
    assert left(paths) == []


def test_an_interrupted_import_downloads_nothing_again(site: Site, paths: MosaicPaths) -> None:
    with pytest.raises(KeyboardInterrupt), fetched(Download(site.url), paths):
        raise KeyboardInterrupt
    assert got(Download(site.url), paths) == CONTENT and site.asked == [None]


def test_a_whole_file_of_unknown_length_is_not_asked_to_go_on(site: Site, paths: MosaicPaths) -> None:
    site.breaks = [1000, 0, 0]
    refusal(Download(site.url), paths)
    (part,) = (paths.datasets / ".downloads").glob("*.part")
    part.write_bytes(CONTENT)  # all of it, while the notes know of no end
    part.with_suffix(".json").write_text('{"tag": "\\"one\\"", "total": null}')
    assert got(Download(site.url), paths) == CONTENT


def test_an_empty_success_is_none(site: Site, paths: MosaicPaths) -> None:
    site.content = b""
    assert refusal(Download(site.url), paths).endswith("was answered with nothing: the file there is empty")
    assert ".part" not in left(paths)


def test_a_hash_that_differs_is_refused_and_forgotten(site: Site, paths: MosaicPaths) -> None:
    order, _ = Download.meant(site.url, "0" * 64)
    assert "is not the file that was asked for: its sha256 is" in refusal(order, paths)
    assert ".part" not in left(paths)
    right, _ = Download.meant(site.url, hashlib.sha256(CONTENT).hexdigest().upper())
    assert got(right, paths) == CONTENT


def test_more_than_is_allowed_is_refused_before_and_while_it_comes(site: Site, paths: MosaicPaths) -> None:
    assert "is larger than 1.0 kB: --most-bytes allows more" in refusal(Download(site.url, most_bytes=1000), paths)
    site.length = 0
    assert refusal(Download(site.url, most_bytes=1000), paths).endswith("the file there is empty")


@pytest.mark.parametrize(("status", "sentence"), [(404, "the server answers 404 Not Found"), (503, "answers 503")])
def test_what_the_server_says_is_passed_on(status: int, sentence: str, site: Site, paths: MosaicPaths) -> None:
    site.status = status
    assert sentence in refusal(Download(site.url), paths)
    assert len(site.asked) == (1 if status == 404 else 2)


def test_two_commands_do_not_write_the_same_file(site: Site, paths: MosaicPaths) -> None:
    with fetched(Download(site.url), paths):
        assert "is being downloaded by another command" in refusal(Download(site.url), paths)


def test_a_server_that_is_not_there_is_one_sentence(paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "cannot be downloaded:" in refusal(Download("http://127.0.0.1:9/data.hdf5"), paths)


def test_names_of_d4rl_mean_addresses_and_others_are_refused() -> None:
    order, known_as = Download.meant("hopper-medium-replay-v2", None)
    assert order.url.endswith("/gym_mujoco_v2/hopper_medium_replay-v2.hdf5") and known_as == "hopper-medium-replay-v2"
    assert {"antmaze-umaze-v2", "pen-human-v1", "walker2d-expert-v2"} <= known_names().keys()
    with pytest.raises(DatasetsError, match="has no 'hopper-medum-v2'; did you mean 'hopper-medium-v2'"):
        Download.meant("hopper-medum-v2", None)
    for address in ("file:///etc/passwd", "ftp://host/data.hdf5", "http://"):
        with pytest.raises(DatasetsError, match="only http:// and https:// addresses"):
            Download.meant(address, None)
    with pytest.raises(DatasetsError, match="--sha256 takes 64 hexadecimal digits"):
        Download.meant("hopper-medium-v2", "abc")
    assert Download("https://me:word@host:81/a/b.hdf5?key=1").spoken == "https://host:81/a/b.hdf5"
