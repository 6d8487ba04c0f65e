"""Atari games as the learning literature presents them, many side by side, with a state that can be kept.

The emulator is driven directly. `ale_py`'s own vector environment takes the same processor time a step, but it
restarts the whole game when a life is lost (`episodic_life`), so that an agent would never see a second life,
and its emulators' states are out of reach, so that a stopped run could not go on in the same game.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_worker.recording.game_camera import Camera

if TYPE_CHECKING:
    from ale_py import ALEInterface

SIDE = 84
STACK = 4
FRAME_SKIP = 4
MOST_NO_OPS = 30
MOST_FRAMES = 108_000  # half an hour of play
STICKY = 0.25

Frame = NDArray[np.uint8]


class UnknownGameError(LookupError):
    """A name that is no game's; the message is one sentence."""


class GameName(NamedTuple):
    """What the name of an environment means."""

    rom: str
    sticky: float
    """How often the emulator repeats the last action instead of taking the new one."""


SPELLINGS = (
    (re.compile(r"ALE/(\w+)-v5"), "ALE/{}-v5", STICKY),
    (re.compile(r"(\w+)NoFrameskip-v4"), "{}NoFrameskip-v4", 0.0),
    (re.compile(r"(\w+)-v5"), "{}-v5", 0.0),
)
"""Gymnasium's name since version 5, with sticky actions; the name of the literature; EnvPool's."""


def is_atari_name(env_id: str) -> bool:
    """Whether a name is spelled as only Atari games are; which game it is may still be unknown."""
    return any(pattern.fullmatch(env_id) for pattern, _, _ in SPELLINGS[:2])


def parse_name(env_id: str) -> GameName:
    """The game of `ALE/Pong-v5`, `PongNoFrameskip-v4` or `Pong-v5`. Raises :class:`UnknownGameError`."""
    games = game_names()
    for pattern, _, sticky in SPELLINGS:
        match = pattern.fullmatch(env_id)
        if match and match[1] in games:
            return GameName(games[match[1]], sticky)
    raise UnknownGameError(unknown_game(env_id, games))


def unknown_game(env_id: str, games: Iterable[str]) -> str:
    """What to say about a name that is none of these games'."""
    from mosaic_protocol.suggest import nearest

    registered = gym.registry.get(env_id)
    if registered is not None and not str(registered.entry_point).startswith("ale_py"):
        return f"{env_id} is none: try an algorithm for Gymnasium's environments, such as ppo"
    template = next((template for pattern, template, _ in SPELLINGS if pattern.fullmatch(env_id)), "{}NoFrameskip-v4")
    near = nearest(env_id, [template.format(game) for game in games])
    advice = f"did you mean {near!r}?" if near else "names are spelled like PongNoFrameskip-v4, Pong-v5 or ALE/Pong-v5"
    return f"there is no Atari game {env_id!r}; {advice}"


@cache
def game_names() -> dict[str, str]:
    """Game as names spell it (MsPacman) → its ROM (ms_pacman). ImportError without the `atari` extra."""
    from ale_py import ALEInterface, roms

    # The emulator ends the whole process when it is given one that it does not support, such as one for two players.
    paths = {rom: roms.get_rom_path(rom) for rom in roms.get_all_rom_ids()}
    playable = [rom for rom, path in paths.items() if path is not None and ALEInterface.isSupportedROM(path)]
    return {rom.title().replace("_", ""): rom for rom in playable}


class Outcome(NamedTuple):
    """What one step of a game brought."""

    reward: float
    terminated: bool
    truncated: bool
    game_over: bool


