"""Which metrics stand where: by the part before the slash, the ones people look at first in front."""

from __future__ import annotations

from collections.abc import Iterable

from mosaic_protocol.headline import HEADLINE_TAGS, LENGTH_TAG, RETURN_TAG, SPS_TAG

_FIRST_GROUPS = ("charts", "losses")
_TITLES = {RETURN_TAG: "Episodic return", LENGTH_TAG: "Episodic length", SPS_TAG: "Steps per second"}
OTHER = "other"


def group_of(tag: str) -> str:
    return tag.partition("/")[0] if "/" in tag else OTHER


def title_of(tag: str) -> str:
    """``losses/value_loss`` is "Value loss" in the group of losses."""
    if tag in _TITLES:
        return _TITLES[tag]
    name = tag.partition("/")[2] or tag
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:] if words.islower() else words


def grouped(tags: Iterable[str], wanted: str = "") -> dict[str, list[str]]:
    """Tags by group, both in the order in which they are shown; only those with all words of ``wanted`` in them."""
    words = wanted.lower().split()
    groups: dict[str, list[str]] = {}
    for tag in sorted(set(tags), key=_place):
        if all(word in f"{tag} {title_of(tag)}".lower() for word in words):
            groups.setdefault(group_of(tag), []).append(tag)
    return groups


def _place(tag: str) -> tuple[int, str, int, str]:
    group = group_of(tag)
    front = _FIRST_GROUPS.index(group) if group in _FIRST_GROUPS else len(_FIRST_GROUPS) + (group == OTHER)
    headline = HEADLINE_TAGS.index(tag) if tag in HEADLINE_TAGS else len(HEADLINE_TAGS)
    return front, group, headline, tag
