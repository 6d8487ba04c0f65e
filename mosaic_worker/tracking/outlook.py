"""What becomes of a run's wish to be tracked, said before it starts: nobody should learn from a finished run that the
key was missing."""

from __future__ import annotations

from collections.abc import Mapping

from mosaic_protocol.wandb_keys import HOW_TO_SET, find_key


def tracking_sentence(wanted: bool, environ: Mapping[str, str]) -> str:
    """Where a run's rows go besides journal and TensorBoard. A locked keyring waits for a person."""
    if not wanted:
        return "no: rows go to the journal and to TensorBoard files"
    mode = environ.get("WANDB_MODE", "").lower()
    if mode == "disabled":
        return "no: WANDB_MODE is 'disabled'; rows go to the journal and to TensorBoard files"
    if mode in ("offline", "dryrun"):
        return "Weights & Biases, offline: WANDB_MODE says so; `mosaic wandb sync` uploads it"
    if (key := find_key(environ)) is not None:
        return f"Weights & Biases, with {key}"
    return f"Weights & Biases, offline, because no key was found ({HOW_TO_SET}); `mosaic wandb sync` uploads it later"
