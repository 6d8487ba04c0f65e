"""The user's own server: what can be wrong with it, each in its own sentence. prosody plays it."""

from __future__ import annotations

import datetime
import socket
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spade_bdi_rl_worker.tests.xmpp.agents_for_tests import (
    agent_for,
    in_a_loop,
    listener,
    sentence_of,
    xmpp_with,
)
from spade_bdi_rl_worker.xmpp import ServerError, XmppSettings, certificate, check, choose_server, connect, leave
from spade_bdi_rl_worker.xmpp.knock import knock, trust
from spade_bdi_rl_worker.xmpp.prosody import ProsodyServer, find_prosody

needs_prosody = pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")
RUN_ID = "01K9ZQ3V7X0000000000000000"
FREE_TO_ALL = "127.0.0.1"


@pytest.fixture(autouse=True)
def _data_root_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MOSAIC_XMPP_PASSWORD", "wrong")
    monkeypatch.delenv("MOSAIC_RUN_ID", raising=False)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProsodyServer]:
    """A server that somebody else runs, without registration."""
    with ProsodyServer(find_prosody(), tmp_path_factory.mktemp("theirs")) as server:
        yield server


def settings_for(server: Any, jid: str = "agent@localhost", **others: Any) -> XmppSettings:
    given = {"host": server.host, "port": server.port, "ca_file": str(server.certificate), **others}
    return XmppSettings(server="own", jid=jid, **given)


@needs_prosody
def test_a_server_that_works_is_said_to_be_used(theirs: ProsodyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_XMPP_PASSWORD", theirs.account("agent").password)
    assert check(settings_for(theirs)) == (
        f"The run uses your XMPP server at 127.0.0.1:{theirs.port} as agent@localhost."
    )


@needs_prosody
def test_what_is_wrong_is_said_before_a_launch(theirs: ProsodyServer, tmp_path: Path) -> None:
    theirs.account("agent")
    assert "does not let agent@localhost in (not-authorized): the password is wrong" in sentence_of(
        lambda: check(settings_for(theirs))
    )
    assert "not trusted" in sentence_of(lambda: check(settings_for(theirs, ca_file="")))
    elsewhere = settings_for(theirs, jid="agent@example.org")
    assert "does not serve the domain example.org" in sentence_of(lambda: check(elsewhere))
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("hello")
    assert "has no certificate in PEM form" in sentence_of(lambda: check(settings_for(theirs, ca_file=str(no_pem))))
    missing = settings_for(theirs, ca_file=str(tmp_path / "missing.pem"))
    assert "No such file" in sentence_of(lambda: check(missing))


def own_at(port: int, host: str = FREE_TO_ALL) -> XmppSettings:
    return XmppSettings(server="own", jid="agent@localhost", host=host, port=port)


def test_a_server_that_is_down_is_not_taken_for_a_frozen_one_or_another_program() -> None:
    with socket.create_server((FREE_TO_ALL, 0)) as taken:
        port = taken.getsockname()[1]
    assert f"No XMPP server listens at 127.0.0.1:{port}" in sentence_of(lambda: check(own_at(port)))
    assert "host nowhere.invalid is unknown" in sentence_of(lambda: check(own_at(5222, "nowhere.invalid")))

    with listener() as port:
        frozen = sentence_of(lambda: knock(FREE_TO_ALL, port, "localhost", trust(None), timeout=0.3))
    assert "takes connections but does not answer" in frozen

    with listener(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        other = sentence_of(lambda: check(own_at(port)))
    assert "is no XMPP server" in other and "HTTP/1.1 400" in other

    with listener(lambda connection: None) as port:
        assert "hung up without a word" in sentence_of(lambda: check(own_at(port)))


def test_a_certificate_is_refused_for_the_reason_that_somebody_can_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said_of(pair: certificate.KeyPair) -> str:
        authority = tmp_path / "authority.pem"
        authority.write_bytes(pair.certificate)
        with listener(xmpp_with(pair, tmp_path)) as port:
            return sentence_of(lambda: knock(FREE_TO_ALL, port, "localhost", trust(authority), timeout=20))

    assert "is not for localhost" in said_of(certificate.make_pair("example.org"))
    monkeypatch.setattr(certificate, "_BACKDATED", datetime.timedelta(days=10))
    monkeypatch.setattr(certificate, "_LIFETIME", datetime.timedelta(days=-1))
    assert "has expired" in said_of(certificate.make_pair("localhost"))


def test_a_missing_password_is_asked_for_where_it_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_XMPP_PASSWORD")
    server = choose_server(own_at(5222), tmp_path)

    monkeypatch.setitem(sys.modules, "keyring", None)
    said = sentence_of(server.__enter__)
    assert "MOSAIC_XMPP_PASSWORD is not set, and the package keyring is not installed" in said

    def no_desktop(service: str, name: str) -> str:
        raise RuntimeError("no recommended backend was available")

    keyring = types.SimpleNamespace(get_password=no_desktop)
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    assert "no keyring that can be opened" in sentence_of(server.__enter__)

    keyring.get_password = lambda service, name: {("mosaic-xmpp", "agent@localhost"): "kept"}.get((service, name))
    with server:
        assert server.account("any").password == "kept"


def test_a_second_run_with_the_same_jid_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_RUN_ID", RUN_ID)
    second = choose_server(own_at(5222), tmp_path)
    with choose_server(own_at(5222), tmp_path):
        assert f"agent@localhost is in use by run {RUN_ID}" in sentence_of(second.__enter__)
        with choose_server(XmppSettings(server="own", jid="other@localhost"), tmp_path):
            pass
    with second:
        pass
    folder = tmp_path / "home" / "trainer" / "xmpp-accounts"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))


