"""A worker that nobody has heard of, put into a folder: the toy under another name, with what its manifest declares."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gym_gui.tests.support.daemon_process import WORKERS

EXTRAS = '''
"""Two sets: "games" waits for a file and can be interrupted, "broken" fails."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

HOME = Path(os.environ["MOSAIC_HOME"])
INSTALLED = HOME / "games-installed"


def tell(sentence):
    print(sentence, file=sys.stderr, flush=True)


def install(names):
    if "broken" in names:
        return {"status": "failed", "problem": "pip failed: there is no such package."}
    tell("   0 s  Downloading games 1.0 (12 MB)")
    (HOME / "downloading").touch()
    while not (HOME / "go").exists():
        time.sleep(0.01)
    INSTALLED.touch()
    return {"status": "ready", "sets": names}


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--list", "--json", "--yes"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--set", default="")
    options = parser.parse_args()
    if options.list:
        games = {"name": "games", "summary": "Games to play", "installed": INSTALLED.exists(), "megabytes": 12}
        broken = {"name": "broken", "summary": "Never works", "installed": False, "megabytes": 0}
        print(json.dumps({"sets": [games, broken]}))
        return
    try:
        print(json.dumps(install(options.set.split(","))))
    except KeyboardInterrupt:
        print(json.dumps({"status": "interrupted", "problem": "Interrupted; the environment is as it was."}))


if __name__ == "__main__":
    main()
'''


def dropped_worker(
    folder: Path,
    name: str = "dropped",
    *,
    algorithm: str = "count",
    needs: Sequence[str] = (),
    capabilities: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    extras: bool = False,
    more: str = "",
) -> Path:
    """The folder, to be named in MOSAIC_WORKER_PATH. ``capabilities`` go over the toy's own; ``more`` stands at the end
    of the manifest."""
    package = folder / f"{name}_worker"
    shutil.copytree(WORKERS / "toy_worker", package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.glob("*.*"):
        file.write_text(file.read_text().replace("toy_worker", package.name))
    manifest = package / "worker.toml"
    text = manifest.read_text().replace('type = "toy"', f'type = "{name}"')
    text = text.replace("Toy Worker", f"{name.capitalize()} Worker").replace(".count]", f".{algorithm}]")
    given = {"worker": {"needs": list(needs)} if needs else {}, "capabilities": capabilities or {}}
    for table, entries in given.items():
        for key, value in entries.items():
            lines = [line for line in text.splitlines() if not line.startswith(f"{key} =")]
            place = lines.index(f"[{table}]") + 1
            text = "\n".join([*lines[:place], f"{key} = {json.dumps(value)}", *lines[place:]]) + "\n"
    if extras:
        (package / "extras.py").write_text(EXTRAS)
        text += f'\n[extras]\nmodule = "{package.name}.extras"\n'
    manifest.write_text(text + more)
    if schema is not None:
        (package / "config.schema.json").write_text(json.dumps(schema))
    return folder
