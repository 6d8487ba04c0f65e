"""Agents on the network: SPADE's side of them."""

from spade_bdi_rl_worker.network import light_spade  # noqa: F401 - before anything of SPADE is imported
