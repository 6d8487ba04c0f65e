"""What the harness knows of a script before it runs: its loop, what the loop carries, what can be done with it."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from mosaic_worker.harness import surroundings
from mosaic_worker.harness.capabilities import of_source
from mosaic_worker.harness.carried import LoopNames
from mosaic_worker.harness.instrument import ENTER_NAME, LOOP_NAME, TURN_NAME, compiled
from mosaic_worker.harness.namespaces import variables_of
from mosaic_worker.harness.source import ScriptSource


def source(tmp_path: Path, text: str) -> ScriptSource:
    path = tmp_path / "script.py"
    path.write_text(dedent(text))
    return ScriptSource.read(path)


def names(tmp_path: Path, text: str) -> LoopNames:
    read = source(tmp_path, text)
    assert read.loop is not None
    return LoopNames.of(read.loop, read.tree)


# ---- the loop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "function"),
    [
        ("for i in range(3):\n    envs.step(i)\n", 1, ""),
        ("if __name__ == '__main__':\n    x = 1\n    for i in range(3):\n        loss.backward()\n", 3, ""),
        ("for i in range(9):\n    envs.step(i)\nfor i in range(3):\n    loss.backward()\n", 3, ""),
        ("for i in range(9):\n    loss.backward()\nfor i in range(3):\n    envs.step(i)\n", 1, ""),
        ("def main():\n    while True:\n        loss.backward()\nmain()\n", 2, "main"),
        ("def learn():\n    loss.backward()\nfor epoch in epochs:\n    learn()\n", 3, ""),
        ("for i in range(3):\n    for j in range(3):\n        loss.backward()\n", 1, ""),
        ("with device:\n    try:\n        while go:\n            envs.step(1)\n    finally:\n        pass\n", 3, ""),
    ],
)
def test_the_training_loop_is_found(tmp_path: Path, text: str, line: int, function: str) -> None:
    loop = source(tmp_path, text).loop
    assert loop is not None
    assert (loop.node.lineno, loop.function) == (line, function)


@pytest.mark.parametrize("text", ["x = 1\n", "for i in range(3):\n    print(i)\n", "model.learn()\n"])
def test_a_script_may_have_none(tmp_path: Path, text: str) -> None:
    assert source(tmp_path, text).loop is None


def test_the_loop_is_wrapped_and_no_line_moves(tmp_path: Path) -> None:
    read = source(tmp_path, "seen = []\nfor i in range(3):\n    env.step(i)\n    seen.append(i)\n    1 / i\n")

    def backwards(items: range) -> list[int]:
        return list(items)[::-1]

    class Env:
        def step(self, action: int) -> None:
            return None

    space = {LOOP_NAME: backwards, "env": Env()}
    with pytest.raises(ZeroDivisionError) as failed:
        exec(compiled(read), space)  # noqa: S102
    assert space["seen"] == [2, 1, 0]
    assert failed.traceback[-1].lineno + 1 == 5
    assert read.path.read_text().startswith("seen = []\nfor i in range(3):\n")


def test_what_is_restored_is_there_before_a_condition_is_looked_at(tmp_path: Path) -> None:
    read = source(tmp_path, "n = 0\nwhile n < 5:\n    n += 1\n    env.step(n)\n")
    stepped: list[int] = []

    class Env:
        def step(self, action: int) -> None:
            stepped.append(action)

    space: dict[str, object] = {"env": Env(), TURN_NAME: lambda condition: condition}

    def enter() -> bool:
        if not stepped:
            space["n"] = 3
        return True

    space[ENTER_NAME] = enter
    exec(compiled(read), space)  # noqa: S102
    assert stepped == [4, 5]


# ---- what it carries ---------------------------------------------------------------------------------------------


def test_what_a_turn_reads_before_it_sets_it_is_carried(tmp_path: Path) -> None:
    found = names(
        tmp_path,
        """
        obs, _ = envs.reset(seed=1)
        total = torch.Tensor(envs.reset())
        for turn in range(10):
            count += 1
            action = policy(obs)
            obs = envs.step(action)
            if count > 3:
                late = 1
            print(late, turn)
            with context as handle:
                inside = handle
            print(inside)
        """,
    )
    assert {"obs", "count", "late", "policy", "envs"} <= found.carried
    assert not {"action", "turn", "handle", "inside"} & found.carried
    assert found.fresh == {"obs", "_", "total"}
    assert {"obs", "count", "late"} <= found.assigned
    assert "policy" not in found.assigned


def test_a_rollout_that_is_filled_row_by_row_is_not_carried_but_a_ring_buffer_is(tmp_path: Path) -> None:
    found = names(
        tmp_path,
        """
        for update in range(10):
            for step in range(5):
                rollout[step] = envs.step(1)
                ring[place] = 1
                place += 1
                table[state] += 1
            loss = rollout.sum() + ring.sum()
            loss.backward()
        """,
    )
    assert {"ring", "place", "table", "state"} <= found.carried
    assert "rollout" not in found.carried


def test_what_functions_of_the_script_read_counts_as_carried(tmp_path: Path) -> None:
    found = names(
        tmp_path,
        """
        def learn(batch):
            global seen
            own = batch
            seen = seen + own * weight
        for turn in range(3):
            envs.step(turn)
            learn(turn)
        """,
    )
    assert {"seen", "weight"} <= found.carried
    assert not {"own", "batch"} & found.carried
    assert "seen" in found.assigned


METHODS = """
class Trainer:
    def train(self, batch):
        return self._update(batch)
    def _update(self, batch):
        for one in batch:
            one.backward()

