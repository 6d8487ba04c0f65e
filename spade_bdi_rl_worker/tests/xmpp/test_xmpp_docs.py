"""The runbook and the files for a server in a container."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spade_bdi_rl_worker.tests.xmpp.agents_for_tests import wait_until
from spade_bdi_rl_worker.xmpp import certificate, own
from spade_bdi_rl_worker.xmpp.knock import knock, trust
from spade_bdi_rl_worker.xmpp.prosody import _port_of, find_prosody
from spade_bdi_rl_worker.xmpp.server_process import PASSWORD_VARIABLE, ServerProcess

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "docs" / "xmpp"
PAGE = ROOT / "docs" / "runbooks" / "xmpp.md"


@pytest.mark.parametrize("name", ["prosody", "ejabberd"])
def test_a_composed_server_is_published_on_loopback_for_clients_only(name: str) -> None:
    service: dict[str, Any] = yaml.safe_load((FILES / f"compose-{name}.yml").read_text())["services"][name]
    assert service["ports"] == ["127.0.0.1:5222:5222"]
    for mount in service["volumes"]:
        source = mount.partition(":")[0]
        assert source in ("./certs", "accounts") or (FILES / source).is_file(), source


def test_ejabberds_settings_let_in_clients_over_tls_and_no_servers() -> None:
    settings = yaml.safe_load((FILES / "ejabberd.yml").read_text())
    (listener,) = settings["listen"]
    assert listener["module"] == "ejabberd_c2s" and listener["starttls_required"] is True
    assert settings["s2s_access"] == "none" and "mod_register" not in settings["modules"]


@pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")
def test_prosody_starts_with_the_settings_in_the_docs(tmp_path: Path) -> None:
    pair = certificate.make_pair("localhost")
    (tmp_path / "localhost.key").write_bytes(pair.key)
    authority = tmp_path / "localhost.crt"
    authority.write_bytes(pair.certificate)
    text = (FILES / "prosody.cfg.lua").read_text()
    for theirs, here in (
        ("/var/lib/prosody", str(tmp_path)),
        ("/etc/prosody/certs", str(tmp_path)),
        ('"*"', '"127.0.0.1"'),
        ("{ 5222 }", "{ 0 }"),
    ):
        assert theirs in text
        text = text.replace(theirs, here)
    config = tmp_path / "prosody.cfg.lua"
    config.write_text(f"run_as_root = true\n{text}")
    server = ServerProcess("prosody", [find_prosody(), "--config", str(config), "-F"], tmp_path)
    server.start()
    try:
        port = wait_until(lambda: _port_of(server.pid), "prosody's port")
        knock("127.0.0.1", port, "localhost", trust(authority), timeout=20)
    finally:
        server.end()
    assert not [line for line in server.lines() if re.search(r"\t?error\t?\s", line)], server.lines()


def test_the_runbook_has_every_sentence_that_it_explains() -> None:
    """A symptom that no code can say any more sends people the wrong way."""
    code = "".join(file.read_text() for file in (ROOT / "spade_bdi_rl_worker" / "xmpp").glob("*.py"))
    said = re.sub(r'"\s*\n\s*(or )?f?"', "", code)  # sentences go on over lines
    table = PAGE.read_text().partition("## Symptoms")[2].partition("## Your own server")[0]
    symptoms = [
        symptom for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for symptom in re.findall("`(.*?)`", row)
    ]
    assert len(symptoms) > 15
    for symptom in symptoms:
        for part in symptom.replace("in use by run", "in use by").split(" … "):
            assert part in said, f"nothing says {part!r} any more"


def test_the_runbook_names_where_passwords_come_from() -> None:
    page = " ".join(PAGE.read_text().split())
    assert PASSWORD_VARIABLE in page and f"keyring set {own.KEYRING_SERVICE} " in page
