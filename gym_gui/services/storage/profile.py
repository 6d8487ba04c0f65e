"""``storage_profiles.yaml``: how long what is kept. Read strictly: a typo is an error with the nearest name, never a
rule that silently does not hold.

YAML is read by a loader that makes nothing but mappings, lists, texts, numbers and truth values, without anchors (a few
hundred bytes of which may stand for gigabytes) and without keys that stand there twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field

from gym_gui.services.run_filter import FilterError, parse
from gym_gui.services.storage.sizes import Part
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.suggest import InputError, did_you_mean, problems_of

MOST_BYTES = 256 * 1024
PARTS: tuple[Part, ...] = ("steps", "logs", "checkpoints", "videos", "events")
"""What of a run can go while the run stays."""
SUFFIXES = {"zst": ".tar.zst", "gz": ".tar.gz", "none": ".tar"}
_LONGEST_DAYS = 36_500.0
_DEEPEST = 20
_MOST_PROFILES, _MOST_RULES, _MOST_PINNED = 50, 200, 10_000

DEFAULT_TEXT = """\
# How long MOSAIC keeps what. The file belongs into the data root under the name storage_profiles.yaml.
# `mosaic storage plan` shows what the profile in use would do, `mosaic storage apply` does it after a question.
use: default
profiles:
  default:
    automatic: false         # true: the daemon applies this profile by itself, every six hours
    cap_gb: 0                # the most that runs take together; 0: no limit
    archives: archives       # where archives go: below the data root, or an absolute path
    compression: zst         # zst, gz or none
    after_archive: trash     # trash: can be restored from there for a week; purge: gives the space back at once
    empty_trash_at_percent: 0  # empty the trash early, the oldest first, while the disk is so full; 0: never
    pinned: []               # runs that are never touched: ids, their last six characters or more, or names
    rules:                   # the first rule that fits a run decides on it; a run that none fits is kept
      - runs: state=failed,canceled,timed_out,lost
        archive_after_days: 30
      - runs: ""             # every other run
        archive_after_days: 365
        keep_days:           # parts of a run that is kept, in days after its end; what is not named is kept
          checkpoints: 90    # all but its newest and its best
          videos: 180
"""


class ProfileError(Exception):
    """The file cannot be used; the text says where, why and what to do."""


def _expression(text: str) -> str:
    try:
        parse(text)
    except FilterError as error:
        raise ValueError(str(error)) from None
    return text


_Days = Annotated[float, Field(ge=0, le=_LONGEST_DAYS, allow_inf_nan=False)]
_MODEL = ConfigDict(extra="forbid", strict=True, frozen=True)


class KeptParts(BaseModel):
    """Days after a run's end; None keeps for as long as the run."""

    model_config = _MODEL
    steps: _Days | None = None
    logs: _Days | None = None
    checkpoints: _Days | None = None
    """Of all but the newest, the best, and those that other runs began from."""
    videos: _Days | None = None
    events: _Days | None = None

    def limits(self) -> Iterator[tuple[Part, float | None]]:
        for part in PARTS:
            yield part, getattr(self, part)


class Rule(BaseModel):
    """What becomes of the runs that an expression finds. A rule that says nothing more keeps them."""

    model_config = _MODEL
    runs: Annotated[str, pydantic.AfterValidator(_expression)]
    archive_after_days: _Days | None = None
    trash_after_days: _Days | None = None
    """Without an archive. Where both are due, the run is archived."""
    keep_days: KeptParts = KeptParts()


class Profile(BaseModel):
    model_config = _MODEL
    automatic: bool = False
    cap_gb: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0
    archives: Annotated[str, Field(min_length=1, max_length=4000)] = "archives"
    compression: Literal["zst", "gz", "none"] = "zst"
    after_archive: Literal["trash", "purge"] = "trash"
    empty_trash_at_percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    pinned: Annotated[list[Annotated[str, Field(min_length=1, max_length=500)]], Field(max_length=_MOST_PINNED)] = []
    rules: Annotated[list[Rule], Field(max_length=_MOST_RULES)] = []

    def archive_folder(self, paths: MosaicPaths) -> Path:
        return paths.root / Path(self.archives).expanduser()


class _Document(BaseModel):
    model_config = _MODEL
    use: str
    profiles: Annotated[dict[str, Profile], Field(min_length=1, max_length=_MOST_PROFILES)]


def loaded(paths: MosaicPaths, name: str = "") -> tuple[str, Profile]:
    """The profile in use, or the one of that name; the default where nobody wrote a file. Raises
    :class:`ProfileError`."""
    return read_profile(profile_text(paths), name, str(paths.storage_profiles))


def profile_text(paths: MosaicPaths) -> str:
    """What stands in the file, or would. Raises :class:`ProfileError`."""
    try:
        return read_regular(paths.storage_profiles, MOST_BYTES, follow=True).decode()
    except FileNotFoundError:
        return DEFAULT_TEXT
    except OSError as error:
        raise ProfileError(f"{paths.storage_profiles} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProfileError(f"{paths.storage_profiles} is not text in UTF-8 (byte {error.start + 1})") from error


def read_profile(text: str, name: str = "", file: str = "storage_profiles.yaml") -> tuple[str, Profile]:
    """(its name, the profile). Raises :class:`ProfileError`."""
    content = _yaml(text, file)
    try:
        document = _Document.model_validate(content)
    except pydantic.ValidationError as error:
        problems = InputError(problems_of(error, _Document))
        raise ProfileError(f"{file} cannot be used:\n{problems}") from error
    chosen = name or document.use
    if chosen not in document.profiles:
        where = "" if name else " that `use` names"
        raise ProfileError(f"{file} has no profile {chosen[:60]!r}{where}{did_you_mean(chosen, document.profiles)}")
    return chosen, document.profiles[chosen]


def _yaml(text: str, file: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ProfileError(f"{file}{where}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ProfileError(f"{file} is not YAML: {str(error).splitlines()[0][:200]}") from error


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # its package has no types
    """No aliases, no key twice, no deeper than a profile is."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        problem = "anchors and aliases are not read here: write it out" if self.check_event(yaml.AliasEvent) else ""
        if problem or self._depth > _DEEPEST:
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, problem or "it nests too deeply", mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.value in seen:
                problem = f"{key_node.value[:60]!r} stands there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(str(key_node.value))
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found
