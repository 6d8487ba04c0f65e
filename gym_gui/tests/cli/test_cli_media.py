"""``mosaic metrics --media``, ``--histograms``, ``--images``, ``--texts``: what event files hold beside numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.made_logs import curve, written
from gym_gui.tests.support.made_media import chunk, image, new_histogram, normal, png, text
from mosaic_protocol.paths import RunPaths


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("media") / "home")
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.clean_up()


@pytest.fixture(scope="module")
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


@pytest.fixture(scope="module")
def imported(mosaic: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("logs") / "media-run"
    bomb = png(64, 64)[:33] + chunk(b"IDAT", b"no pixels") + chunk(b"IEND", b"")
    written(
        folder,
        *curve("charts/SPS", range(3)),
        *(normal("weights/actor", step, step / 100) for step in range(0, 300, 100)),
        new_histogram("weights/actor", 300, *[(0.0, 1.0, 1.0)] * 10_001),
        image("eval/frame", 10, png(4, 3)),
        image("eval/frame", 10, png(5, 3)),
        image("eval/frame", 20, bomb),
        image("../../up", 1, bomb),
        text("notes", 7, "hello\x1b]0;evil\x07"),
    )
    assert mosaic("import-logs", str(folder)).code == 0
    return "media-run"


def test_what_there_is_is_listed(mosaic: CommandLine, imported: str) -> None:
    lines = mosaic("metrics", imported, "--media").out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["histogram", "weights/actor", "4"],
        ["image", "../../up", "1"],
        ["image", "eval/frame", "3"],
        ["text", "notes/text_summary", "1"],
    ]
    listed = mosaic("metrics", imported, "--media", "--json").json["media"]
    assert listed[0] == {"kind": "histogram", "tag": "weights/actor", "count": 4, "steps": [0, 300]}


def test_a_histogram_is_a_line_for_each_step_and_the_bad_one_a_sentence(mosaic: CommandLine, imported: str) -> None:
    answer = mosaic("metrics", imported, "--histograms", "weights/actor")
    lines = answer.out.splitlines()
    assert answer.code == 0 and [line.split()[:3] for line in lines[1:]] == [
        ["0", "-3", "3"],
        ["100", "-2", "4"],
        ["200", "-1", "5"],
    ]
    assert "-3 … 5" in lines[0] and "█" in lines[1]
    assert answer.err == (
        "mosaic: weights/actor at step 300 cannot be read: "
        "a histogram has 10,001 buckets, and at most 10,000 are read.\n"
    )
    told = mosaic("metrics", imported, "--histograms", "weights/actor", "--json", "--last", "2").json
    (one,) = told["histograms"]
    assert (one["step"], len(one["buckets"]), len(told["notes"])) == (200, 30, 1)


def test_images_become_files_named_by_tag_and_step(mosaic: CommandLine, imported: str, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    answer = mosaic("metrics", imported, "--images", "eval/frame", "--out", str(out))
    assert answer.code == 0 and answer.out.startswith("2 images written to")
    assert sorted(file.name for file in out.iterdir()) == ["eval-frame-000000010-2.png", "eval-frame-000000010.png"]
    assert (out / "eval-frame-000000010-2.png").read_bytes() == png(5, 3)
    assert "eval/frame at step 20: The picture is damaged" in answer.err
    refused = mosaic("metrics", imported, "--images", "../../up", "--out", str(out))
    assert refused.code == 1 and "no image of '../../up' can be read" in refused.err
    assert [file.name for file in tmp_path.iterdir()] == ["pictures"]


def test_texts_are_printed_plainly(mosaic: CommandLine, imported: str) -> None:
    assert mosaic("metrics", imported, "--texts", "notes").out == "step 7\nhello\\u001b]0;evil\\u0007\n"


def test_a_run_of_ours_is_read_from_its_own_folder(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=3, step_seconds=0.0)
    daemon.wait_over(run_id)
    assert "has no histograms, images or texts" in mosaic("metrics", run_id, "--media").out
    written(RunPaths(Path(daemon.client.run(run_id).run_dir)).tensorboard, new_histogram("w", 4, (0.0, 2.0, 3.0)))
    assert mosaic("metrics", run_id, "--histograms", "w", "--json").json["histograms"][0]["buckets"] == [
        [0.0, 2.0, 3.0]
    ]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--histograms", "weights/acter"], 2, "has no histograms 'weights/acter'; did you mean 'weights/actor'?"),
        (["--images", "eval/frame"], 2, "--images TAG and --out DIR belong together"),
        (["--media", "--csv"], 2, "choose one of --media, --histograms, --texts and --images"),
        (["--media", "--texts", "notes"], 2, "choose one of --media, --histograms, --texts and --images"),
        (["--images", "eval/frame", "--out", "/proc/nowhere"], 1, "cannot write to /proc/nowhere"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    mosaic: CommandLine, imported: str, words: list[str], code: int, sentence: str
) -> None:
    answer = mosaic("metrics", imported, *words)
    assert sentence in answer.err and answer.code == code
