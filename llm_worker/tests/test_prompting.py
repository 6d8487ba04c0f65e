"""Templates, forms of answers, windows and describers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from llm_worker.client.reply import read_reply
from llm_worker.describing.choice import describer_for, require_pictures
from llm_worker.describing.describer import Seen, are_same
from llm_worker.describing.pictures import as_characters, as_data_url
from llm_worker.environments import make_env
from llm_worker.prompting.forms import AnswerForm, Ask, RungMissingError, climb
from llm_worker.prompting.history import Memory, Windows, turns
from llm_worker.prompting.templates import OWN_TEMPLATES, Template, TemplateError, find_template
from mosaic_protocol.dialogue import DialogueReader, Exchange, Message, recorded
from mosaic_worker.errors import UsageError

ACTIONS = ("turn left", "go forward")
DEFAULT = (OWN_TEMPLATES / "default.prompt").read_text()


@pytest.mark.parametrize("rung", ["grammar", "guided", "schema", "tagged"])
@pytest.mark.parametrize("text", ["", "   ", "fly", "{", '{"action": 3}', "<action>fly</action>", '{"action": "fly"}'])
def test_what_is_no_action_has_a_problem(rung: str, text: str) -> None:
    understood = AnswerForm(rung, ACTIONS).read(text)  # type: ignore[arg-type]
    assert understood.problem and not understood.actions
    assert understood.problem.isprintable()


def test_actions_are_read_from_every_form() -> None:
    assert AnswerForm("grammar", ACTIONS).read("go forward").actions == (1,)
    assert AnswerForm("guided", ACTIONS).read(" Turn_Left. ").actions == (0,)
    assert AnswerForm("schema", ACTIONS).read('```json\n{"action": "turn left"}\n```').actions == (0,)
    assert AnswerForm("tagged", ACTIONS).read("<action>fly</action> no: <action>GO FORWARD</action>").actions == (1,)
    assert AnswerForm("grammar", ACTIONS, 3).read("go forward, turn left").actions == (1, 0)
    assert AnswerForm("schema", ACTIONS, 2).read('{"actions": ["go forward", "turn left", "fly"]}').actions == (1, 0)
    thinking = AnswerForm("grammar", ACTIONS, thinks=True).read("Thinking: well\ngo forward")
    assert (thinking.actions, thinking.reasoning) == ((1,), "well")


def test_a_text_of_nothing_but_tags_is_read_at_once() -> None:
    began = time.process_time()
    assert AnswerForm("tagged", ACTIONS).read("<action>" * 8000).problem
    assert AnswerForm("tagged", ACTIONS).read("<action>" * 8000 + "go forward</action>").actions == (1,)
    assert time.process_time() - began < 1.0  # a pattern for pairs took 4 s, and hours for the longest answer


def test_the_highest_rung_that_is_kept_is_taken() -> None:
    def server(keeps: set[str], refuses: set[str]) -> Ask:
        def ask(place: str, additions: dict[str, object]) -> str:
            rung = place.removeprefix("probe.")
            if rung in refuses:
                raise RungMissingError("unknown field")
            return "zyx-mosaic-7" if rung in keeps else "Hello!"

        return ask

    assert climb(server({"grammar", "schema"}, set()), "auto", thinks=False, plans=False).rung == "grammar"
    ladder = climb(server({"guided", "schema"}, {"grammar"}), "auto", thinks=True, plans=False)
    assert ladder.rung == "schema" and ladder.tried["grammar"].startswith("refused")
    assert climb(server(set(), set()), "auto", thinks=False, plans=False).rung == "tagged"


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        (("{observation}", "{observations}"), 13, "did you mean"),
        (("{observation}", "{observation"), 13, "a brace stands alone"),
        (("[repair]", "[repairs]"), 15, "there is no part"),
        (("mosaic-prompt 1", "mosaic-prompt 9"), 1, "begins with the line"),
        (("{problem}. {format}", ""), 17, ""),
    ],
)
def test_a_wrong_template_shows_its_line(change: tuple[str, str], line: int, why: str) -> None:
    text = DEFAULT.replace(*change, 1)
    if not why:
        Template(text, Path("mine.prompt"))
        return
    with pytest.raises(TemplateError, match=why) as refused:
        Template(text, Path("mine.prompt"))
    assert f"line {line}:" in str(refused.value)
    assert refused.value.excerpt[0].strip().startswith(str(line))


def test_a_file_that_is_no_template_is_not_shown(tmp_path: Path) -> None:
    """A run of somebody else may name any file of this machine."""
    file = tmp_path / "id_rsa"
    file.write_text("sk-very-secret\n")
    with pytest.raises(TemplateError, match="line 1: a template begins") as refused:
        find_template(str(file))
    assert "secret" not in str(refused.value) + "".join(refused.value.excerpt)


@pytest.mark.parametrize("field", ["{rules.__class__}", "{include /etc/passwd}", "{0}", "{}"])
def test_a_template_includes_nothing_but_its_fields(field: str) -> None:
    with pytest.raises(TemplateError, match="has no field"):
        Template(DEFAULT.replace("{rules}", field), Path("mine.prompt"))


def test_what_is_filled_in_is_not_looked_at_for_fields(tmp_path: Path) -> None:
    template = find_template("default")
    assert "{rules}" in template.fill("observation", {"step": 1, "observation": "{rules} {{"})
    with pytest.raises(UsageError, match="cannot be read"):
        find_template(str(tmp_path / "none.prompt"))


def test_windows_for_words_pictures_and_reasoning_are_apart() -> None:
    memories = [Memory(f"p{one}", f"a{one}", f"r{one}") for one in range(6)]
    seen = Seen("", np.zeros((8, 8), np.uint8))
    told = turns(memories, Windows(4, 2, 1), [seen, seen])
    assert [one["role"] for one in told] == ["user", "assistant"] * 4
    assert [isinstance(one["content"], list) for one in told[::2]] == [False, False, True, True]
    assert [one["content"] for one in told[1::2]] == ["a2", "a3", "a4", "r5\na5"]
    assert Windows(1, 0, 0).shrunk() == Windows(0, 0, 0) and Windows(0, 0, 0).shrunk() is None


@pytest.mark.parametrize(
    ("env_id", "family", "words"),
    [
        ("FrozenLake-v1", "toy text", "You (@) are in row 0, column 0. Next to you: left wall, down ice"),
        ("CliffWalking-v1", "toy text", "right hole"),
        ("Taxi-v4", "toy text", "The passenger is"),
        ("Blackjack-v1", "toy text", "The dealer shows"),
        ("CartPole-v1", "classic control", "The pole leans"),
        ("MountainCar-v0", "classic control", "stands still"),
        ("Acrobot-v1", "classic control", "The free end"),
        ("MiniGrid-DoorKey-5x5-v0", "minigrid", "Mission: use the key to open the door"),
        ("LunarLander-v3", "generic", "["),
    ],
)
def test_environments_in_words(env_id: str, family: str, words: str) -> None:
    with make_env(env_id, {}) as env:
        describer = describer_for(env)
        observation, _ = env.reset(seed=0)
        seen = describer.describe(observation)
        assert words in seen.text and describer.family == family
        assert seen == describer.describe(observation)
        assert len(describer.actions) == env.action_space.n  # type: ignore[attr-defined]
        assert 0 <= describer.idle < len(describer.actions)


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "MiniGrid-DoorKey-5x5-v0"])
def test_what_a_describer_expects_happens_where_nothing_is_left_to_chance(env_id: str) -> None:
    params = {"is_slippery": False} if env_id == "FrozenLake-v1" else {}
    with make_env(env_id, params) as env:
        describer = describer_for(env)
        observation, _ = env.reset(seed=1)
        env.action_space.seed(1)
        said = 0
        for _ in range(300):
            action = int(env.action_space.sample())
            expected = describer.expects(observation, action)
            observation, _, terminated, truncated, _ = env.step(action)
            if expected is not None:
                assert are_same(expected, observation)
                said += 1
            if terminated or truncated:
                observation, _ = env.reset()
        assert said > 20


def test_pictures_of_an_environment_that_has_none_are_refused() -> None:
    with make_env("FrozenLake-v1", {}) as env, pytest.raises(UsageError, match="has no picture"):
        require_pictures(env, describer_for(env), 1)
    with make_env("ALE/Pong-v5", {}) as env:
        require_pictures(env, describer_for(env), 1)


def test_atari_is_told_in_characters_and_shown_as_a_picture() -> None:
    with make_env("ALE/Pong-v5", {}) as env:
        describer = describer_for(env)
        observation, _ = env.reset(seed=0)
        seen = describer.describe(observation)
        assert seen.picture is not None and len(seen.text.splitlines()) > 10
        assert describer.actions[:4] == ("noop", "fire", "right", "left")
        assert as_data_url(seen.picture).startswith("data:image/png;base64,iVBOR")


def test_a_small_bright_ball_is_not_lost_among_characters() -> None:
    picture = np.zeros((210, 160), np.uint8)
    picture[100:102, 80:82] = 255
    assert as_characters(picture).count("@") >= 1


def test_a_record_writes_each_text_once_and_is_read_back() -> None:
    known: set[str] = set()
    exchanges = [Exchange((Message("system", "rules"), Message("user", f"step {one}"))) for one in range(3)]
    records = [recorded(one, known) for one in exchanges]
    assert [len(one.texts) for one in records] == [2, 1, 1]
    reader = DialogueReader()
    import msgspec

    assert [reader.take(msgspec.to_builtins(one)).prompt for one in records] == [one.prompt for one in exchanges]


def test_control_characters_of_an_answer_are_kept_in_the_record_only() -> None:
    reply = read_reply(b'{"choices": [{"message": {"content": "\\u001b[2J"}}]}', "p", 0.0)
    assert not AnswerForm("tagged", ACTIONS).read(reply.text).problem.count("\x1b")