def judge(env):
    for _ in range(3):
        env.step(0)

def train(config):
    for t in range(2):
        trainer.prepare(t)
    for t in range(9):
        trainer.train(t)
        judge(env)
"""


def test_a_loop_that_trains_through_the_methods_of_a_class_is_found(tmp_path: Path) -> None:
    loop = source(tmp_path, METHODS).loop
    assert loop is not None
    assert (loop.function, loop.node.lineno) == ("train", 16)


@pytest.mark.parametrize(
    ("calls", "once"),
    [
        ("train(1)\n", True),
        ("if __name__ == '__main__':\n    train(1)\n", True),
        ("", False),
        ("train(1)\ntrain(2)\n", False),
        ("def main():\n    train(1)\nmain()\n", False),
    ],
)
def test_a_loop_in_a_function_is_entered_once_where_the_module_calls_it_once(
    tmp_path: Path, calls: str, once: bool
) -> None:
    loop = source(tmp_path, METHODS + calls).loop
    assert loop is not None
    assert loop.once is once


def test_what_a_function_sees_can_be_put_back_into_it() -> None:
    module: dict[str, Any] = {"shared": 1}
    seen: list[Any] = []

    def function() -> tuple[int, str, Any]:
        count, text = 1, "old"
        closed = [0]

        def inner() -> Any:
            return closed

        found = variables_of(sys._getframe(), module)
        seen.append((found["count"], found["shared"], "text" in found, len(found) == len(list(found))))
        found["count"], found["text"], found["closed"] = 5, "new", [9]
        found["shared"] = 2
        return count, text, inner()

    assert function() == (5, "new", [9])
    assert seen == [(1, 1, True, True)]
    assert module == {"shared": 2}


# ---- what can be done --------------------------------------------------------------------------------------------

TORCH = "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n"
LOOP = "for i in range(3):\n    loss.backward()\n"


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (TORCH + LOOP, "metrics pause stop checkpoint warm_start resume"),
        ("import torch\n" + LOOP, "pause stop checkpoint warm_start resume"),
        (
            "import torch\ndef main():\n    for i in range(3):\n        loss.backward()\n",
            "pause stop checkpoint warm_start",
        ),
        (
            "import torch\ndef main():\n    for i in range(3):\n        loss.backward()\nmain()\n",
            "pause stop checkpoint warm_start resume",
        ),
        (TORCH + "import jax\nfor i in range(3):\n    envs.step(i)\n", "metrics pause stop"),
        ("import tensorboardX\n", "metrics pause stop"),
        ("print(1)\n", "pause stop"),
        (
            "from mosaic_worker.training import session\n",
            "metrics pause stop checkpoint warm_start resume",
        ),
    ],
)
def test_capabilities_are_read_from_the_source_with_a_reason_each(tmp_path: Path, text: str, offered: str) -> None:
    found = of_source(source(tmp_path, text))
    assert [name for name, one in found.items() if one.offered] == offered.split()
    assert list(found) == ["metrics", "pause", "stop", "checkpoint", "warm_start", "resume"]
    assert all(one.why for one in found.values())


@pytest.mark.parametrize(
    ("text", "spaces"),
    [
        ("assert isinstance(envs.single_action_space, gym.spaces.Discrete), 'only'\n", ("discrete",)),
        ("assert isinstance(env.action_space, gym.spaces.Box)\n", ("continuous",)),
        ("assert isinstance(env.observation_space, gym.spaces.Box)\n", ()),
    ],
)
def test_the_actions_a_script_insists_on_are_known(tmp_path: Path, text: str, spaces: tuple[str, ...]) -> None:
    assert source(tmp_path, text).action_spaces == spaces


def test_a_door_to_wandb_is_where_metrics_come_from(tmp_path: Path) -> None:
    script = source(tmp_path, "import wandb\n")
    assert not of_source(script)["metrics"].offered
    assert of_source(script, ("gym", "wandb"))["metrics"].offered


def test_a_jax_of_the_scripts_time_keeps_its_tree_map_and_a_later_one_gets_it_back() -> None:
    old = SimpleNamespace(tree_map="its own")
    later = SimpleNamespace(tree=SimpleNamespace(map="moved"))
    surroundings.provide_tree_map(old)
    surroundings.provide_tree_map(later)
    assert (old.tree_map, later.tree_map) == ("its own", "moved")


def test_games_for_two_find_the_roms_of_ale_py_unless_they_have_their_own(tmp_path: Path) -> None:
    (tmp_path / "with" / "roms").mkdir(parents=True)
    without = SimpleNamespace(__file__=str(tmp_path / "without" / "__init__.py"))
    having = SimpleNamespace(__file__=str(tmp_path / "with" / "__init__.py"))
    surroundings.lend_roms(without)
    surroundings.lend_roms(having)
    assert (Path(without.__file__).parent / "roms" / "pong.bin").is_file()
    assert having.__file__ == str(tmp_path / "with" / "__init__.py")
