"""Hands the episodes and losses of Stable-Baselines3 to the session, and the session's wishes to Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession


class Bridge(BaseCallback):
    """The top of a rollout is the one place where everything that a checkpoint holds fits together."""

    def __init__(self, session: TrainingSession, save: Callable[..., None]) -> None:
        super().__init__()
        self._session, self._save = session, save
        self.saved_at_stop = False

    def _on_rollout_start(self) -> None:
        self._tell_losses()
        if self._session.stop_requested:
            self._save(required=True)
            self.saved_at_stop = True
        elif self._session.is_checkpoint_due(self.num_timesteps):
            self._save(required=False)

    def _on_step(self) -> bool:
        if self.saved_at_stop:
            return False  # ends the training; this step was one too many, and no checkpoint knows of it
        for info in self.locals["infos"]:
            if episode := info.get("episode"):
                values = {"charts/episodic_return": episode["r"], "charts/episodic_length": episode["l"]}
                self._session.scalars(self.num_timesteps, values)
        self._session.safe_point(self.num_timesteps)  # waits here while paused
        return True

    def _tell_losses(self) -> None:
        found: dict[str, Any] = {
            f"losses/{tag.removeprefix('train/')}": value
            for tag, value in self.logger.name_to_value.items()
            if tag.startswith("train/") and isinstance(value, int | float)
        }
        if found:
            self._session.scalars(self.num_timesteps, found)
