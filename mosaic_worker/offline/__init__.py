"""Learning from datasets: transitions out of the data that the manifest describes. Needs NumPy and h5py, no PyTorch."""

from __future__ import annotations

from mosaic_worker.offline.dataset import OfflineDataset, open_dataset
from mosaic_worker.offline.normalising import ObservationScale, RewardScale
from mosaic_worker.offline.transitions import Data, Transitions

__all__ = ["Data", "ObservationScale", "OfflineDataset", "RewardScale", "Transitions", "open_dataset"]
