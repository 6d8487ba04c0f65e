"""Concurrent calls are bounded: what is too much is refused call by call, and costs those who are there nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc

from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess
from mosaic_protocol.endpoint import Endpoint, bearer
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub

MOST_CALLS = 40


async def test_calls_beyond_the_bound_are_refused_and_those_who_were_there_go_on(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(most_calls=MOST_CALLS).start()
    meta = bearer(daemon.paths.token_file.read_text().strip())
    async with Endpoint.of(daemon.paths).aio_channel() as channel, asyncio.timeout(2 * HANG_GUARD):
        stub = TrainerServiceStub(channel)

        async def answer() -> grpc.StatusCode:
            return await stub.GetHealth(pb.HealthRequest(), metadata=meta).code()

        watchers: list[grpc.aio.UnaryStreamCall[pb.WatchRunsRequest, pb.RunUpdate]] = []
        while (code := await answer()) is grpc.StatusCode.OK:
            # Watchers that are there, not those that were asked for: a daemon without a bound would take them all.
            assert sum(not watcher.done() for watcher in watchers) <= MOST_CALLS, "nobody is refused"
            watchers.append(stub.WatchRuns(pb.WatchRunsRequest(), metadata=meta))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        late = stub.WatchRuns(pb.WatchRunsRequest(), metadata=meta)
        assert await late.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

        first, *others = [watcher for watcher in watchers if not watcher.done()]
        waiting = asyncio.ensure_future(aiter(first).__anext__())
        for watcher in others:
            watcher.cancel()
        run_id = await asyncio.to_thread(daemon.submit, total_timesteps=1)
        assert (await waiting).run.run_id == run_id
        first.cancel()
    assert (await asyncio.to_thread(daemon.wait_over, run_id)).outcome == "completed"
