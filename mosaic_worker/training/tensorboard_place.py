"""Where a run without a daemon has its TensorBoard files. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path


def place_by_hand(asked: str, run_dir: Path, usual: Path) -> Path:
    """What ``extras.tensorboard_dir`` means, ``usual`` when it says nothing. A relative place is one below that, as
    with a daemon. Any other is obeyed, too: nobody but the user looks for the files."""
    for name in ("${VAR_TENSORBOARD_DIR}/${RUN_ID}", "${VAR_TENSORBOARD_DIR}"):
        asked = asked.replace(name, str(usual.absolute()))
    return usual / Path(asked.replace("${RUN_ID}", run_dir.name)).expanduser()
