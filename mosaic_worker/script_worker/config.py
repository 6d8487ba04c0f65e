"""What a run of a worker with scripts is to do: the worker config, merged with the command line. Each refusal is one
sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self

from mosaic_protocol.settings_spelling import respelt
from mosaic_protocol.suggest import shown
from mosaic_protocol.worker_manifest import WorkerManifest, load_manifest
from mosaic_protocol.worker_settings import SettingsError, Start, WorkerSettings, read_settings
from mosaic_worker import run_extras
from mosaic_worker.config_file import read_config_file
from mosaic_worker.errors import UsageError

_manifest_in = cache(load_manifest)


class ConfigError(UsageError):
    """A config that cannot be run; the message is one sentence for the person who wrote it."""


@dataclass(frozen=True)
class ScriptConfig:
    """One run as the worker understands it. A worker extends it with its package, and with fields for its choices."""

    PACKAGE: ClassVar[Path]
    """The folder of the worker's package, where its manifest is."""
    OWN_SETTINGS: ClassVar[tuple[str, ...]] = ("env_id", "seed", "total_timesteps")
    """Flags of every script that the config has fields for; the manifest and the listings show those."""
    SOURCES: ClassVar[tuple[str, ...]] = ("mosaic",)
    """Whose scripts: MOSAIC's, then upstream's where there are some."""

    algo: str = ""
    env_id: str = ""
    seed: int = 1
    total_timesteps: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    """The script's own flags."""
    start: Start | None = None
    """The checkpoint to begin from."""
    script: str = ""
    """A script of the user's own instead of an algorithm."""
    source: str = "mosaic"
    """Whose script of the algorithm, one of the sources."""
    bundle: str = ""
    """The managed environment that the script runs in, where it is not chosen by the daemon."""
    run_id: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def manifest(cls) -> WorkerManifest:
        """The manifest of the worker, which says what settings it has besides those of every worker."""
        return _manifest_in(cls.PACKAGE)

    @classmethod
    def load(cls, path: Path | None, overrides: Mapping[str, Any]) -> Self:
        """Read a config file (a worker config or a whole run config) and put the command line's words over it."""
        try:
            content = respelt(read_config_file(path)) if path is not None else {}
        except UsageError as error:
            raise ConfigError(str(error)) from error
        given = {name: value for name, value in overrides.items() if value is not None}
        flags = respelt({"params": given.pop("algo_params", {})})
        start = {"start": flags["start"]} if "start" in flags else {}
        return cls.of({**content, **given, **start}).with_params(flags.get("params") or {})

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """From settings in any spelling. Raises :class:`ConfigError` for what is not a run of this worker's."""
        try:
            told = read_settings(content, cls.manifest())
        except SettingsError as error:
            sentences = [_sentence(problem.path, problem.message, problem.value_repr) for problem in error.problems]
            raise ConfigError("; ".join(sentences)) from None
        return cls(**cls.given(told)).judged().with_params({})

    @classmethod
    def given(cls, told: WorkerSettings) -> dict[str, Any]:
        """What was given, by the names of the config's fields. Raises :class:`ConfigError`."""
        known = {name: getattr(told, name) for name in (*cls.OWN_SETTINGS, "algo", "start", "run_id")}
        known |= {"params": told.params, "extras": told.extras, "artifacts": told.artifacts, **told.choices}
        return {name: value for name, value in known.items() if value is not None}

    @property
    def own_values(self) -> dict[str, Any]:
        """The settings that are flags of the script, those that were given."""
        return {name: getattr(self, name) for name in self.OWN_SETTINGS if getattr(self, name) not in (None, "")}

    @property
    def checkpoints(self) -> dict[str, Any]:
        """What the run config says of checkpoints."""
        return dict(self.artifacts.get("checkpoints") or {})

    @property
    def tracks(self) -> bool:
        """Whether Weights & Biases was asked for, in either place that people know."""
        return run_extras.tracks(self.extras, self.artifacts)

    @property
    def is_upstream(self) -> bool:
        return self.source != self.SOURCES[0]

    def with_params(self, params: Mapping[str, Any]) -> Self:
        merged = {**self.params, **params}
        for name in self.OWN_SETTINGS:
            require(name not in merged, f"{name} is a setting of the run itself: give it outside the script's flags")
        return replace(self, params=merged)

    def checked(self) -> Self:
        """The same, put together by hand, as it would be read from a file."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.start is not None:
            given["start"] = self.start.model_dump()
        return self.of(given)

    def judged(self) -> Self:
        """What is the worker's own to judge. Raises :class:`ConfigError`."""
        names = " or ".join(self.SOURCES)
        require(bool(self.algo or self.script), "the config names neither an algo nor a script")
        require(self.source in self.SOURCES, f"source must be {names}, got {shown(self.source)}")
        require(not (self.script and self.is_upstream), f"give a script or source={self.SOURCES[-1]}, not both")
        try:
            run_extras.require_known(self.extras)
        except UsageError as error:
            raise ConfigError(str(error)) from None
        require_type("artifacts.checkpoints", self.artifacts.get("checkpoints"), dict | None, "an object")
        return self


def _sentence(path: str, message: str, got: str) -> str:
    return f"{path} {message}, got {got}" if got else f"{path} {message}"


def require_type(name: str, value: object, kind: type | UnionType, spoken: str) -> None:
    """Refuse a value of another type."""
    right = isinstance(value, kind) and not isinstance(value, bool)  # Python takes True for the number 1
    require(right, f"{name} must be {spoken}, got {shown(value)}")


def require(condition: bool, sentence: str) -> None:
    """Refuse with a sentence unless it holds."""
    if not condition:
        raise ConfigError(sentence)
