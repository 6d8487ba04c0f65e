"""Prompt templates: versioned files that a person can edit. A wrong one is refused with the line that is wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from mosaic_protocol.plain_text import clean_line
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError

OWN_TEMPLATES = Path(__file__).parent / "templates"
ENDING = ".prompt"
FIRST_LINE = "mosaic-prompt 1"
FIELDS: dict[str, tuple[str, ...]] = {
    "system": ("env_id", "rules", "actions", "format", "examples", "lessons"),
    "observation": ("env_id", "step", "observation", "hint", "actions"),
    "repair": ("problem", "format", "actions"),
    "reflect": ("env_id", "return", "length", "story"),
}
"""The parts of a template, and what each can be given."""
_NEEDED = {"system": ("actions", "format"), "observation": ("observation",)}
_LARGEST = 256 * 1024
_MARK = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")


class TemplateError(UsageError):
    """``excerpt``: the line that is wrong, for those who read the message."""

    def __init__(self, path: Path, number: int, line: str, why: str) -> None:
        super().__init__(f"{path}, line {number}: {why}")
        self.excerpt = (f"{number:4} {clean_line(line)[:160]}",)


class Template:
    """One file, read and checked."""

    def __init__(self, text: str, path: Path) -> None:
        """Raises TemplateError."""
        self.path, self.text = path, text
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        self._parts = _parts(text, path)

    def fill(self, part: str, values: Mapping[str, object]) -> str:
        """A part with what its fields stand for. What is filled in is never looked at for fields itself."""

        def put(mark: re.Match[str]) -> str:
            if mark[1] is None:
                return mark[0][0]
            return str(values.get(mark[1], ""))

        return _MARK.sub(put, self._parts[part])


def find_template(named: str) -> Template:
    """One that comes with the worker, by its name, or somebody's own file. Raises UsageError."""
    own = {file.stem: file for file in sorted(OWN_TEMPLATES.glob(f"*{ENDING}"))}
    path = own.get(named) or Path(named).expanduser()
    try:
        text = read_regular(path, _LARGEST, follow=True).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text"
        hint = did_you_mean(named, own) if "/" not in named else ""
        raise UsageError(f"--prompt: {path} cannot be read: {why}{hint}") from None
    return Template(text, path)


def _parts(text: str, path: Path) -> dict[str, str]:
    lines = text.splitlines()
    if not lines or lines[0].strip() != FIRST_LINE:
        # Whatever else the file is, a key perhaps, does not go into a log.
        is_template = bool(lines) and lines[0].startswith(FIRST_LINE.split(maxsplit=1)[0])
        shown = lines[0] if is_template else "(not shown: this file is no template)"
        raise TemplateError(path, 1, shown, f"a template begins with the line {FIRST_LINE!r}")
    parts: dict[str, list[str]] = {}
    begun = {"": 1}
    name = ""
    for number, line in enumerate(lines[1:], 2):
        if line.startswith("#"):
            continue
        if header := re.fullmatch(r"\[([^\[\]]*)\]\s*", line):
            name = header[1]
            if name not in FIELDS:
                raise TemplateError(path, number, line, f"there is no part [{name}]{did_you_mean(name, FIELDS)}")
            if name in parts:
                raise TemplateError(path, number, line, f"the part [{name}] is there already")
            parts[name], begun[name] = [], number
        elif name:
            _check_fields(path, number, line, name)
            parts[name].append(line)
        elif line.strip():
            raise TemplateError(path, number, line, "what stands before the first [part] would be left out")
    return _complete(parts, begun, path, len(lines))


def _complete(parts: Mapping[str, list[str]], begun: Mapping[str, int], path: Path, last: int) -> dict[str, str]:
    joined = {one: "\n".join(content).strip() for one, content in parts.items()}
    for part in FIELDS:
        if not joined.get(part):
            raise TemplateError(path, begun.get(part, last), f"[{part}]", f"the part [{part}] is missing or empty")
        for needed in _NEEDED.get(part, ()):
            if f"{{{needed}}}" not in joined[part]:
                raise TemplateError(path, begun[part], f"[{part}]", f"the part [{part}] does not use {{{needed}}}")
    return joined


def _check_fields(path: Path, number: int, line: str, part: str) -> None:
    for mark in _MARK.finditer(line):
        if mark[0] in ("{", "}"):
            raise TemplateError(path, number, line, f"a brace stands alone: write {mark[0] * 2} for {mark[0]}")
        if mark[1] is not None and mark[1] not in FIELDS[part]:
            raise TemplateError(
                path, number, line, f"[{part}] has no field {{{mark[1]}}}{did_you_mean(mark[1], FIELDS[part])}"
            )
