"""Weights & Biases beside a run: what was recorded, whether it was uploaded, and the upload itself. Without wandb.

``run_side`` says how a run stands, ``watcher`` notices files and reads what grows in them, ``upload`` runs wandb's own
sync in a process, ``route`` finds proxies and probes the way, ``slowdown`` says when tracking costs the training
something. Nothing here imports wandb, shows a key or writes one.
"""
