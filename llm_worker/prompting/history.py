"""What of the episode so far goes into a prompt: windows for words, pictures and reasoning, each of its own length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_worker.describing.describer import Seen
from llm_worker.describing.pictures import as_data_url

Message = dict[str, Any]


@dataclass(frozen=True)
class Windows:
    """How many of the last steps are told in words, shown as pictures, and with what the model thought."""

    text: int = 4
    pictures: int = 0
    reasoning: int = 0

    def shrunk(self) -> Windows | None:
        """Half as much; None where there is nothing left to leave out."""
        if not (self.text or self.pictures or self.reasoning):
            return None
        return Windows(self.text // 2, self.pictures // 2, self.reasoning // 2)


@dataclass
class Memory:
    """One step that was made."""

    prompt: str
    answer: str
    reasoning: str
    seen: Any = None
    """The observation, for its picture."""


def turns(memories: Sequence[Memory], windows: Windows, pictures: Sequence[Seen]) -> list[Message]:
    """The last steps as turns of a conversation, the oldest first. ``pictures`` are those of the last memories."""
    told: list[Message] = []
    kept = memories[-windows.text :] if windows.text else ()
    for number, one in enumerate(kept):
        age = len(kept) - number
        seen = pictures[-age] if age <= min(windows.pictures, len(pictures)) else None
        told.append(user_message(one.prompt, seen))
        thought = f"{one.reasoning}\n" if one.reasoning and age <= windows.reasoning else ""
        told.append({"role": "assistant", "content": f"{thought}{one.answer}"})
    return told


def user_message(text: str, seen: Seen | None) -> Message:
    """With its picture, where there is one to be shown."""
    if seen is None or seen.picture is None:
        return {"role": "user", "content": text}
    picture = {"type": "image_url", "image_url": {"url": as_data_url(seen.picture)}}
    return {"role": "user", "content": [{"type": "text", "text": text}, picture]}
