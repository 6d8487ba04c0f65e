"""The registry: what it acknowledged is on disk, once, and a reference means one run or is refused."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest

from gym_gui.services.run_filter import parse
from gym_gui.services.run_labels import RunLabels
from gym_gui.services.trainer.errors import RefusedError, StorageFullError, UnknownRunError, WorldError
from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.queue_keys import QueueKeys, whole
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import MIGRATIONS, RunRegistry
from gym_gui.tests.support.run_records import HELD, live_record, new_run_id, run_record
from mosaic_host.executor import locator_of, process_of
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.states import Outcome, RunState

PATIENCE = 60.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trainer" / "registry.sqlite"


@pytest.fixture
def registry(path: Path) -> Iterator[RunRegistry]:
    with closing(RunRegistry(path)) as opened:
        yield opened


def insert(registry: RunRegistry, run: RunRecord | None = None, request_id: str = "") -> RunRecord:
    stored, _ = registry.insert(run or run_record(), request_id).result(PATIENCE)
    return stored


def note(run: RunRecord, cause: str = "Noted") -> Transition:
    return Transition(run.state, run.state, cause)


# ---- durability ----------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.run_records import run_record
from ulid import ULID
registry = RunRegistry(Path(sys.argv[1]))
while True:
    run, _ = registry.insert(run_record(run_id=str(ULID())), str(ULID())).result()
    print(run.run_id, flush=True)
"""


def test_every_acknowledged_run_survives_the_death_of_the_daemon(path: Path) -> None:
    acknowledged: list[str] = []
    for lives in (3, 40):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            acknowledged += [child.stdout.readline().strip() for _ in range(lives)]
            child.kill()
            acknowledged += child.stdout.read().split()
    with closing(RunRegistry(path)) as registry:
        stored = [run.run_id for run in registry.unfinished()]
        told = [row.run_id for row in registry.history()]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert told == stored
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_run_comes_back_from_disk_as_it_was(path: Path) -> None:
    with closing(RunRegistry(path)) as registry:
        run = insert(registry, live_record(state=RunState.EXEC, heard={"worker": 7}, last_step=2**40))
    with closing(RunRegistry(path)) as registry:
        assert registry.get(run.run_id) == run