class AtariGame:
    """One game: up to 30 no-ops at its start, every action for 4 frames, fire pressed where a life needs it,
    84x84 grey pictures (the brighter of the last two frames) in stacks of 4.

    With `episodic_life` a lost life ends the episode and the game goes on in the next; `game_over` says when the game
    itself ended. Rewards are those of the game. `score` and `frames` are of the running game.
    """

    def __init__(self, env_id: str, *, episodic_life: bool, sticky: float | None = None) -> None:
        name = parse_name(env_id)
        self.episodic_life = episodic_life
        self._sticky = name.sticky if sticky is None else sticky
        self._load(name.rom)
        self.action_count = len(self._actions)
        self._last_action = 0
        self.random = np.random.default_rng(0)
        self.stack = np.zeros((STACK, SIDE, SIDE), dtype=np.uint8)
        self.score, self.frames, self.lives = 0.0, 0, 0
        self._over = True

    def _load(self, rom: str) -> None:
        from ale_py import ALEInterface, LoggerMode, roms

        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale: ALEInterface = ALEInterface()
        self._ale.setInt("random_seed", 0)
        self._ale.setFloat("repeat_action_probability", 0.0)  # ours, since the emulator takes no new seed
        self._ale.setInt("max_num_frames_per_episode", MOST_FRAMES)
        path = roms.get_rom_path(rom)
        assert path is not None, "only games with a ROM have a name"
        self._ale.loadROM(path)
        self._actions = self._ale.getMinimalActionSet()
        self._must_fire = len(self._actions) >= 3 and self._actions[1].name == "FIRE"
        height, width = self._ale.getScreenDims()
        self._screens = np.zeros((2, height, width), dtype=np.uint8)

    def seed(self, seed: int) -> None:
        """Draw random numbers from this seed on; a reset must follow, which begins a new game."""
        self.random = np.random.default_rng(seed)
        self.abandon()

    def abandon(self) -> None:
        """Let the next reset begin a new game."""
        self._over = True

    def reset(self) -> Frame:
        """Go on with the next episode: the next life of the game, or a new game. Returns the stack itself."""
        if not self._over:
            self._advance(0)
        if self._over:
            self._begin_game()
        self._press_start()
        self.lives = self._ale.lives()
        self.stack[:] = self._picture()
        return self.stack

    def step(self, action: int) -> Outcome:
        """Take one action; `stack` then holds what is seen. A reset must follow an end."""
        reward = self._advance(action)
        self.stack[:-1] = self.stack[1:]
        self.stack[-1] = self._picture()
        lives, before = self._ale.lives(), self.lives
        self.lives = lives
        truncated = self._over and self._ale.game_truncated()
        lost = self.episodic_life and 0 < lives < before
        terminated = (self._over and not truncated) or lost
        if not self._over and not self.episodic_life and 0 < lives < before:
            self.reset()
        return Outcome(reward, terminated, truncated, self._over)

    def _begin_game(self) -> None:
        self._ale.reset_game()
        self.score, self.frames, self._over = 0.0, 0, False
        self._last_action = 0
        for _ in range(int(self.random.integers(1, MOST_NO_OPS + 1))):
            self._emulate(0)
            if self._over:
                self._ale.reset_game()
                self._over = False
        self._ale.getScreenGrayscale(self._screens[1])
        self._screens[0] = self._screens[1]

    def _press_start(self) -> None:
        """Fire, and then the third action, as many games wait for it before a ball or a ship appears."""
        for action in (1, 2) if self._must_fire else ():
            self._advance(action)
            if self._over:
                self._begin_game()

    def _advance(self, action: int) -> float:
        """Hold an action for 4 frames, fewer at the end of the game."""
        reward = 0.0
        for frame in range(FRAME_SKIP):
            reward += self._emulate(action)
            if frame >= FRAME_SKIP - 2 or self._over:
                self._screens[0] = self._screens[1]
                self._ale.getScreenGrayscale(self._screens[1])
            if self._over:
                break
        return reward

    def _emulate(self, action: int) -> float:
        if self._sticky and self.random.random() < self._sticky:
            action = self._last_action
        self._last_action = action
        reward = float(self._ale.act(self._actions[action]))
        self.score += reward
        self.frames += 1
        self._over = self._ale.game_over()
        return reward

    def _picture(self) -> Frame:
        import cv2

        brighter = np.maximum(self._screens[0], self._screens[1])
        return np.asarray(cv2.resize(brighter, (SIDE, SIDE), interpolation=cv2.INTER_AREA), dtype=np.uint8)

    def colours(self) -> Frame:
        """The screen in colour, as a person would see it."""
        return np.asarray(self._ale.getScreenRGB(), dtype=np.uint8)

    KEPT = ("random", "stack", "score", "frames", "lives", "_over", "_screens", "_last_action")

    @property
    def snapshot(self) -> dict[str, Any]:
        """Everything that the rest of the game depends on, in plain values."""
        emulator = self._ale.cloneState(include_rng=True).serialize()
        kept = {name: getattr(self, name) for name in self.KEPT}
        return kept | {"emulator": np.frombuffer(emulator, dtype=np.uint8)}

    @snapshot.setter
    def snapshot(self, kept: dict[str, Any]) -> None:
        from ale_py import ALEState

        from mosaic_worker.state.plain_state import assign

        for name in self.KEPT:
            assign(self, name, kept[name])
        self._ale.restoreState(ALEState(kept["emulator"].tobytes()))


