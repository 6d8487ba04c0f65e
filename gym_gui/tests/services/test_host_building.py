"""An environment that is built by a Python which has nothing but its standard library, as on a host that is new."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.hosts.code import pack
from gym_gui.tests.support.wheels import make_wheel
from mosaic_protocol.paths import MosaicPaths

HANG_GUARD = 300


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a host is sent, with a base that a machine without a network can install."""
    folder = tmp_path_factory.mktemp("code")
    with zipfile.ZipFile(io.BytesIO(pack().wheel)) as wheel:
        wheel.extractall(folder)
    tiny = make_wheel(folder, "tiny", "1.0")
    (folder / "requirements" / "base.txt").write_text(f"tiny @ {tiny.as_uri()}\n")
    (folder / "requirements" / "broken.txt").write_text(
        f"nowhere @ {(folder / 'nowhere-1.0-py3-none-any.whl').as_uri()}\n"
    )
    return folder


def asked(code: Path, home: Path, *bundles: str) -> list[dict[str, Any]]:
    order = json.dumps({"home": str(home), "code": str(code), "bundles": bundles}).encode() + b"\n"
    python = str(getattr(sys, "_base_executable", sys.executable))
    process = subprocess.Popen(
        [python, "-S", "-m", "gym_gui.services.hosts.building"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(code), "PIP_NO_INDEX": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=home,
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        process.stdin.write(order)
        process.stdin.flush()  # and kept open: when it ends the build is given up
        told = [json.loads(line) for line in process.stdout]
        process.stdin.close()
        assert process.wait(HANG_GUARD) == 0
    return told


def test_a_bare_python_builds_the_base_and_says_how_far_it_is(code: Path, tmp_path: Path) -> None:
    told = asked(code, tmp_path, "base")
    assert told[-1]["bundle"] == "base", told
    assert [one["said"].split()[0] for one in told[:2]] == ["Creating", "Installing"]
    python = tmp_path / "env" / "bin" / "python"
    done = subprocess.run([str(python), "-c", "import tiny; print(tiny.version)"], capture_output=True, check=True)
    assert done.stdout == b"1.0\n"
    again = asked(code, tmp_path, "base", "broken")
    assert "already built" in again[0]["said"]
    assert "broken" in again[-1]["problem"], "what cannot be built says why"
    assert python.exists() and not (MosaicPaths(tmp_path).venvs / "broken").exists()
    assert "There is no bundle bsae: did you mean base?" in asked(code, tmp_path, "bsae")[-1]["problem"]
