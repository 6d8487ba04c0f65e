"""What a run said, for programs that draw or keep it: :class:`TrainingTelemetryService`.

A thin front of :class:`~gym_gui.services.trainer.client.TrainerClient`. The daemon has every number of every run;
nothing is kept here. For live steps and episodes see :class:`~gym_gui.services.trainer.streams.RunBus`.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

from gym_gui.services.scalars.event_writer import EventFile
from gym_gui.services.scalars.metric_table import every_point
from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.whole_files import drafted


class TrainingTelemetryService:
    """Thread-safe as its client is. Raises ClientError for runs and daemons that cannot be reached, OSError for files.

    Runs are named by id, a unique part of it, or a unique name.
    """

    def __init__(self, client: TrainerClient, paths: MosaicPaths) -> None:
        self._client, self._paths = client, paths

    def recent_metrics(self, run_id: str, count: int = 1000) -> dict[str, pb.MetricSeries]:
        """The newest ``count`` points of each metric, oldest first, by its name."""
        return {series.tag: series for series in self._client.metrics(run_id, max_points=count)}

    def export_to_tensorboard(self, run_id: str, folder: Path | None = None) -> Path:
        """Write all metrics of a run as an event file; the folder for ``tensorboard --logdir``.

        In a folder of its own unless one is given: where the run's script wrote event files, a second one beside them
        would double every curve. An earlier export is replaced.
        """
        run = self._client.run(run_id)
        folder = folder or self._paths.training / "tensorboard" / run.run_id
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"events.out.tfevents.{int(run.created_at)}.{socket.gethostname()}.{run.run_id}"
        with drafted(file) as draft, draft.open("xb") as opened:
            events = EventFile(opened, run.created_at or time.time())
            for part in every_point(self._client, run.run_id):
                events.add_scalars(part.tag, zip(part.steps, part.values, part.wall_times, strict=True))
        return folder

    def archive(self, run_id: str) -> Path:
        """Write all metrics of a run as lines of JSON, as its worker journalled them; the file
        ``training/metrics/RUN_ID.jsonl`` below the data root. An earlier archive is replaced."""
        run = self._client.run(run_id)
        file = self._paths.training / "metrics" / f"{run.run_id}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with drafted(file) as draft, draft.open("xb") as opened:
            for page in self._client.stream("metrics", run.run_id):
                opened.writelines(line + b"\n" for line in page.records)
        return file