class Step(NamedTuple):
    """What one step of all games brought; arrays have one entry for each game."""

    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    cut_off: list[tuple[int, Frame]]
    """(game, last observation) of those that the time limit ended."""
    finished: list[tuple[int, float, int]]
    """(game, score, frames) of those that are over."""
    resets: NDArray[np.bool_]
    """Where the step only put a new episode in place, and its action was ignored; never here, see EnvPool's."""


class AtariGames:
    """Games side by side in one thread. One that ends begins its next episode within the same step."""

    def __init__(
        self, env_id: str, count: int, seed: int, *, sticky: float | None = None, record: bool = False
    ) -> None:
        self.games = [AtariGame(env_id, episodic_life=True, sticky=sticky) for _ in range(count)]
        self.camera = Camera(self.games[0].colours) if record else None
        self.picture = self.games[0].colours
        """What the first game shows."""
        self.count = count
        self.single_action_space = gym.spaces.Discrete(self.games[0].action_count)
        self.single_observation_space = gym.spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
        self.observations = np.zeros((count, STACK, SIDE, SIDE), dtype=np.uint8)
        for number, game in enumerate(self.games):
            game.stack = self.observations[number]
            game.seed(seed + number)
            game.reset()

    def step(self, actions: NDArray[Any]) -> Step:
        """Take one action in each game; `observations` then holds what comes next."""
        rewards = np.zeros(self.count, dtype=np.float32)
        terminated, truncated = np.zeros((2, self.count), dtype=bool)
        found = Step(rewards, terminated, truncated, [], [], np.zeros(self.count, dtype=bool))
        for number, game in enumerate(self.games):
            rewards[number], terminated[number], truncated[number], over = game.step(int(actions[number]))
            if over:
                found.finished.append((number, game.score, game.frames))
            if truncated[number]:
                found.cut_off.append((number, game.stack.copy()))
            if terminated[number] or truncated[number]:
                game.reset()
        if self.camera is not None:
            self.camera.follow(game_over=any(number == 0 for number, _, _ in found.finished))
        return found

    def close(self) -> None:
        if self.camera is not None:
            self.camera.close()

    @property
    def snapshot(self) -> list[dict[str, Any]]:
        return [game.snapshot for game in self.games]

    @snapshot.setter
    def snapshot(self, kept: list[dict[str, Any]]) -> None:
        if len(kept) != len(self.games):
            raise ValueError(f"the checkpoint has {len(kept)} games, this run has {len(self.games)}")
        for game, state in zip(self.games, kept, strict=True):
            game.snapshot = state


class AtariEvaluation(gym.Env[Frame, np.int64]):
    """One whole game an episode with its true score; what is seen is as in training."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, env_id: str, render_mode: str | None = None, sticky: float | None = None) -> None:
        self.render_mode = render_mode
        self._game = AtariGame(env_id, episodic_life=False, sticky=sticky)
        self.action_space = gym.spaces.Discrete(self._game.action_count)
        self.observation_space = gym.spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
        self._seeded = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self._game.seed(int(self.np_random.integers(2**31)))
            self._seeded = True
        self._game.abandon()
        return self._game.reset().copy(), {}

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        before = self._game.score
        found = self._game.step(int(action))
        # From the score, because points can also fall while fire is pressed for the next life.
        reward = self._game.score - before
        return self._game.stack.copy(), reward, found.terminated, found.truncated, {"lives": self._game.lives}

    def render(self) -> Any:
        return self._game.colours()


INSTALL = "python -m cleanrl_worker.tools.install_extras --set atari"


def make_games(
    algo: str, env_id: str, count: int, seed: int, *, sticky: float | None = None, record: bool = False
) -> AtariGames:
    """The games for a script, or UsageError with the sentence that says why there are none."""
    from mosaic_worker.errors import UsageError

    try:
        import cv2  # noqa: F401 - needed with the first picture

        return AtariGames(env_id, count, seed, sticky=sticky, record=record)
    except ImportError as error:
        raise UsageError(f"{algo} needs the atari extra ({error}). Install it with: {INSTALL}") from error
    except UnknownGameError as error:
        raise UsageError(f"{algo} plays Atari games, and {error}") from error
