"""``python -m gym_gui.services.trainer``: run the daemon in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
from pathlib import Path

from gym_gui.services.trainer.daemon import TrainerDaemon
from gym_gui.services.trainer.daemon_control import EXIT_ALREADY_RUNS
from gym_gui.services.trainer.errors import AlreadyRunningError, TrainerError
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage import private_files
from mosaic_protocol.endpoint import quiet_grpc_logs
from mosaic_protocol.paths import MosaicPaths, default_root

_DESCRIPTORS = 16384


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gym_gui.services.trainer", description="The MOSAIC trainer daemon."
    )
    parser.add_argument("--home", type=Path, default=None, help="data root (default: MOSAIC_HOME)")
    parser.add_argument("--tcp", action="store_true", default=None, help="listen on TCP with TLS as well")
    parser.add_argument("--host", help="address to listen on with TCP (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on with TCP (default 0: a free one)")
    parser.add_argument("--tls-cert", help="PEM certificate chain (default: one made for this data root)")
    parser.add_argument("--tls-key", help="PEM private key")
    parser.add_argument("--cpus", type=int, help="CPUs to give to runs")
    parser.add_argument("--memory-mb", type=int, help="memory to give to runs")
    parser.add_argument("--prewarm", help="worker types whose fork server starts at once, separated by commas")
    return parser.parse_args()


def main() -> int:
    options = vars(_options())
    home = options.pop("home")
    quiet_grpc_logs()
    _take_descriptors()
    paths = MosaicPaths(home.absolute() if home else default_root())
    private_files.keep_private()
    private_files.tighten(paths)
    try:
        settings = TrainerSettings.from_environment(**options)
        asyncio.run(TrainerDaemon(paths, settings).serve())
    except AlreadyRunningError as error:
        return _failed(str(error), EXIT_ALREADY_RUNS)
    except TrainerError as error:
        return _failed(str(error))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _failed(
            f"cannot use {paths.root} for data: {error.strerror or error}{where}. "
            "Mend that (disk space, permissions) or set MOSAIC_HOME to a folder you can write to."
        )
    return 0


def _take_descriptors() -> None:
    """As many as may be had, within reason: every run, watcher and stranger at the door takes some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _failed(sentence: str, status: int = 1) -> int:
    print(f"mosaic trainer: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
