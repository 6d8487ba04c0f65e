"""The colours of values, from low to high, and what is written on them. No Qt."""

from __future__ import annotations

Rgb = tuple[int, int, int]

_RAMPS: dict[str, tuple[Rgb, ...]] = {
    "dark": ((0x1E, 0x2B, 0x40), (0x1F, 0x5F, 0xAE), (0x8E, 0xC7, 0xFF)),
    "light": ((0xE9, 0xF1, 0xFC), (0x84, 0xB4, 0xF2), (0x15, 0x4C, 0x97)),
}
"""More of the colour of agents, the higher the value: away from the ground of either look."""
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def shade(share: float, look: str) -> Rgb:
    """The colour of a value that lies at this share between the lowest and the highest."""
    ramp = _RAMPS.get(look, _RAMPS["dark"])
    place = min(1.0, max(0.0, share)) * (len(ramp) - 1)
    before = min(int(place), len(ramp) - 2)
    part = place - before
    low, high = ramp[before], ramp[before + 1]
    red, green, blue = (round(one + (other - one) * part) for one, other in zip(low, high, strict=True))
    return red, green, blue


def ink(ground: Rgb) -> Rgb:
    """Black or white, whichever is read better; it is never less than 4.5:1."""
    return max((WHITE, BLACK), key=lambda one: contrast(one, ground))


def contrast(one: Rgb, other: Rgb) -> float:
    """The ratio of WCAG 2: 1 for equal colours, 21 for black on white."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Rgb) -> float:
    def linear(channel: int) -> float:
        part = channel / 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
