"""One server for one set of runs: shared, ended with its last user, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_gui.services.tensorboard.lease import TensorBoardError, TensorBoardLease, python_with_tensorboard
from gym_gui.tests.support.daemon_process import wait_for
from gym_gui.tests.support.keepers import keepers_below, servers_below
from gym_gui.tests.support.made_logs import curve, written
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import Discovery

MakeLease = Callable[..., TensorBoardLease]
_FAKE = """#!{python}
import http.server, sys
if "-c" in sys.argv[:2]:  # the words that tie it to its keeper, as Python would run them
    code, sys.argv = sys.argv[2], sys.argv[2:]
    exec(code)
port = int(sys.argv[sys.argv.index("--port") + 1])
try:
    server = http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
except OSError as error:
    sys.exit(f"could not bind to port {{port}}: {{error.strerror}}")
print(f"TensorBoard 0 at http://127.0.0.1:{{server.server_port}}/ (Press CTRL+C to quit)", flush=True)
server.serve_forever()
"""
"""Answers as TensorBoard does, in a tenth of a second instead of ten."""


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def fake(tmp_path: Path) -> str:
    file = tmp_path / "fake-python"
    file.write_text(_FAKE.format(python=sys.executable))
    file.chmod(0o700)
    return str(file)


@pytest.fixture
def make_lease(paths: MosaicPaths, tmp_path: Path, fake: str) -> Iterator[MakeLease]:
    made: list[TensorBoardLease] = []

    def make(name: str = "run", python: str = fake, port: int = 0) -> TensorBoardLease:
        (tmp_path / name).mkdir(exist_ok=True)
        made.append(TensorBoardLease(paths, {name: tmp_path / name}, python=python, port=port))
        return made[-1]

    yield make
    for one in made:
        one.close()
    nothing_is_left(paths)


def nothing_is_left(paths: MosaicPaths) -> None:
    folder = paths.tensorboard_servers

    def gone() -> bool | None:
        processes = [*keepers_below(folder), *servers_below(folder)]
        return None if processes or (folder.exists() and any(folder.iterdir())) else True

    wait_for("keeper, server and their folder to go", gone)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def test_a_second_user_gets_the_same_server_and_the_last_one_ends_it(make_lease: MakeLease, paths: MosaicPaths) -> None:
    first, second = make_lease(), make_lease()
    address = first.open()
    assert address.startswith("http://127.0.0.1:") and answers(address)
    assert second.open() == address
    assert len(keepers_below(paths.tensorboard_servers)) == 1
    first.close()
    assert answers(address), "somebody else has it"
    second.close()
    nothing_is_left(paths)
    assert not answers(address)


def test_another_set_of_runs_has_another_server(make_lease: MakeLease, paths: MosaicPaths) -> None:
    assert make_lease("a").open() != make_lease("b").open()
    assert len(keepers_below(paths.tensorboard_servers)) == 2


def test_who_comes_while_the_last_one_leaves_gets_a_server(make_lease: MakeLease) -> None:
    for _ in range(5):
        one = make_lease()
        assert answers(one.open())
        one.close()
    assert answers(make_lease().open())


def test_a_user_that_is_killed_takes_the_server_along(paths: MosaicPaths, tmp_path: Path, fake: str) -> None:
    (tmp_path / "run").mkdir()
    script = (
        "import sys, time; from pathlib import Path\n"
        "from gym_gui.services.tensorboard.lease import TensorBoardLease\n"
        "from mosaic_protocol.paths import MosaicPaths\n"
        "lease = TensorBoardLease(MosaicPaths(Path(sys.argv[1])), {'run': Path(sys.argv[2])}, python=sys.argv[3])\n"
        "print(lease.open(), flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", script, str(paths.root), str(tmp_path / "run"), fake]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        address = user.stdout.readline().decode().strip()
        assert answers(address)
        user.kill()
    nothing_is_left(paths)


def test_a_keeper_that_is_killed_takes_the_server_along_and_its_users_hear_it(
    make_lease: MakeLease, paths: MosaicPaths
) -> None:
    one = make_lease()
    address = one.open()
    (keeper,) = keepers_below(paths.tensorboard_servers)
    os.kill(keeper, signal.SIGKILL)
    assert one.wait() == "TensorBoard ended."
    wait_for("the server to go", lambda: None if answers(address) else True)
    assert answers(make_lease().open()), "and the next one starts over what it left"


def test_a_server_that_dies_is_said_to_its_users(make_lease: MakeLease, paths: MosaicPaths) -> None:
    one = make_lease()
    one.open()
    (keeper,) = keepers_below(paths.tensorboard_servers)
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    assert one.wait().startswith("TensorBoard ended with status -9")


def test_a_port_that_is_taken_is_said(make_lease: MakeLease) -> None:
    first = make_lease("a")
    port = int(first.open().rstrip("/").rpartition(":")[2])
    with pytest.raises(TensorBoardError, match=f"could not bind to port {port}"):
        make_lease("b", port=port).open()


def test_a_program_that_is_missing_or_fails_is_said(make_lease: MakeLease) -> None:
    with pytest.raises(TensorBoardError, match="could not be started"):
        make_lease(python="/nowhere/python").open()
    with pytest.raises(TensorBoardError, match="ended with status 1: it said nothing"):
        make_lease("other", python="/bin/false").open()


def test_a_lease_that_is_closed_while_it_opens_gives_up_at_once(
    make_lease: MakeLease, tmp_path: Path, paths: MosaicPaths
) -> None:
    import threading

    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexec sleep 600\n")
    mute.chmod(0o700)
    one = make_lease(python=str(mute))
    failed: list[str] = []

    def work() -> None:
        try:
            one.open()
        except TensorBoardError as error:
            failed.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    wait_for("a keeper that knows of it", lambda: one._connection)  # one without a user waits for its first
    begun = time.monotonic()
    one.close()
    thread.join(60)
    assert failed == ["TensorBoard is not wanted any more."] and time.monotonic() - begun < 60


def test_without_tensorboard_the_commands_that_install_it_are_named(
    paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_gui.services.package_python.find_spec", lambda name: None)
    monkeypatch.setattr("mosaic_protocol.worker_manifest.discover", lambda: Discovery({}, []))
    with pytest.raises(TensorBoardError, match="mosaic bundles install cleanrl"):
        python_with_tensorboard(paths)


def test_a_real_server_shows_the_runs_by_their_names(paths: MosaicPaths, tmp_path: Path) -> None:
    folders = {"first": tmp_path / "one", "second/half": tmp_path / "two"}
    for folder in folders.values():
        written(folder, *curve("x", range(5)))
    with TensorBoardLease(paths, folders) as lease:
        address = lease.open()

        def listed() -> list[str] | None:
            with urllib.request.urlopen(f"{address}data/runs", timeout=60) as page:
                found: list[str] = json.load(page)
            return found if len(found) == 2 else None

        assert wait_for("both runs", listed) == ["first", "second-half"]
    nothing_is_left(paths)
