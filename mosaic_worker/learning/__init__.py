"""Machinery that training scripts share, so that a script shows its algorithm: arguments, network, loss, training.

Fast forms stand here beside the textbook forms that they replace, and tests hold both to the same numbers. The package
itself imports nothing: argument checks run where PyTorch is not loaded.
"""
