"""Expressions over runs: what they mean, what is refused, and that SQL and the matcher always agree."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gym_gui.services import run_filter
from gym_gui.services.run_filter import FilterError, RunFacts, has_operator, parse, require_known_settings
from gym_gui.services.run_labels import config_of, flat_settings, labels_in
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.run_records import run_record
from mosaic_protocol.headline import MEAN_RETURN, SPS_TAG
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Outcome, RunState


def config(metadata: dict[str, Any] | None = None, **worker: Any) -> str:
    return json.dumps({"metadata": {"worker": {"config": worker}, **(metadata or {})}})


def made(**fields: Any) -> pb.Run:
    """A run as the daemon describes it."""
    told: dict[str, Any] = {
        "run_id": "01K9ZQ3V7X0000000000000ABC",
        "name": "PPO on cart",
        "state": "EXEC",
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "worker_type": "cleanrl",
        "created_at": time.time() - 3600,
        "seed": 1,
        "tags": ["paper", "Base Line"],
        "group": "lr-study",
        "last_step": 150_000,
        "total_steps": 500_000,
        "active_seconds": 600.0,
        "headline": {MEAN_RETURN: 412.5, SPS_TAG: 9000.0},
        "config_json": config(
            algo="ppo",
            extras={"algo_params": {"learning_rate": 0.00025, "num_envs": 8, "anneal_lr": False}, "video": {"fps": 30}},
        ),
    }
    return pb.Run(**{**told, **fields})


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "algo=ppo env=CartPole* lr<1e-3 tag=paper state=running return>400 seed=1",
        "ALGO=PPO env_id=cartpole-v1",
        "algo==ppo",
        "algo = ppo  env  =  CartPole-v1",
        "algo=dqn,ppo,sac",
        "algo=dqn, ppo",
        "algo!=dqn",
        "env=Cart?ole-v?",
        "env~pole",
        'tag="base line"',
        "tag='Base Line' tag=paper",
        "tag!=draft",
        "tag=pap*",
        "sweep=''",
        'dataset="" parent="" group!=""',
        "state=live state!=paused outcome=''",
        "state=EXEC",
        "id=01K9 id=ABC run=abc",
        "seed>=1 seed<2 seed!=3",
        "seed=1.0",
        "seed=0..1 seed=1..1 seed=7,0..2 seed!=2..9",
        "steps=100k..200k learning_rate=0..1",
        "steps>=150k total=500_000 steps<1M",
        "sps>8.5k sps<=9000",
        "trained=10m trained<1h trained>=600",
        "age>50m age<1d",
        "learning_rate=2.5e-4",
        "learning-rate=0.00025",
        "--learning-rate<3e-4",
        "num_envs=8 num_envs<=8",
        "num_envs!=16",
        "anneal_lr=false",
        "extras.video.fps=30 fps=30",
        "lr=*",
        "gamma!=0.99",
        "gamma=''",
        "cart",
        "cart ppo",
        "'on cart' lr<1",
        "cart algo=ppo",
    ],
)
def test_what_holds_for_a_run(expression: str) -> None:
    assert parse(expression).matches(RunFacts(made()))


@pytest.mark.parametrize(
    "expression",
    [
        "algo=pp",
        "algo=dqn",
        "algo!=ppo",
        "algo!=dqn,ppo",
        "env=Cart",
        'env="Cart*"',
        "tag=base",
        "tag!=paper",
        "tag=''",
        "group=''",
        "state=queued",
        "state=completed",
        "outcome=failed",
        "id=01K8",
        "seed=2",
        "seed=2..9",
        "seed!=0..3",
        "algo=p..q",
        "seed=''",
        "seed<1",
        "steps>150k",
        "return>412.5",
        "return<400",
        "length>0",
        "learning_rate=0.001",
        "learning_rate>1",
        "anneal_lr=true",
        "gamma=0.99",
        "gamma<2",
        "lr=''",
        "acrobot",
        "age<10m",
    ],
)
def test_what_does_not_hold_for_a_run(expression: str) -> None:
    assert not parse(expression).matches(RunFacts(made()))


def test_a_session_plays_and_a_training_trains_and_both_run() -> None:
    session, training = RunFacts(made(algo="play")), RunFacts(made())
    for expression, of_session, of_training in (
        ("state=playing", True, False),
        ("state=training", False, True),
        ("state!=training", True, False),
        ("state=playing,training", True, True),
        ("state=running", True, True),
    ):
        assert parse(expression).matches(session) is of_session, expression
        assert parse(expression).matches(training) is of_training, expression
    assert not parse("state=playing").matches(RunFacts(made(algo="play", state="PAUSE")))


def test_outcomes_are_states_too_and_have_two_spellings() -> None:
    over = made(state="TERM", outcome="canceled")
    for expression in ("state=over", "state=canceled", "outcome=cancelled", "outcome!=failed", "status=TERM"):
        assert parse(expression).matches(RunFacts(over)), expression
    timed_out = RunFacts(made(state="TERM", outcome="timed_out"))
    assert parse("outcome='timed out'").matches(timed_out) and parse("state=timed-out").matches(timed_out)


@pytest.mark.parametrize(
    ("expression", "place", "words"),
    [
        ("algo=", 6, 'algo= needs a value; algo="" finds runs without one'),
        ("algo= env=x", 7, "algo= needs a value"),
        ("algo=ppo,", 10, "algo= needs a value"),
        ("algo<3", 5, "algo is a text: < does not apply to it, = != ~ do"),
        ("state~run", 6, "state is one of a few words"),
        ("state=runing", 7, "'runing' is no state of a run; did you mean 'running'?"),
        ("outcome=training", 9, "'training' is no outcome of a run"),
        ("seed=one", 6, "'one' is not a number"),
        ("seed=5..1", 6, "turn it round"),
        ("seed<1..5", 6, "'1..5' is not a number"),
        ("state=''", 7, "state= needs a value"),
        ("name=\udcff", 6, "no text in any alphabet"),
        ("lr<small", 4, "'small' is not a number"),
        ("lr<1,2", 5, "lr< takes one number, not a list"),
        ("trained>10x", 9, "90s, 10m or 2h"),
        ("algo=ppo and lr<1", 10, "leave the 'and' out"),
        ("algo=ppo OR algo=dqn", 10, "one field takes several values"),
        ("lr<1 not algo=ppo", 6, "say what must not be with !="),
        ("=ppo", 1, "'=' needs the name of a field before it"),
        ("algo=ppo =3", 10, "needs the name of a field"),
        ('name="open', 6, "this quote is not closed"),
        ('name="a"b', 9, "leave a blank between terms"),
        ("name=a=b", 7, "'=' is not expected after 'a'"),
        ("3x=5", 3, "is not expected after '3x'"),
        (" ".join(["a"] * 31), 61, "at most 30 terms"),
        ("x" * 1001, 1001, "at most 1000 characters"),
        ("algo=" + ",".join("abc"[number % 3] for number in range(101)), 206, "at most 100 values"),
    ],
)
def test_a_mistake_is_reported_with_its_place(expression: str, place: int, words: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(expression)
    assert words in str(refused.value)
    assert (refused.value.start + 1, f"(at character {place})" in str(refused.value)) == (place, True)


def test_a_name_that_nothing_has_is_refused_with_the_nearest() -> None:
    known = flat_settings(config_of(made().config_json))
    for expression, near in (("algoo=ppo", "algo"), ("lr=1 learnin_rate<1", "learning_rate"), ("retrun>3", "return")):
        with pytest.raises(FilterError, match=f"did you mean '{near}'"):
            require_known_settings(parse(expression), known)
    require_known_settings(parse("fps=30 lr<1 num-envs=8 algo=ppo"), known)


def test_only_texts_with_an_operator_are_expressions() -> None:
    assert [has_operator(text) for text in ("cart pole", "what!", "a=b", "lr<1", "x~y", "")] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


def test_a_pattern_that_could_take_for_ever_is_answered_at_once() -> None:
    wanted = parse(f"name={'*a' * 100}*b")
    begun = time.perf_counter()
    assert not wanted.matches(RunFacts(made(name="a" * 120)))
    assert time.perf_counter() - begun < 1.0


# ---- anything ----------------------------------------------------------------------------------------------------


@settings(deadline=None)  # a loaded machine is no mistake of the parser
@given(st.text(max_size=80) | st.text(alphabet="algo=<>!~,'\"* 1e-3\\", max_size=40))
@example('"\\')
@example("a=\\")
def test_every_text_is_understood_or_refused_with_a_place_in_it(text: str) -> None:
    try:
        wanted = parse(text)
    except FilterError as error:
        refused = error
    else:
        assert wanted.matches(RunFacts(made())) in (True, False)
        return
    assert 0 <= refused.start <= len(text) and "\n" not in refused.sentence


_LETTERS = st.text(alphabet="abAB1*?[]é-", max_size=5)
_TAGS = st.lists(_LETTERS.filter(bool), max_size=3)
_QUOTED = _LETTERS.map(lambda text: f'"{text}"')
_VALUES = st.lists(_LETTERS.filter(bool) | _QUOTED, min_size=1, max_size=3).map(",".join)
_TEXT_TERMS = st.tuples(
    st.sampled_from(["name", "algo", "env", "worker", "tag", "group", "sweep", "dataset", "parent", "id"]),
    st.sampled_from(["=", "!="]),
    _VALUES,
) | st.tuples(st.sampled_from(["name", "tag", "group"]), st.just("~"), _LETTERS.filter(bool))
_NUMBER_TERMS = st.tuples(
    st.just("seed"),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.sampled_from(["0", "1", "2", "1.5", "-1", "2.0", "9007199254740993", "0..1", "-1..1.5"]),
)
_WORD_TERMS = st.tuples(
    st.sampled_from(["state", "outcome"]), st.sampled_from(["=", "!="]), st.sampled_from(["completed", "lost,failed"])
) | st.tuples(
    st.just("state"),
    st.sampled_from(["=", "!="]),
    st.sampled_from(["live", "queued,over", "EXEC", "training", "playing,over"]),
)
_TERMS = st.one_of(_TEXT_TERMS, _NUMBER_TERMS, _WORD_TERMS).map("".join) | _LETTERS.filter(bool)
_EXPRESSIONS = st.lists(_TERMS, min_size=1, max_size=3).map(" ".join)
_OVER = st.tuples(st.just(RunState.TERM), st.sampled_from(list(Outcome)))
_RUNS = st.fixed_dictionaries(
    {
        "name": _LETTERS,
        "algo": _LETTERS | st.just("play"),
        "env_id": _LETTERS,
        "state": st.tuples(st.sampled_from([RunState.INIT, RunState.EXEC]), st.none()) | _OVER,
        "tags": _TAGS,
        "seed": st.sampled_from([None, -1, 0, 1, 2, 9007199254740993]),
        "labels": st.tuples(_LETTERS, _LETTERS, _LETTERS, _LETTERS),
    }
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRegistry]:
    with closing(RunRegistry(tmp_path_factory.mktemp("filter") / "registry.sqlite")) as opened:
        yield opened


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(facts=_RUNS, expression=_EXPRESSIONS)
def test_sql_and_the_matcher_agree(registry: RunRegistry, facts: dict[str, Any], expression: str) -> None:
    try:
        wanted = parse(expression)
    except FilterError:
        return
    state, outcome = facts["state"]
    group, sweep, dataset, parent = facts["labels"]
    metadata = {"tags": facts["tags"], "group": group, "sweep": sweep, "parent": {"run_id": parent}}
    text = config(metadata, seed=facts["seed"], dataset=dataset)
    labels = labels_in(config_of(text))
    names = {name: facts[name] for name in ("name", "algo", "env_id")}
    run = run_record(**names, state=state, outcome=outcome, config_json=text, labels=labels)
    registry.insert(run, "").result(60)
    query = Query(filter=wanted)
    assert not query.left, "these are all columns"
    by_sql = registry.page(query, 10, "").total == 1
    told = made(
        **names,
        run_id=run.run_id,
        worker_type=run.worker_type,
        state=state,
        outcome=outcome or "",
        tags=labels.tags,
        seed=labels.seed,
        group=group,
        sweep=sweep,
        dataset=dataset,
        parent=parent,
    )
    registry.remove(run.run_id).result(60)
    assert by_sql == wanted.matches(RunFacts(told)), expression


# ---- labels and settings -----------------------------------------------------------------------------------------


def test_labels_are_read_from_a_config_and_nothing_of_it_is_believed() -> None:
    given_ = config({"tags": ["a"], "group": "g", "sweep": "s", "parent": {"run_id": "P"}}, seed=3, dataset="d")
    found = labels_in(config_of(given_))
    assert (found.tags, found.seed, found.group, found.sweep, found.dataset, found.parent) == (
        ("a",),
        3,
        "g",
        "s",
        "d",
        "P",
    )
    for strange in ("[]", "{", "null", '{"metadata": 3}', config({"tags": 3, "group": [], "parent": "x"}, seed=True)):
        assert labels_in(config_of(strange)) == labels_in({})


def test_numbers_beyond_what_can_be_compared_are_left_out() -> None:
    assert flat_settings(config_of(config(params={"huge": 10**400, "lr": 1}))) == {"lr": 1}


def test_settings_are_flat_and_flags_have_their_own_names() -> None:
    found = flat_settings(
        config_of(config(algo="ppo", params={"gamma": 0.9}, extras={"algo_params": {"lr": 1}, "x": {"y": [1, "a"]}}))
    )
    assert found == {"algo": "ppo", "gamma": 0.9, "lr": 1, "extras.x.y": '[1,"a"]'}


def test_every_field_is_documented() -> None:
    page = (Path(run_filter.__file__).parents[2] / "docs" / "reference" / "filters.md").read_text()
    names = [name for field in run_filter.FIELDS for name in (field.name, *field.also)]
    assert [name for name in names if f"`{name}`" not in page] == []
