"""What an upload needs before it can begin: something to upload, wandb, a way and a key. What is missing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.package_python import python_with
from gym_gui.services.run_labels import config_of, worker_settings
from gym_gui.services.run_words import is_over
from gym_gui.services.wandb.route import NoRouteError, Route, probe, route_from
from gym_gui.services.wandb.run_side import UploadState, WandbSide, side_of
from gym_gui.services.wandb.upload import WandbUpload
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.wandb_keys import HOW_TO_SET, WandbKey, find_key
from mosaic_protocol.wandb_proxies import proxy_settings

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

INSTALL = "`python -m mosaic_worker.extras --set wandb` does that"


class UploadRefusedError(Exception):
    """An upload cannot begin; the message is a sentence with what to do."""


class NothingToUploadError(UploadRefusedError):
    """Everything is uploaded already; ``side`` is how the run stands."""

    def __init__(self, side: WandbSide) -> None:
        super().__init__("there is nothing left to upload")
        self.side = side


@dataclass(frozen=True)
class PreparedUpload:
    """Everything that :class:`WandbUpload` takes."""

    run_dir: Path
    side: WandbSide
    key: WandbKey
    route: Route
    python: str
    environ: Mapping[str, str]

    def require_answer(self) -> None:
        """Raises :class:`UploadRefusedError` where nothing answers: wandb itself would go on trying for hours, and say
        nothing. Waits for the network."""
        reach = probe(self.route, None)
        if reach.is_away:
            raise UploadRefusedError(f"{reach.problem}. Nothing is lost: sync it when there is a network")

    def start(self) -> WandbUpload:
        """Raises OSError."""
        return WandbUpload(self.run_dir, self.side, self.key, self.route, self.python, self.environ)


def prepare_upload(run: pb.Run, paths: MosaicPaths, environ: Mapping[str, str]) -> PreparedUpload:
    """Raises :class:`UploadRefusedError`. Reads files and asks the keyring: not for a thread that must not wait."""
    side = side_of(Path(run.run_dir), is_over=is_over(run))
    _require_something(side)
    python = python_with("wandb", paths)
    if python is None:
        raise UploadRefusedError(f"wandb is not installed, neither here nor with a worker: {INSTALL}")
    key = find_key(environ)
    if key is None:
        raise UploadRefusedError(f"there is no key for W&B: {HOW_TO_SET}")
    try:
        route = route_from(run_environ(run.config_json, environ))
    except NoRouteError as error:
        raise UploadRefusedError(str(error)) from error
    return PreparedUpload(Path(run.run_dir), side, key, route, python, environ)


def run_environ(config_json: str, environ: Mapping[str, str]) -> dict[str, str]:
    """An environment with the proxies that a run's own settings name: its upload takes the way that the run took."""
    extras = worker_settings(config_of(config_json)).get("extras")
    return {**environ, **(proxy_settings(extras) if isinstance(extras, Mapping) else {})}


def _require_something(side: WandbSide) -> None:
    if not side.is_tracked:
        raise UploadRefusedError("W&B has recorded nothing of it")
    if not side.to_upload:
        raise NothingToUploadError(side)
    if side.upload is UploadState.RUNNING:
        raise UploadRefusedError("it is being uploaded while it runs: sync it when it is over")
    if not side.is_over:
        raise UploadRefusedError("it is not over: sync it when it is")
