"""Arenas: which seeds, who takes part, how it stands, and that what was played is read from recordings alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gym_gui.services.arena import files, page, report
from gym_gui.services.arena import film as films
from gym_gui.services.arena.contest import require_same_game, require_some
from gym_gui.services.arena.entries import Finder, admitted, entry_words
from gym_gui.services.arena.errors import ArenaBusyError, ArenaError
from gym_gui.services.arena.model import Arena, Entry, Kind, from_json, to_json
from gym_gui.services.arena.played import (
    VERDICTS,
    Played,
    Result,
    Verdict,
    keep_verdict,
    new_part,
    read_played,
    read_verdicts,
)
from gym_gui.services.arena.seeds import chosen_seeds, read_seeds, shown_seeds
from gym_gui.services.arena.standings import Measure, standings_of
from gym_gui.services.arena.store import ArenaStore, default_name
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recordings import RUN, Recording
from mosaic_worker.recording.step_recorder import StepRecorder

RULES = {"env_id": "FrozenLake-v1", "kwargs": {"map_name": "4x4"}, "max_episode_steps": 100}
OPTIMAL = Entry("optimal", "Optimal", Kind.BASELINE, "optimal", source={"player": "optimal"})
RANDOM = Entry("random", "Random", Kind.BASELINE, "random", source={"player": "random"})
YOU = Entry("you", "You", Kind.RECORDING, "run X", source={"run_id": "X"})


def arena_of(*entries: Entry, seeds: tuple[int, ...] = tuple(range(8))) -> Arena:
    return Arena("lake", "FrozenLake-v1", {}, seeds, 1.0, RULES, entries)


def played_of(returns: Mapping[int, float], *, actor: str = "policy", **more: object) -> Played:
    good = Verdict(5, 5)
    results = {
        seed: Result(seed, total, 5, "terminated", Path("/r"), seed, {actor: 5}, {"seconds": 0.01, **more}, good)  # type: ignore[dict-item]
        for seed, total in returns.items()
    }
    return Played(results, rules=RULES)


# ---- seeds -------------------------------------------------------------------------------------------------------


def test_seeds_are_spans_and_single_numbers_in_their_order() -> None:
    assert read_seeds("0-3, 9,20..21") == [0, 1, 2, 3, 9, 20, 21]
    assert shown_seeds([3, 1, 0, 2, 9, 21, 20]) == "0–3, 9, 20–21"
    assert chosen_seeds(None, 4) == [0, 1, 2, 3] and len(chosen_seeds(None, None)) == 100
    assert chosen_seeds("5-6", 2) == [5, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-10,5-20", "seed 5 is named twice"),
        ("7,7", "seed 7 is named twice"),
        ("9-3", "write 3-9"),
        ("a-b", "names no seeds"),
        ("", "names no seeds"),
        ("-1", "names no seeds"),
        ("0-99999", "10,000 seeds at most"),
        ("4000000000", "2,147,483,647 at most"),
    ],
)
def test_seeds_that_make_no_sense_are_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ArenaError, match=said):
        read_seeds(text)


def test_a_number_of_episodes_that_is_not_that_of_the_seeds_is_refused() -> None:
    with pytest.raises(ArenaError, match="names 10 seeds, --episodes asks for 100"):
        chosen_seeds("0-9", 100)


# ---- who takes part ----------------------------------------------------------------------------------------------


def test_an_entry_takes_part_once(tmp_path: Path) -> None:
    finder = Finder(MosaicPaths(tmp_path), lambda word: pytest.fail("no run was named"))
    with pytest.raises(ArenaError, match="Chance is named twice: an entry takes part once"):
        admitted(arena_of(), [finder.find("random"), finder.find("Chance=random")], known_is_fine=True)
    once = admitted(arena_of(), [finder.find("random")], known_is_fine=False)
    with pytest.raises(ArenaError, match="Random is in the arena lake already"):
        admitted(once, [finder.find("random")], known_is_fine=False)
    assert admitted(once, [finder.find("random")], known_is_fine=True) == once


def test_an_entry_may_have_a_name_of_its_own_and_no_two_share_a_folder(tmp_path: Path) -> None:
    finder = Finder(MosaicPaths(tmp_path), lambda word: pytest.fail("no run was named"))
    found = admitted(arena_of(), [finder.find("A=random"), finder.find("A=optimal")], known_is_fine=False)
    assert [one.label for one in found.entries] == ["A", "A 2"] and len({one.key for one in found.entries}) == 2


def test_a_name_with_blanks_can_be_typed_in_quotes() -> None:
    assert entry_words("random 'LLM (plan)=llm-lake' \"My net\"=ppo") == ["random", "LLM (plan)=llm-lake", "My net=ppo"]
    with pytest.raises(ArenaError, match="is not closed"):
        entry_words("random 'LLM")


def test_an_unknown_entry_is_told_the_nearest_one(tmp_path: Path) -> None:
    def no_run(word: str) -> object:
        raise RuntimeError(f"there is no run {word!r}")

    finder = Finder(MosaicPaths(tmp_path), no_run)  # type: ignore[arg-type]
    with pytest.raises(ArenaError, match="did you mean 'random'"):
        finder.find("randon")
    with pytest.raises(ArenaError, match=r"'zzz' is no entry: .* and as a run: there is no run 'zzz'"):
        finder.find("zzz")


def test_a_recording_of_another_game_or_of_other_seeds_is_refused() -> None:
    with pytest.raises(ArenaError, match="played Taxi-v4, this arena is FrozenLake-v1"):
        require_same_game(arena_of(), "mine", {**RULES, "env_id": "Taxi-v4"})
    with pytest.raises(ArenaError, match="is_slippery False instead of default: another game"):
        require_same_game(arena_of(), "mine", {**RULES, "kwargs": {"map_name": "4x4", "is_slippery": False}})
    require_same_game(arena_of(), "mine", RULES)
    with pytest.raises(ArenaError, match=r"played the seeds 500–501, none of this arena's \(0–7\): `mosaic play"):
        require_some(arena_of(), "mine", {}, [500, 501])


# ---- where it is kept --------------------------------------------------------------------------------------------


def test_an_arena_is_read_as_it_was_kept(tmp_path: Path) -> None:
    store, arena = ArenaStore(MosaicPaths(tmp_path)), arena_of(OPTIMAL, YOU)
    store.save(arena)
    assert store.load("lake") == arena == from_json(json.loads(json.dumps(to_json(arena))))
    assert store.names() == ["lake"]
    with pytest.raises(ArenaError, match="did you mean 'lake'"):
        store.load("lak")
    with pytest.raises(ArenaError):
        store.load("../lake")


def test_one_process_plays_at_a_time_and_what_it_started_counts(tmp_path: Path) -> None:
    store = ArenaStore(MosaicPaths(tmp_path))
    store.save(arena_of(RANDOM))
    with store.playing("lake"), pytest.raises(ArenaBusyError), store.playing("lake", patience=0.0):
        pass
    assert not store.is_playing("lake")


def test_an_entry_that_is_removed_leaves_nothing_and_the_others_stay(tmp_path: Path) -> None:
    store, arena = ArenaStore(MosaicPaths(tmp_path)), arena_of(RANDOM, OPTIMAL)
    store.save(arena)
    record(new_part(store.folder(arena, RANDOM)), [0])
    record(new_part(store.folder(arena, OPTIMAL)), [0])
    with pytest.raises(ArenaError, match="has no entry 'Randon'; did you mean 'Random'"):
        store.remove("lake", "Randon")
    assert store.remove("lake", "Random") == RANDOM
    assert store.load("lake").entries == (OPTIMAL,)
    assert not store.folder(arena, RANDOM).exists() and store.folder(arena, OPTIMAL).is_dir()


def test_the_usual_name_is_the_same_for_the_same_game_and_seeds() -> None:
    assert default_name("FrozenLake-v1", (0, 1, 2), {}) == "frozenlake-v1.0-2"
    assert default_name("ALE/Pong-v5", (3, 8), {"mode": 1}) == "ale-pong-v5.2-seeds.own"


# ---- what was played ---------------------------------------------------------------------------------------------


def record(place: Path, seeds: list[int], unfinished: int | None = None) -> None:
    recorder = StepRecorder(Recording.new(place, {"kind": RUN, "worker": "play", "rules": RULES}).folder)
    lane = recorder.lane(actor="policy")
    for seed in seeds:
        lane.begin_episode(seed)
        lane.append(0, 1, 0.0)
        lane.append(1, 1, 1.0, terminated=True, final_observation=2, extras={"spent": {"seconds": 0.5, "odd": "x"}})
    if unfinished is not None:
        lane.begin_episode(unfinished)
        lane.append(0, 1, 0.0)
    recorder.close()


def test_parts_add_up_and_an_episode_without_an_end_is_missing(tmp_path: Path) -> None:
    record(new_part(tmp_path), [0, 1], unfinished=2)
    record(new_part(tmp_path) / "deterministic", [2, 50])
    found = read_played(tmp_path, range(4))
    assert sorted(found.results) == [0, 1, 2] and found.missing(range(4)) == [3] and found.others == [50]
    assert found.results[2].total == 1.0 and found.results[2].spent == {"seconds": 0.5}
    assert found.again == [] and found.rules == RULES


def test_of_a_seed_that_was_played_twice_the_first_episode_counts_and_it_is_said(tmp_path: Path) -> None:
    record(new_part(tmp_path), [0, 0])
    found = read_played(tmp_path, [0])
    assert found.again == [0] and found.results[0].episode == 0
    arena = arena_of(YOU, seeds=(0,))
    assert any("the first episode of each counts" in note for note in standings_of(arena, {"you": found}).notes)


def test_a_verdict_that_was_cut_off_is_none_and_spoils_no_other(tmp_path: Path) -> None:
    told = {"episode": 0, "steps": 2, "verified": 2, "sentence": "", "repeats_itself": None}
    keep_verdict(tmp_path, told)
    with (tmp_path / VERDICTS).open("a") as file:
        file.write('{"episode": 1, "st')
    keep_verdict(tmp_path, {**told, "episode": 2})
    assert sorted(read_verdicts(tmp_path)) == [0, 2]


# ---- how it stands -----------------------------------------------------------------------------------------------


def test_the_best_stands_first_and_improvement_is_paired_by_seed() -> None:
    good, poor = {seed: float(seed) + 1 for seed in range(8)}, {seed: float(seed) for seed in range(8)}
    found = standings_of(arena_of(RANDOM, OPTIMAL), {"optimal": played_of(good), "random": played_of(poor)})
    assert [one.entry.key for one in found.standings] == ["optimal", "random"]
    # Always one more on the same seed: certain, although many values of the two overlap.
    assert found.improvements["optimal", "random"].value == 1.0
    assert found.improvements["random", "optimal"].value == 0.0
    assert found.standings[0].estimates["iqm"].value == pytest.approx(np.mean([3, 4, 5, 6]))


def test_a_draw_counts_half_and_entries_that_share_no_seed_are_not_compared() -> None:
    same = dict.fromkeys(range(4), 1.0)
    found = standings_of(arena_of(RANDOM, OPTIMAL), {"optimal": played_of(same), "random": played_of(same)})
    assert found.improvements["optimal", "random"].value == 0.5
    apart = standings_of(
        arena_of(RANDOM, OPTIMAL), {"optimal": played_of({0: 1.0}), "random": played_of({1: 1.0, 2: 1.0})}
    )
    assert not apart.improvements and not apart.is_complete
    assert "share no seed" in report.finding(apart)


def test_the_gap_is_what_is_missing_to_the_optimal_return_on_the_same_seed() -> None:
    played = {"optimal": played_of({0: 5.0, 1: 9.0}), "random": played_of({0: 1.0, 1: 9.0, 2: 3.0})}
    found = standings_of(arena_of(RANDOM, OPTIMAL), played, Measure.GAP)
    assert dict(found.of("random").values) == {0: 4.0, 1: 0.0}  # type: ignore[union-attr]
    assert found.standings[0].entry.key == "optimal"


def test_a_world_that_is_not_deterministic_is_said_and_so_are_missing_seeds_and_other_limits() -> None:
    moody = Verdict(5, 2, "the reward of step 2 differs", repeats_itself=False)
    changed = Verdict(5, 2, "the reward of step 2 differs", repeats_itself=True)
    result = played_of({0: 1.0}).results[0]
    results = {0: Result(**{**vars(result), "verdict": moody}), 1: Result(**{**vars(result), "verdict": changed})}
    played = {"random": Played(results, [500], rules={**RULES, "max_episode_steps": 7})}
    said = "\n".join(standings_of(arena_of(RANDOM), played).notes)
    assert "not deterministic" in said and "(seeds 0)" in said
    assert "a replay does not confirm the seeds 0" in said or "differs" in said
    assert "played 2 of 8 seeds; missing are 2–7" in said
    assert "other seeds (500): 1 episode that do not count" in said
    assert "7 steps an episode, the arena allows 100 steps" in said


def test_costs_are_means_of_an_episode_and_a_person_pays_with_time() -> None:
    played = {
        "you": played_of({0: 1.0, 1: 0.0}, actor="human"),
        "random": played_of({0: 1.0}, tokens=120, money=0.0125),
    }
    found = standings_of(arena_of(RANDOM, YOU), played)
    you, other = found.of("you"), found.of("random")
    assert you is not None and you.is_person and report.shown_price(you.cost, is_person=True) == "a person's time"
    assert other is not None and report.shown_price(other.cost) == "$0.0125, 120 tokens"
    assert report.shown_seconds(other.cost.seconds) == "10 ms" and report.shown_seconds(None) == "–"


def test_the_report_is_plain_json_rows_and_a_page_that_names_cannot_break_out_of() -> None:
    evil = Entry("x", "<script>alert(1)</script>", Kind.BASELINE, "random")
    found = standings_of(arena_of(OPTIMAL, evil), {"optimal": played_of({0: 1.0}), "x": played_of({0: 0.0})})
    told = json.loads(files.content(found, Path("a.json"), "mosaic arena"))
    assert told["entries"][0]["label"] == "Optimal" and told["improvements"]
    assert files.content(found, Path("a.csv"), "").decode().splitlines()[0] == ",".join(report.COLUMNS)
    text = page.document(found, "mosaic arena <b>")
    assert "<h1>2 entries on the same 8 seeds of FrozenLake-v1</h1>" in text and "<legend>Entries</legend>" in text
    assert "<script>alert" not in text and "&lt;script&gt;" in text and "mosaic arena &lt;b&gt;" in text


def test_a_report_plays_the_seed_that_sets_the_entries_apart() -> None:
    played = {
        "optimal": played_of({0: 1.0, 1: 1.0, 2: 1.0}),
        "random": played_of({0: 1.0, 1: 0.0}),
        "you": played_of({1: 0.0, 0: 1.0, 2: 0.0}),
    }
    arena = arena_of(OPTIMAL, RANDOM, YOU)
    assert films.telling_seed(standings_of(arena, played)) == 1, "all played it, and it did not end alike"
    assert films.telling_seed(standings_of(arena, {})) is None


def test_a_film_that_nobody_could_mail_shows_fewer_steps_and_always_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def shot(result: Result, stride: int, paths: MosaicPaths) -> films.Taken:
        return films.Taken([b"%05d" % at for at in films.places_of(result.length, stride)])

    monkeypatch.setattr(films, "shoot", shot)
    monkeypatch.setattr(films, "returns_of", lambda results: [np.arange(1.0, one.length + 1) for one in results])
    monkeypatch.setattr(films, "MOST_BYTES", 200)
    results = {0: Result(0, 1.0, 301, "terminated", Path("/r"), 0, {})}
    found = standings_of(arena_of(RANDOM), {"random": Played(results, rules=RULES)})
    film = films.film_of(found, 0, MosaicPaths(Path("/nowhere")))
    (reel,) = film.reels
    assert film.places[:3] == [0, 12, 24] and film.places[-1] == 301
    assert [int(film.pictures[one]) for one in reel.pictures] == list(film.places)
    assert list(reel.totals) == [float(place) for place in film.places]


def test_a_page_plays_a_film_and_says_whose_pictures_are_missing() -> None:
    evil = Entry("x", "<b>x", Kind.BASELINE, "random")
    found = standings_of(arena_of(OPTIMAL, evil), {"optimal": played_of({0: 1.0}), "x": played_of({0: 0.0})})
    reels = [films.Reel("optimal", [0, 1], [0.0, 1.0], 1), films.Reel("x", [], [0.0, 0.0], 1, "it <i>broke</i>")]
    text = page.document(found, "mosaic", films.Film(0, [0, 1], [b"one", b"two"], reels))
    told = json.loads(text.split('id="data">')[1].split("</script>")[0])["film"]
    assert told["places"] == [0, 1] and [one["pictures"] for one in told["reels"]] == [[0, 1]]
    assert text.count("<img data-reel") == 1 and "it &lt;i&gt;broke&lt;/i&gt;" in text and "<b>x" not in text
    assert "img-src data:" in text and "img-src" not in page.document(found, "mosaic")
