"""What a daemon does on a good day, with real processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for


def test_a_run_goes_through_its_states_and_completes(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=20)
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.last_step) == ("completed", 20), run.reason
    moves = [(t.from_state, t.to_state) for t in daemon.client.history(run_id) if t.from_state != t.to_state]
    assert moves == [("INIT", "HSHK"), ("HSHK", "RDY"), ("RDY", "EXEC"), ("EXEC", "TERM")]


def test_every_metric_arrives_once_and_in_order(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=50, step_seconds=0.001)
    daemon.wait_over(run_id)
    (series,) = daemon.client.metrics(run_id, ["charts/episodic_return"])
    assert list(series.steps) == list(range(1, 51))
    assert list(series.values) == [float(step) for step in range(1, 51)]


def test_pause_holds_a_run_and_resume_lets_it_go_on(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=200, step_seconds=0.01)
    daemon.wait_state(run_id, "EXEC")
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC", "TERM")
    assert daemon.wait_over(run_id).outcome == "completed"


def test_a_run_that_is_paused_before_it_began_holds_once_it_does(daemon: DaemonProcess) -> None:
    starting = daemon.submit(total_timesteps=10_000_000, cpus=8)
    daemon.client.pause(starting)  # nobody waited for it to train
    queued = daemon.submit(total_timesteps=10_000_000, cpus=8)
    assert (daemon.client.pause(queued).state, daemon.client.run(queued).desired) == ("INIT", "pause")
    daemon.wait_state(starting, "PAUSE")
    daemon.client.resume(starting)
    daemon.wait_state(starting, "EXEC")
    daemon.client.cancel(starting)
    daemon.wait_state(queued, "PAUSE")
    history = [transition.cause for transition in daemon.client.history(queued)]
    assert history.index("PauseRequested") < history.index("run_started") < history.index("run_paused")


def test_many_who_watch_one_run_all_see_everything(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=60, step_seconds=0.01, say="a line")

    def points() -> list[bytes]:
        return [record for page in daemon.client.stream("metrics", run_id, follow=True) for record in page.records]

    def lines() -> bytes:
        return b"".join(chunk.data for chunk in daemon.client.logs(run_id, follow=True, source="stderr"))

    with ThreadPoolExecutor(40) as pool:
        seen = [pool.submit(points) for _ in range(20)]
        read = [pool.submit(lines) for _ in range(20)]
        assert {len(one.result()) for one in seen} == {60}
        assert len({tuple(one.result()) for one in seen}) == 1
        assert {one.result() for one in read} == {b"a line\n"}


def test_a_cancelled_run_leaves_no_process_and_says_why(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=100_000)
    daemon.wait_state(run_id, "EXEC")
    daemon.client.cancel(run_id, "changed my mind")
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert "changed my mind" in run.reason
    assert daemon.processes(run_id) == []


def test_a_queued_run_can_be_cancelled_before_it_starts(daemon: DaemonProcess) -> None:
    first = daemon.submit(total_timesteps=100_000, cpus=8)
    second = daemon.submit(total_timesteps=5, cpus=8)
    daemon.wait_state(first, "EXEC")
    assert daemon.client.run(second).queue_position == 1
    assert daemon.client.cancel(second).outcome == "canceled"
    daemon.client.cancel(first)
    daemon.wait_over(first)
    assert daemon.starts(second) == 0


def test_logs_of_a_run_can_be_followed_to_its_end(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=20)
    text = b"".join(chunk.data for chunk in daemon.client.logs(run_id, follow=True))
    assert b"toy worker starts" in text
    wait_for("the run to end", lambda: daemon.client.run(run_id).state == "TERM")
