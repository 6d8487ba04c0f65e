"""Charts: round numbers on axes, gaps that stay gaps, texts that stay texts, and one description for SVG and PNG."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from gym_gui.services.charts import files, png, scales, svg
from gym_gui.services.charts.drawing import LIGHT, Dot, cut, text_width
from gym_gui.services.charts.panels import DotPanel, LinePanel, Row, Series, Sheet, arranged, drawn, thinned, wrapped
from gym_gui.services.charts.scales import Unit

HOSTILE = '</title><script>alert("1")</script>&\x1b[31m\x00\ud800\u202e'
SVG = "{http://www.w3.org/2000/svg}"


def line(label: str = "A", values: list[float] | None = None) -> Series:
    y = np.array(values or [1.0, 2.0, 4.0])
    return Series(label, np.arange(float(len(y))), y, y - 0.5, y + 0.5, [(np.arange(float(len(y))), y)])


def sheet(*, label: str = "A") -> Sheet:
    rows = [Row(label, 2.0, 1.0, 3.0, [1.0, 2.5], [label, label])]
    return Sheet(
        [LinePanel(label, [line(label)], "steps", label), DotPanel(label, rows, "score")], [label], label, [label]
    )


@pytest.mark.parametrize(
    ("ends", "most", "unit", "expected"),
    [
        ((0, 30_000), 6, Unit.PLAIN, ["0", "5k", "10k", "15k", "20k", "25k", "30k"]),
        ((-500, -80), 5, Unit.PLAIN, ["−500", "−400", "−300", "−200", "−100"]),
        ((0, 1), 5, Unit.PLAIN, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ((0, 3_600_000), 4, Unit.PLAIN, ["0", "1M", "2M", "3M"]),
        ((0, 1800), 6, Unit.SECONDS, ["0", "5 min", "10 min", "15 min", "20 min", "25 min", "30 min"]),
        ((0, 3), 3, Unit.SECONDS, ["0", "1 s", "2 s", "3 s"]),
    ],
)
def test_axes_have_round_numbers(ends: tuple[float, float], most: int, unit: Unit, expected: list[str]) -> None:
    assert scales.texts(scales.ticks(*ends, most, unit), unit) == expected


def test_many_dots_at_one_place_are_seen_each() -> None:
    """Returns of 0 or 1 over a hundred seeds: how many there are of each is the result."""
    rows = [Row("A", 1.0, 0.9, 1.0, [0.0] * 24 + [1.0] * 76)]
    drawing = drawn(DotPanel("", rows, "return"), 1060)
    dots = [one for one in drawing.shapes if isinstance(one, Dot)]
    places = {(round(one.x, 1), round(one.y, 1)) for one in dots}
    assert len(places) == len(dots) == 100
    middle = (min(one.x for one in dots) + max(one.x for one in dots)) / 2
    assert sum(one.x < middle for one in dots) == 24
    assert all(0 < one.x < drawing.width for one in dots)


@pytest.mark.parametrize("ends", [(5.0, 5.0), (0.0, 0.0), (-1e308, 1e308), (1e-300, 2e-300)])
def test_odd_ranges_can_be_drawn(ends: tuple[float, float]) -> None:
    low, high = scales.padded(*ends)
    assert low < high and len(scales.ticks(low, high, 5)) < 20
    ElementTree.fromstring(svg.document(drawn(LinePanel("odd", [line(values=list(ends))], "x"), 400, 300)))


def test_a_text_is_text_in_every_picture() -> None:
    document = ElementTree.fromstring(svg.document(arranged(sheet(label=HOSTILE))))
    assert {element.tag.removeprefix(SVG) for element in document.iter()} == {
        "svg", "title", "rect", "path", "text", "circle",
    }  # fmt: skip
    assert any("<script>" in (element.text or "") for element in document.iter(f"{SVG}text"))
    assert "<script" not in svg.fragment(arranged(sheet(label=HOSTILE)))
    assert png.document(arranged(sheet(label=HOSTILE)))


def test_a_point_that_is_no_number_lifts_the_pen() -> None:
    panel = LinePanel("gap", [line(values=[1.0, 2.0, float("nan"), 2.0, float("inf"), 1.0, 1.0])], "x")
    text = svg.document(drawn(panel, 400, 300))
    assert "nan" not in text and "inf" not in text
    paths = [one.attrib["d"] for one in ElementTree.fromstring(text).iter(f"{SVG}path")]
    assert any(path.count("M") == 3 for path in paths)
    assert png.document(drawn(panel, 400, 300))


def test_a_line_of_one_point_is_a_dot() -> None:
    """Of a run that was judged once; a line from there to nowhere is nothing in every picture."""
    for values, dots in (([3.0], 1), ([3.0, 4.0], 0), ([float("nan")], 0)):
        page = svg.document(drawn(LinePanel("few", [line(values=values)], "x"), 400, 300))
        assert page.count("<circle") == dots


def test_nothing_to_draw_is_said() -> None:
    empty = Series("A", np.array([]), np.array([]))
    assert "no curve: it failed" in svg.document(
        drawn(LinePanel("t", [empty], "x", empty="no curve: it failed"), 400, 300)
    )


def test_of_many_points_the_extremes_are_drawn() -> None:
    y = np.zeros(100_000)
    y[[12_345, 67_890]] = [9.0, -9.0]
    x, kept = thinned(np.arange(100_000.0), y)
    assert len(x) <= 2402 and kept.max() == 9.0 and kept.min() == -9.0 and (np.diff(x) > 0).all()


def test_png_and_svg_show_the_same() -> None:
    from PIL import Image

    drawing = arranged(sheet())
    picture = Image.open(io.BytesIO(png.document(drawing)))
    assert picture.size == (round(drawing.width * png.SCALE), round(drawing.height * png.SCALE))
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in picture.convert("RGB").getcolors(1_000_000) or []}
    assert {LIGHT["c0"], LIGHT["paper"], LIGHT["grid"]} <= colours


def test_without_pillow_png_is_refused_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(png.NoPngError, match=r"`python -m mosaic_worker.extras --set charts` installs it"):
        files.picture(arranged(sheet()), ".png")
    assert files.picture(arranged(sheet()), ".svg").startswith(b"<?xml")


def test_long_texts_are_cut_and_sentences_wrapped() -> None:
    assert cut("a" * 100, 50, 12).endswith("…") and text_width(cut("a" * 100, 50, 12), 12) <= 50
    assert " ".join(wrapped("one two three four five", 60, 12)) == "one two three four five"
    assert len(wrapped("one two three four five", 60, 12)) > 1


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    files.write(file, b"old")
    files.write(file, b"new")
    assert file.read_bytes() == b"new" and list(tmp_path.iterdir()) == [file]
    with pytest.raises(OSError, match="Is a directory"):
        files.write(tmp_path, b"new")
