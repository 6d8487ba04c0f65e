"""What a duplicated run says that a form has no field for; the next run gets it as it is. No Qt here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gym_gui.ui.forms.settings_of import mapping, parts_of
from mosaic_protocol.run_config import Artifacts
from mosaic_protocol.suggest import looks_secret, shown

_WORDS = {"tensorboard": "TensorBoard", "wandb": "W&B", "video": "video", "checkpoints": "checkpoints"}


@dataclass(frozen=True)
class Kept:
    """Nothing of it stands at its default: an empty one keeps nothing."""

    choices: Mapping[str, Any] = field(default_factory=dict)
    """Of the manifest's choices those that were made, such as another script."""
    has_algorithm: bool = True
    """False where the choices stand in the algorithm's place."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    bundle: str | None = None

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], choices: Collection[str], *, but_extras: Collection[str], but: Collection[str]
    ) -> Kept:
        """Of a run config. ``but_extras`` and ``but`` name the extras and artifacts that there are fields for."""
        worker = mapping(mapping(config.get("metadata")).get("worker"))
        parts = parts_of(mapping(worker.get("config")))
        made = {name: value for name, value in parts.program.items() if name in choices}
        usual = Artifacts().model_dump()
        asked = mapping(config.get("artifacts")).items()
        return cls(
            choices=made,
            has_algorithm=not made or "algo" in parts.own,
            extras={name: value for name, value in parts.extras.items() if name not in but_extras},
            artifacts={
                name: value
                for name, value in asked
                if name not in but and {**usual.get(name, {}), **mapping(value)} != usual.get(name)
            },
            bundle=str(worker["bundle"]) if worker.get("bundle") else None,
        )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Kept:
        """What :meth:`as_state` returned; what is damaged keeps nothing."""
        bundle = state.get("bundle")
        return cls(
            dict(mapping(state.get("choices"))),
            state.get("has_algorithm") is not False,
            dict(mapping(state.get("extras"))),
            dict(mapping(state.get("artifacts"))),
            bundle if isinstance(bundle, str) else None,
        )

    def as_state(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> list[str]:
        """What is kept, in a few words each; no secrets."""
        named = {**self.choices, **self.extras, **({"bundle": self.bundle} if self.bundle else {})}
        said = [f"{name} = {'…' if looks_secret(name) else _plain(value)}" for name, value in named.items()]
        for name, asked in self.artifacts.items():
            enabled = mapping(asked).get("enabled")
            said.append(f"{_WORDS.get(name, name)} {'off' if enabled is False else 'on' if enabled else 'as it was'}")
        return said


def _plain(value: Any) -> str:
    text = shown(value)
    return text[1:-1] if isinstance(value, str) and text.startswith("'") else text
