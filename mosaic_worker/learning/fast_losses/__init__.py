"""Gradients written out for networks so small that the bookkeeping of autograd takes longer than the arithmetic.

The loss in the script is what is learned. A form here is used only as long as it gives the gradient of that loss:
see :mod:`mosaic_worker.learning.fast_losses.verified`.
"""
