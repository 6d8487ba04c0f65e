"""Packages that stand for ``gym``, ``d4rl`` and ``wandb`` on the path of CORL's own scripts, and nowhere else.

None of the libraries is installed for them: gym is frozen, d4rl needs mujoco_py, and Weights & Biases an account.
"""
