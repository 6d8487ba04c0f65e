"""What is inside the data of a dataset: HDF5 that is not believed, in one of two layouts. Needs h5py and NumPy."""

from __future__ import annotations
