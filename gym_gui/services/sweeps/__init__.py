"""Sweeps as everybody sees them: the space that is searched, records of sweeps and trials, reports. Free of Optuna
unless a file of Optuna's is opened; the daemon's side is :mod:`gym_gui.services.trainer.sweeps`."""
