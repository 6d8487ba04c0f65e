"""Box2D environments whose episodes depend on their seed alone."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym


class FreshWorld(gym.Wrapper[Any, Any, Any, Any]):
    """A new world for each episode.

    The walker and the racer empty their world and use it again. Box2D keeps traces of what was in it, so an episode
    that is not the first one of its environment would differ from its own replay in the last bits, and soon in all.
    """

    stateless_layer: ClassVar[bool] = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        inner: Any = self.unwrapped
        inner._destroy()
        inner.world = type(inner.world)(gravity=tuple(inner.world.gravity))  # a reset gives it its listener
        return super().reset(seed=seed, options=options)
