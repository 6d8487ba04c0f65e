"""How fast runs are packed into a file, and taken in from one."""

from __future__ import annotations

import hashlib
import io
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.report import Line, Section, Target
from gym_gui.services.archive import compression, packing
from gym_gui.services.archive.packing import Source
from gym_gui.services.archive.unpacking import opened
from mosaic_protocol import run_archive
from mosaic_protocol.run_archive import ArchivedFile, ArchivedRun, Manifest

NAME = "run_archives"
TITLE = "Runs as files"
METHOD = """\
Files as a run leaves them: 20 checkpoints of 10 MB of random bytes, which do not compress, and 100 MB of journal lines,
which do. Each is hashed, then all are written to a .tar.zst, as `mosaic export` does it once the databases have been
read: in one process on one core. Megabytes are those of the run. The archive is then unpacked with every check of
`mosaic import`. The last line is sha256 alone, which reads every byte once."""

_RUN = "01K9ZQ3V7X0000000000AAAAAA"
_MB = 1_000_000


def run(*, quick: bool = False) -> Section:
    checkpoints, text, rounds = (4, 20, 2) if quick else (20, 100, 5)
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        files = _made(Path(folder) / "run", checkpoints, text)
        total = sum(path.stat().st_size for path in files.values()) / _MB
        packed_cpu, packed, unpacked, hashed = [], [], [], []
        for number in range(rounds):
            out = Path(folder) / f"{number}.tar.zst"
            clock, cpu = _timed(partial(_pack, files, out))
            packed.append(total / clock)
            packed_cpu.append(total / cpu)
            target = Path(folder) / f"unpacked-{number}"
            unpacked.append(total / _timed(partial(_unpack, out, target))[1])
            hashed.append(total / _timed(lambda: [_digest(path) for path in files.values()])[1])
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line("packed, by CPU time", packed_cpu, "MB/s", Target("≥", 100.0)),
            Line("packed, by the clock", packed, "MB/s"),
            Line("unpacked and checked, by CPU time", unpacked, "MB/s"),
            Line("sha256 alone, by CPU time", hashed, "MB/s"),
        ],
    )


def _made(folder: Path, checkpoints: int, text: int) -> dict[str, Path]:
    """Lines repeat their words and differ in their numbers."""
    folder.mkdir()
    files: dict[str, Path] = {}
    for number in range(checkpoints):
        path = folder / f"model-{number}.safetensors"
        path.write_bytes(os.urandom(10 * _MB))
        files[f"{_RUN}/files/checkpoints/{path.name}"] = path
    hand, lines = random.Random(1), io.StringIO()
    for step in range(20_000):
        place = f'["metric",{step},"script"]\t{{"kind":"metric","seq":{step},"t":{1.7e9 + step},"step":{step * 128},'
        lines.write(f'{place}"values":{{"losses/value":{hand.random()},"losses/policy":{hand.random()}}}}}\n')
    part, path = lines.getvalue().encode(), folder / "telemetry.rows"
    with path.open("wb") as file:
        while file.tell() < text * _MB:
            file.write(part)
    files[f"{_RUN}/telemetry.rows"] = path
    for name in (run_archive.RUN, run_archive.HISTORY, run_archive.STEPS, run_archive.CONFIG):
        files[f"{_RUN}/{name}"] = folder / name
        files[f"{_RUN}/{name}"].write_bytes(b"{}")
    return files


def _pack(files: dict[str, Path], out: Path) -> None:
    sources = [
        Source(path, path.stat().st_mtime_ns, ArchivedFile(name, path.stat().st_size, _digest(path)))
        for name, path in files.items()
    ]
    entries = [source.entry for source in sources]
    manifest = Manifest(run_archive.FORMAT, "0", 0.0, [ArchivedRun(_RUN, "run")], entries)
    with out.open("wb") as file:
        packing.write_archive(file, compression.suffix_of(out.name), manifest, sources, packing.nothing_told)


def _unpack(file: Path, target: Path) -> None:
    target.mkdir()
    with opened(file) as archive:
        archive.unpack(target, lambda _done, _total: None)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - cpu