def test_writes_are_synced_before_they_are_acknowledged(registry: RunRegistry) -> None:
    def level(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    full = 2
    assert registry._writer.submit(level).result(PATIENCE) == full


# ---- request ids ---------------------------------------------------------------------------------


def test_a_retried_request_returns_the_run_of_the_first_one(registry: RunRegistry) -> None:
    first = insert(registry, run_record(), "r1")
    again, known = registry.insert(run_record(), "r1").result(PATIENCE)
    assert known
    assert again == first
    assert registry.page(Query(), 10, "").total == 1


def test_a_retried_request_returns_the_run_as_it_is_now(registry: RunRegistry) -> None:
    first = insert(registry, run_record(), "r1")
    over = replace(first, state=RunState.TERM, outcome=Outcome.FAILED, reason="broke")
    registry.save(over, [Transition(first.state, over.state, "Gone")]).result(PATIENCE)
    assert registry.insert(run_record(), "r1").result(PATIENCE)[0].outcome is Outcome.FAILED


def test_a_request_id_used_for_another_config_is_refused(registry: RunRegistry) -> None:
    insert(registry, run_record(config_json='{"a": 1}'), "r1")
    with pytest.raises(RefusedError, match="r1"):
        registry.insert(run_record(config_json='{"a": 2}'), "r1").result(PATIENCE)
    assert registry.page(Query(), 10, "").total == 1


def test_default_names_chosen_at_once_are_numbered_and_chosen_ones_are_not(registry: RunRegistry) -> None:
    def wish(name: str = "racer") -> RunRecord:
        return run_record(run_id=new_run_id(), name=name, config_json=json.dumps({"run_name": name}))

    first = wish()
    waiting = [registry.insert(run, run.run_id, name_is_default=True) for run in [first, *(wish() for _ in range(5))]]
    stored = [future.result(PATIENCE)[0] for future in waiting]
    assert [run.name for run in stored] == ["racer", *(f"racer-{number}" for number in range(2, 7))]
    assert [json.loads(run.config_json)["run_name"] for run in stored] == [run.name for run in stored]
    assert registry.get(stored[3].run_id).name == "racer-4"
    assert registry.insert(wish(), "").result(PATIENCE)[0].name == "racer"
    assert registry.insert(wish("racer-2"), "", name_is_default=True).result(PATIENCE)[0].name == "racer-7"
    again, known = registry.insert(first, first.run_id, name_is_default=True).result(PATIENCE)
    assert (again.run_id, again.name, known) == (first.run_id, "racer", True)
    long = [registry.insert(wish("x" * 120), "", name_is_default=True).result(PATIENCE)[0].name for _ in range(2)]
    assert len(long[0]) == 120 and len(long[1]) <= 120 and long[0] != long[1]


def test_requests_without_an_id_are_each_a_run_of_their_own(registry: RunRegistry) -> None:
    assert insert(registry).run_id != insert(registry).run_id
    assert registry.page(Query(), 10, "").total == 2


def test_a_purged_run_leaves_its_request_id_free(registry: RunRegistry) -> None:
    first = insert(registry, run_record(), "r1")
    registry.remove(first.run_id).result(PATIENCE)
    assert insert(registry, run_record(), "r1").run_id != first.run_id


def test_many_threads_with_one_request_id_get_one_run(registry: RunRegistry) -> None:
    found: list[str] = []

    def ask() -> None:
        found.append(insert(registry, run_record(), "shared").run_id)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 16
    assert len(set(found)) == 1


# ---- what a reference means ----------------------------------------------------------------------


def test_a_run_is_found_by_id_beginning_end_and_name(registry: RunRegistry) -> None:
    run = insert(registry, run_record(run_id="01K9ZQ3V7X0000000000000ABC", name="My Run"))
    insert(registry, run_record(run_id="01M9ZQ3V7X0000000000000XYZ", name="other"))
    for reference in (run.run_id, run.run_id.lower(), "01K9", "01k9", "ABC", "abc", "My Run"):
        assert registry.find(reference) == run, reference


@pytest.mark.parametrize("reference", ["", "nope", "my run", "9ZQ3", "01K9ZQ3V7X0000000000000ABCD", "%", "_" * 26])
def test_what_fits_no_run_is_refused_with_advice(registry: RunRegistry, reference: str) -> None:
    insert(registry, run_record(run_id="01K9ZQ3V7X0000000000000ABC", name="My Run"))
    with pytest.raises(UnknownRunError, match="mosaic runs"):
        registry.find(reference)


def test_what_fits_several_runs_is_refused_and_names_them(registry: RunRegistry) -> None:
    runs = [insert(registry, run_record(name="twin")) for _ in range(2)]
    with pytest.raises(UnknownRunError) as refused:
        registry.find("twin")
    assert all(f"{run.run_id[-6:]} (twin)" in str(refused.value) for run in runs)


def test_an_exact_id_wins_over_runs_that_were_named_after_it(registry: RunRegistry) -> None:
    meant = insert(registry)
    for _ in range(25):
        insert(registry, run_record(name=meant.run_id))
    assert registry.find(meant.run_id) == meant


def test_an_unknown_id_is_refused_everywhere(registry: RunRegistry) -> None:
    with pytest.raises(UnknownRunError):
        registry.get(new_run_id())


def test_a_run_that_was_purged_meanwhile_cannot_be_saved(registry: RunRegistry) -> None:
    run = insert(registry)
    registry.remove(run.run_id).result(PATIENCE)
    with pytest.raises(UnknownRunError):
        registry.save(run, [note(run)]).result(PATIENCE)
    assert registry.history() == []


# ---- listings ------------------------------------------------------------------------------------


def pages(registry: RunRegistry, query: Query, size: int) -> list[list[str]]:
    found, token = [], ""
    while True:
        page = registry.page(query, size, token)
        found.append([run.run_id for run in page.runs])
        if not (token := page.next_token):
            return found


def test_pages_show_every_run_once_newest_first(registry: RunRegistry) -> None:
    ids = [insert(registry).run_id for _ in range(7)]
    assert pages(registry, Query(), 3) == [ids[:3:-1], ids[3:0:-1], ids[:1]]


def test_a_full_last_page_has_no_successor(registry: RunRegistry) -> None:
    ids = [insert(registry).run_id for _ in range(4)]
    assert pages(registry, Query(), 2) == [ids[:1:-1], ids[1::-1]]


def test_pages_do_not_shift_when_runs_are_added_in_between(registry: RunRegistry) -> None:
    ids = [insert(registry).run_id for _ in range(4)]
    first = registry.page(Query(), 2, "")
    insert(registry)
    second = registry.page(Query(), 2, first.next_token)
    assert [run.run_id for run in [*first.runs, *second.runs]] == ids[::-1]


@pytest.mark.parametrize("token", ["x", "-1", "1.5", "1" * 19, "1; DROP TABLE runs"])
def test_a_token_that_no_page_gave_is_refused(registry: RunRegistry, token: str) -> None:
    with pytest.raises(RefusedError, match="page token"):
        registry.page(Query(), 2, token)


def test_listings_filter_and_count(registry: RunRegistry) -> None:
    ppo = insert(registry, run_record(name="first", algo="ppo", env_id="CartPole-v1"))
    insert(registry, run_record(name="second", algo="dqn", env_id="Acrobot-v1"))
    ended = insert(registry, live_record(name="third", state=RunState.TERM, outcome=Outcome.FAILED))
    deleted = insert(registry, live_record(name="fourth", state=RunState.TERM, deleted_at=5.0))

    def shown(query: Query) -> list[str]:
        page = registry.page(query, 10, "")
        assert page.total == len(page.runs)
        return [run.run_id for run in page.runs]

    assert shown(Query(search="cartPOLE")) == [ppo.run_id]
    assert shown(Query(search=ppo.run_id[-5:].lower())) == [ppo.run_id]
    assert shown(Query(states=["TERM"])) == [ended.run_id]
    assert shown(Query(outcomes=["failed"])) == [ended.run_id]
    assert shown(Query(search="fourth")) == []
    assert shown(Query(search="fourth", include_deleted=True)) == [deleted.run_id]


def test_unfinished_runs_come_in_the_order_of_submission(registry: RunRegistry) -> None:
    first, second = insert(registry), insert(registry, live_record(state=RunState.EXEC))
    insert(registry, live_record(state=RunState.TERM))
    assert registry.unfinished() == [first, second]


def test_a_watcher_sees_changes_from_its_revision_on(registry: RunRegistry) -> None:
    first, second = insert(registry), insert(registry)
    seen = max(run.revision for run in registry.changed_after(0))
    moved = registry.save(first, [note(first)]).result(PATIENCE)
    assert registry.changed_after(seen) == [moved]
    assert moved.revision > second.revision


def test_deleted_runs_are_found_by_their_age(registry: RunRegistry) -> None:
    old = insert(registry, live_record(state=RunState.TERM, deleted_at=100.0))
    insert(registry, live_record(state=RunState.TERM, deleted_at=200.0))
    assert registry.deleted_before(150.0) == [old]


# ---- history -------------------------------------------------------------------------------------


def test_history_tells_every_transition_in_order_with_what_was_held(registry: RunRegistry) -> None:
    run = insert(registry)
    held = replace(run, state=RunState.HSHK, reservation=HELD)
    registry.save(held, [Transition(run.state, held.state, "Launching", "attempt 1")]).result(PATIENCE)
    rows = registry.history(run.run_id)
    assert [(row.transition.cause, row.transition.target) for row in rows] == [
        ("Submitted", RunState.INIT),
        ("Launching", RunState.HSHK),
    ]
    assert [row.reservation for row in rows] == [None, HELD]
    assert rows[0].revision < rows[1].revision == registry.get(run.run_id).revision


def test_removing_a_run_leaves_no_trace_of_it(registry: RunRegistry) -> None:
    gone, kept = insert(registry), insert(registry)
    registry.remove(gone.run_id).result(PATIENCE)
    assert [row.run_id for row in registry.history()] == [kept.run_id]
    assert registry.unfinished() == [kept]


# ---- what earlier versions left ------------------------------------------------------------------


def old_registry(path: Path, runs: list[RunRecord]) -> None:
    """A file as versions before the run index wrote it: two migrations, documents without labels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for migration in MIGRATIONS[:2]:
            migration(connection)
        connection.execute("PRAGMA user_version = 2")
        for run in runs:
            document = msgspec.to_builtins(run)
            del document["labels"]
            text = msgspec.json.encode(document).decode()
            state = (run.state, run.outcome or "", run.worker_type, run.algo, run.env_id, int(run.deleted_at > 0))
            connection.execute(
                "INSERT INTO runs (run_id, name, state, outcome, worker_type, algo, env_id, deleted, revision,"
                " document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (run.run_id, run.name, *state, run.revision, text),
            )
        connection.commit()


def labelled_config(number: int) -> str:
    worker = {"seed": number, "dataset": "d4rl", "extras": {"algo_params": {"learning_rate": 1 / (number + 1)}}}
    metadata = {"tags": ["old", f"t{number}"], "parent": {"run_id": "P"}, "worker": {"config": worker}}
    return json.dumps({"metadata": metadata})


def labelled(number: int) -> RunRecord:
    return run_record(name=f"old-{number}", config_json=labelled_config(number), revision=number + 1)


def test_runs_of_earlier_versions_get_their_labels_from_their_configs(path: Path) -> None:
    ended = replace(labelled(2), state=RunState.TERM, outcome=Outcome.FAILED, deleted_at=5.0, revision=3)
    old = [labelled(0), labelled(1), ended]
    old_registry(path, old)
    with closing(RunRegistry(path)) as registry:
        for number, run in enumerate(old):
            labels = RunLabels(("old", f"t{number}"), number, "", "", "d4rl", "P")
            key = whole(number + 1) if run.is_queued else ""
            assert registry.get(run.run_id) == replace(run, labels=labels, queue_key=key)
        found = registry.page(Query(filter=parse("tag=t1 seed<2 dataset=d4rl parent=P")), 10, "")
        assert [run.name for run in found.runs] == ["old-1"]
        assert registry.page(Query(), 10, "").total == 2
        assert registry.page(Query(include_deleted=True, filter=parse("outcome=failed")), 10, "").total == 1
        assert registry.known_settings()["learning_rate"] == 1 / 3
        new = insert(registry)
        assert [run.run_id for run in registry.page(Query(), 1, "").runs] == [new.run_id]
        first = registry.get(old[0].run_id)
        saved = registry.save(replace(first, last_step=7), [note(first)]).result(PATIENCE)
        assert registry.get(first.run_id) == saved
        registry.remove(first.run_id).result(PATIENCE)
        assert registry.page(Query(filter=parse("tag=t0")), 10, "").total == 0


_OPENER = """
import sys
from pathlib import Path
from gym_gui.services.trainer.storage import run_registry as module
written = module._write_index
count = 0
def counting(*arguments, **options):
    global count
    count += 1
    if count == 50:
        print("half-way", flush=True)
        sys.stdin.read()
    written(*arguments, **options)
module._write_index = counting
module.RunRegistry(Path(sys.argv[1]))
"""


def test_a_migration_that_is_killed_half_way_is_made_again_from_the_beginning(path: Path) -> None:
    old_registry(path, [labelled(number) for number in range(100)])
    command = [sys.executable, "-c", _OPENER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "half-way\n"
        child.kill()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    with closing(RunRegistry(path)) as registry:
        page = registry.page(Query(filter=parse("seed>=40 tag=old")), 200, "")
        assert (page.total, page.runs[0].labels.seed) == (60, 99)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM run_index").fetchone() == (100,)


# ---- trouble -------------------------------------------------------------------------------------


def limit_pages(registry: RunRegistry, pages: int) -> None:
    """Let the file grow no further than this; 0 takes the limit away."""

    def operation(connection: sqlite3.Connection) -> None:
        used = int(connection.execute("PRAGMA page_count").fetchone()[0])
        connection.execute(f"PRAGMA max_page_count = {used + pages if pages else 2**30}")

    registry._writer.submit(operation).result(PATIENCE)


def test_without_space_nothing_changes_and_later_writes_work(registry: RunRegistry) -> None:
    before = insert(registry)
    limit_pages(registry, 1)
    large = run_record(config_json="x" * 200_000)
    with pytest.raises(StorageFullError, match="free some disk space"):
        registry.insert(large, "r1").result(PATIENCE)
    assert registry.unfinished() == [before]
    assert [row.run_id for row in registry.history()] == [before.run_id]
    limit_pages(registry, 0)
    assert insert(registry, large, "r1").run_id == large.run_id
    assert len(registry.unfinished()) == 2


def test_a_registry_of_a_newer_version_is_refused_and_untouched(path: Path) -> None:
    with closing(RunRegistry(path)) as registry:
        run = insert(registry)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(WorldError, match=r"version 99.*update MOSAIC"):
        RunRegistry(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT run_id FROM runs").fetchall() == [(run.run_id,)]


def test_runs_of_an_older_registry_are_found_by_the_process_they_named(path: Path) -> None:
    process = ProcessIdentity(4242, 777, "some boot")
    live, waiting, over = live_record(state=RunState.EXEC), run_record(), live_record(state=RunState.TERM)
    columns = "run_id, name, state, outcome, worker_type, algo, env_id, deleted, revision, document"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        for migration in MIGRATIONS[:2]:
            migration(connection)
        for run, named in ((live, process), (waiting, None), (over, process)):
            document = msgspec.to_builtins(run) | {"process": named and asdict(named)}
            del document["locator"], document["pid"]
            row = (run.run_id, run.name, run.state, "", "toy", "", "", 0, 1, msgspec.json.encode(document).decode())
            connection.execute(f"INSERT INTO runs ({columns}) VALUES ({', '.join('?' * len(row))})", row)
        connection.execute("PRAGMA user_version = 2")
    with closing(RunRegistry(path)) as registry:
        found = registry.get(live.run_id)
        assert (process_of(found.locator), found.pid) == (process, 4242)
        assert found.locator == locator_of(process), "locators of one process are equal"
        assert (registry.get(waiting.run_id).locator, registry.get(waiting.run_id).pid) == ("", 0)
        assert replace(found, locator=live.locator) == live
        assert registry.get(over.run_id) == replace(over, locator="", pid=0)


def test_runs_that_waited_in_an_older_registry_keep_the_order_in_which_they_were_accepted(path: Path) -> None:
    waiting = [run_record(name=f"waiting-{number}", created_at=100.0 - number) for number in range(12)]
    started, over = live_record(state=RunState.EXEC), run_record(state=RunState.TERM, outcome=Outcome.FAILED)
    old_registry(path, [*waiting[:5], started, over, *waiting[5:]])
    with closing(RunRegistry(path)) as registry:
        found = sorted((run for run in registry.unfinished() if run.is_queued), key=lambda run: run.queue_key)
        assert [run.name for run in found] == [run.name for run in waiting]
        assert len({run.queue_key for run in found}) == len(found)
        assert [registry.get(run.run_id).queue_key for run in (started, over)] == ["", ""]
        keys = QueueKeys()
        keys.seen(found[-1].queue_key)
        assert keys.next() > found[-1].queue_key, "a run that is submitted now comes behind them"


def test_a_request_that_moved_a_run_is_stored_with_the_move(registry: RunRegistry) -> None:
    run, other = insert(registry), insert(registry)
    assert not registry.knows_request("request", run.run_id, "digest")
    moved = replace(run, queue_key=whole(7))
    registry.save(moved, [note(run, "Moved")], "request", "digest").result(PATIENCE)
    assert registry.get(run.run_id).queue_key == whole(7)
    assert registry.knows_request("request", run.run_id, "digest")
    for run_id, digest in ((other.run_id, "digest"), (run.run_id, "another")):
        with pytest.raises(RefusedError, match="'request' was used before"):
            registry.knows_request("request", run_id, digest)
    with pytest.raises(RefusedError, match="'request' was used before"):
        registry.save(replace(other, queue_key=whole(8)), [note(other, "Moved")], "request", "digest").result(PATIENCE)
    assert registry.get(other.run_id) == other, "nothing of it is stored"
    registry.remove(run.run_id).result(PATIENCE)
    assert not registry.knows_request("request", run.run_id, "digest")


def test_opening_twice_migrates_once(path: Path) -> None:
    for _ in range(2):
        with closing(RunRegistry(path)) as registry:
            insert(registry)
    with closing(RunRegistry(path)) as registry:
        assert len(registry.unfinished()) == 2


def test_threads_write_and_read_together(registry: RunRegistry) -> None:
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for index in range(20):
                run = insert(registry, run_record(name=f"{number}-{index}"), f"{number}-{index}")
                assert registry.get(run.run_id) == run, "an acknowledged run can be read"
                saved = registry.save(replace(run, last_step=index), [note(run)]).result(PATIENCE)
                assert registry.get(run.run_id) == saved
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert problems == []
    assert registry.page(Query(), 200, "").total == 120
    revisions = [row.revision for row in registry.history()]
    assert len(revisions) == len(set(revisions)) == 240
