"""``hosts.toml``: what is written is read again; nothing in it becomes an option of ssh or leads out of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_gui.services.hosts.book import Host, HostBook
from gym_gui.services.hosts.code import pack
from gym_gui.services.trainer.errors import RefusedError
from mosaic_protocol.paths import MosaicPaths


@pytest.fixture
def book(tmp_path: Path) -> HostBook:
    return HostBook(MosaicPaths(tmp_path))


def test_what_is_written_is_read_again_in_its_order(book: HostBook) -> None:
    assert book.hosts() == {}
    odd = Host("b", "alice@b.example.org", "/srv/mosaic", '/opt/a "b"/python', 4, 8000, drained=True, labels=("a", "b"))
    plain = Host("a-1", "ssh://alice@[::1]:2222")
    cluster = Host("c", "", kind="slurm", partition="gpu", time="1-00:00:00", gpus=4)
    for host in (odd, plain, cluster):
        book.add(host)
    assert list(book.hosts().values()) == [odd, plain, cluster]
    assert book.change("b", drained=False) == book.get("b")
    book.remove("b")
    assert list(book.hosts().values()) == [plain, cluster]
    assert book.file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (Host("../x", "h"), "is no name for a host"),
        (Host("-x", "h"), "is no name for a host"),
        (Host("any", "h"), "cannot be the name"),
        (Host("here", "h"), "cannot be the name"),
        (Host("n", "-oProxyCommand=touch /tmp/x"), "is no destination"),
        (Host("n", "a@-oProxyCommand=x"), "is no destination"),
        (Host("n", "h; rm -rf /"), "is no destination"),
        (Host("n", ""), "is no destination"),
        (Host("n", "h", "/a/../b"), "folder of n"),
        (Host("n", "h", "relative"), "folder of n"),
        (Host("n", "h", "~/$(x)"), "folder of n"),
        (Host("n", "h", python="python3"), "absolute path"),
        (Host("n", "h", python="/a\nb"), "absolute path"),
        (Host("n", "h", cpus=-1), "cpus of n"),
        (Host("n", "h", labels=("A B",)), "is no label"),
        (Host("n", "h", labels=tuple(f"l{number}" for number in range(17))), "at most 16"),
        (Host("n", "h", kind="pbs"), "kind of n"),
        (Host("n", "h", account="a"), "is for a host of Slurm"),
        (Host("n", "", kind="slurm", account="--wrap=x"), "account of n"),
        (Host("n", "", kind="slurm", time="1; rm"), "time of n"),
    ],
)
def test_what_could_be_an_option_or_a_way_out_is_refused(book: HostBook, host: Host, told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        book.add(host)
    assert not book.file.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[n]\nssh = 'h'\nfodler = '/x'", r"no field 'fodler'; did you mean 'folder'"),
        ("[n]\nssh = 7", "must be text"),
        ("[n]\nssh = 'h'\ncpus = true", "must be a whole number"),
        ("[n]", 'ssh = "USER@HOST" is missing'),
        ("n = 'h'", "must be a table"),
        ("[n", "is not TOML"),
        ("[n]\nssh = '-oProxyCommand=x'", "is no destination"),
    ],
)
def test_a_file_that_a_person_wrote_is_refused_with_the_place(book: HostBook, text: str, told: str) -> None:
    book.file.write_text(text)
    with pytest.raises(RefusedError, match=told) as refused:
        book.hosts()
    assert str(book.file) in str(refused.value)


def test_a_name_is_taken_once_and_a_missing_one_gets_the_nearest(book: HostBook) -> None:
    with pytest.raises(RefusedError, match="mosaic hosts add"):
        book.get("node1")
    book.add(Host("node1", "h"))
    with pytest.raises(RefusedError, match="already"):
        book.add(Host("node1", "other"))
    with pytest.raises(RefusedError, match="did you mean 'node1'"):
        book.remove("node")


def test_the_same_code_makes_the_same_wheel_without_tests() -> None:
    code = pack()
    assert code == pack()
    import io
    import zipfile

    names = zipfile.ZipFile(io.BytesIO(code.wheel)).namelist()
    assert {"mosaic_host/attach.py", "mosaic_protocol/paths.py", "cleanrl_worker/worker.toml"} <= set(names)
    assert any(name.endswith(".dist-info/METADATA") for name in names)
    assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")]
