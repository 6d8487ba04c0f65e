"""The sets of the kit itself: what any worker's runs may use, and not every machine needs."""

from __future__ import annotations

from mosaic_worker.extras.sets import ExtraSet, WorkerExtras

KIT_SETS = {
    "charts": ExtraSet("comparisons, and curves as pictures (mosaic compare, mosaic plot)", module="PIL"),
    "datasets": ExtraSet("datasets of recorded episodes (mosaic datasets)", module="h5py"),
    "parquet": ExtraSet("recorded steps as Parquet (mosaic steps --parquet)", module="pyarrow"),
    "video": ExtraSet("pictures of classic control and toy text, clips, films (--capture-video)", module="av"),
    "wandb": ExtraSet("Weights & Biases (--track)", module="wandb"),
}

# Measured on x86-64 with Python 3.11.
KIT_SIZES = {
    "av": (107, 36),
    "h5py": (18, 5),
    "pillow": (22, 7),
    "pyarrow": (170, 48),
    "pygame-ce": (35, 13),
    "wandb": (70, 24),
}

JAX = ExtraSet("JAX on the CPU, for compiled scripts", module="jax")
"""Of the workers that have such scripts; here as well, since what the kit says of a missing JAX names this command."""
JAX_SIZE = (490, 125)

KIT_EXTRAS = WorkerExtras("mosaic_worker.extras", {**KIT_SETS, "jax": JAX}, sizes={**KIT_SIZES, "jax": JAX_SIZE})
