"""Generate the gRPC code from ``trainer.proto``; with ``--check``, say whether what stands there is fresh.

protoc runs from the root of the tree, so that the generated modules import each other by their full package
names. The ``.pyi`` files come from mypy-protobuf: protoc's own stubs leave every call untyped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = Path("mosaic_protocol/proto/trainer.proto")
GENERATED = tuple(
    PROTO.with_name(PROTO.stem + ending) for ending in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
)


class GenerationError(Exception):
    """protoc could not generate; the text says why and what to do."""


def generate(root: Path, target: Path) -> None:
    """Write all of GENERATED below ``target``. Raises GenerationError with protoc's own words."""
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={root}",
        *(f"--plugin={plugin}" for plugin in stub_plugins()),
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
        str(root / PROTO),
    ]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode != 0:
        raise GenerationError(f"protoc refused {PROTO}:\n{finished.stderr.strip()}")


def stub_plugins() -> list[Path]:
    """Beside the running interpreter: protoc looks on the PATH only, where .venv need not be."""
    plugins = [Path(sys.executable).parent / name for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    for plugin in plugins:
        if not plugin.exists():
            raise GenerationError(f"{plugin.name} is not installed beside {sys.executable}; run `make setup-dev`.")
    return plugins


def stale_files(root: Path) -> list[Path]:
    with tempfile.TemporaryDirectory(prefix="mosaic-proto-") as scratch:
        generate(root, Path(scratch))
        return [name for name in GENERATED if content(root / name) != content(Path(scratch) / name)]


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def check(root: Path) -> None:
    stale = stale_files(root)
    if stale:
        names = ", ".join(path.name for path in stale)
        raise GenerationError(f"The code generated from {PROTO} is stale ({names}): run `make proto`.")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=f"Generate the gRPC code from {PROTO}.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the code is stale")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            check(ROOT)
        else:
            generate(ROOT, ROOT)
    except GenerationError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