@needs_prosody
def test_a_run_on_another_machine_with_the_same_jid_is_noticed_at_the_login(
    theirs: ProsodyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_XMPP_PASSWORD", theirs.account("agent").password)

    async def main() -> str:
        here = choose_server(settings_for(theirs), tmp_path)
        with here:
            first = agent_for(here.account("one"))
            await connect(first, here)
            monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "another machine"))
            with choose_server(settings_for(theirs), tmp_path) as there:
                second = agent_for(there.account("one"))
                with pytest.raises(ServerError) as refusal:
                    await connect(second, there)
                assert not second.is_alive()
                assert first.client.is_connected(), "the first is not disturbed"
                await leave(first)
                await connect(second, there)  # and once it is gone, the account is free
                await leave(second)
        return str(refusal.value)

    assert "Another run is logged in as agent@localhost" in in_a_loop(main)


def test_each_agent_gets_a_jid_of_its_own(tmp_path: Path) -> None:
    with choose_server(XmppSettings(server="own", jid="a@localhost, b@localhost"), tmp_path) as server:
        assert [server.account(name).jid for name in ("x", "y", "x")] == ["a@localhost", "b@localhost", "a@localhost"]
        assert "one JID for each agent" in sentence_of(lambda: server.account("z"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (XmppSettings(server="own"), "needs an account"),
        (XmppSettings(server="own", jid="agent"), "is not a JID"),
        (XmppSettings(server="own", jid="agent@example.org/home"), "is not a JID"),
        (XmppSettings(server="own", jid="Agent@example.org"), "is not a JID: write it as agent@example.org, in lower"),
        (XmppSettings(server="own", jid="a@x.org, b@y.org"), "same server"),
        (XmppSettings(server="own", jid="a@x.org, a@x.org"), "given twice"),
        (XmppSettings(server="own", jid="a@x.org", port=70000), "is not a port"),
        (XmppSettings(server="embedded", jid="a@x.org"), "belong to a server of your own"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: XmppSettings, said: str) -> None:
    assert said in sentence_of(lambda: check(settings))


def test_without_prosody_the_embedded_server_is_used_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "embedded XMPP server" in check(XmppSettings()) and "prosody is not installed" in check(XmppSettings())
    assert "apt install prosody" in sentence_of(lambda: check(XmppSettings(server="prosody")))
    monkeypatch.setattr("spade_bdi_rl_worker.xmpp.embedded.is_installed", lambda: False)
    assert "There is no XMPP server" in sentence_of(lambda: check(XmppSettings()))


@needs_prosody
def test_with_prosody_it_is_used() -> None:
    assert "starts prosody for itself" in check(XmppSettings())
