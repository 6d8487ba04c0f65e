from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic_protocol.worker_manifest import ManifestError, RunnerCapabilities, discover, load_manifest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "sample_worker_under_test"
MANIFEST = f"""
schema = 1
[worker]
type = "sample"
name = "Sample Worker"
version = "0.1.0"
summary = "Nothing but a sample."
lane = "analytics"
module = "{PACKAGE}.cli"
"""


def make_worker(folder: Path, text: str = MANIFEST, *, package: str = PACKAGE) -> Path:
    """A worker package whose import would be noticed: it fails."""
    package_dir = folder / package
    package_dir.mkdir(parents=True)
    (package_dir / "__init__.py").write_text("raise RuntimeError('the worker was imported')\n")
    (package_dir / "worker.toml").write_text(text.replace(PACKAGE, package))
    return package_dir


def install(folder: Path, entry_points: str) -> None:
    """Make a folder look like site-packages with one installed distribution."""
    info = folder / "sample_distribution-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample-distribution\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mosaic.workers]\n{entry_points}\n")


def refusal(package_dir: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        load_manifest(package_dir)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{package_dir / 'worker.toml'}: ") for line in lines)
    return "\n".join(line.removeprefix(f"{package_dir / 'worker.toml'}: ") for line in lines)


def test_a_manifest_says_who_the_worker_is_and_where_it_lies(tmp_path: Path) -> None:
    manifest = load_manifest(make_worker(tmp_path))
    assert (manifest.type, manifest.name, manifest.version) == ("sample", "Sample Worker", "0.1.0")
    assert (manifest.lane, manifest.module, manifest.bundle) == ("analytics", f"{PACKAGE}.cli", None)
    assert (manifest.package, manifest.package_dir, manifest.python_path) == (
        PACKAGE,
        tmp_path / PACKAGE,
        tmp_path,
    )
    assert manifest.warm_module is None and manifest.algorithms == {}


def test_every_table_and_key_is_read(tmp_path: Path) -> None:
    text = f"""{MANIFEST}
bundle = "sample_bundle"
[warm]
module = "{PACKAGE}.warm_up"
[capabilities]
pause = true
external_services = ["xmpp"]
[algorithms.ppo]
summary = "A classic."
script = "scripts/ppo.py"
action_spaces = ["discrete", "continuous"]
environments = ["atari", "gymnasium"]
example_env = "CartPole-v1"
[algorithms.dqn]
summary = "Another."
"""
    package_dir = make_worker(tmp_path, text)
    (package_dir / "scripts").mkdir()
    (package_dir / "scripts" / "ppo.py").touch()
    manifest = load_manifest(package_dir)
    assert manifest.bundle == "sample_bundle" and manifest.warm_module == f"{PACKAGE}.warm_up"
    assert manifest.capabilities == RunnerCapabilities(pause=True, external_services=("xmpp",))
    assert manifest.algorithms["ppo"].action_spaces == ("discrete", "continuous")
    assert manifest.algorithms["ppo"].environments == ("atari", "gymnasium")
    assert manifest.algorithms["dqn"].environments == ("gymnasium",)
    assert (manifest.algorithms["ppo"].script, manifest.algorithms["ppo"].example_env) == (
        "scripts/ppo.py",
        "CartPole-v1",
    )


def test_a_capability_that_is_not_named_is_not_offered(tmp_path: Path) -> None:
    capabilities = load_manifest(make_worker(tmp_path)).capabilities
    assert not any(capabilities.model_dump().values())


def test_what_clients_receive_has_no_path_of_this_machine(tmp_path: Path) -> None:
    manifest = load_manifest(make_worker(tmp_path))
    told = json.loads(manifest.to_json())
    assert told["type"] == "sample" and told["capabilities"]["pause"] is False
    assert str(tmp_path) not in manifest.to_json()


def test_a_manifest_cannot_be_changed(tmp_path: Path) -> None:
    manifest = load_manifest(make_worker(tmp_path))
    with pytest.raises(pydantic.ValidationError):
        manifest.module = "os"


WRONG_LINES = [
    (
        "schema = 1",
        "schema = 2",
        "schema: must be 1; if the worker is for a newer MOSAIC, update this one (got 2)",
    ),
    ("schema = 1", "", "schema: is required"),
    ('type = "sample"', "", "worker.type: is required"),
    ('type = "sample"', 'type = "../up"', "worker.type: must be a plain name"),
    ('name = "Sample Worker"', 'name = "a\\u001b"', "worker.name: must be printable text"),
    (
        'lane = "analytics"',
        'lane = "analytic"',
        "worker.lane: is not one of the choices; did you mean 'analytics'?",
    ),
    ('lane = "analytics"', 'lane = "x"', "; choices are analytics, hybrid, telemetry (got 'x')"),
    ('lane = "analytics"', "lane = true", "worker.lane: is not one of the choices"),
    ('version = "0.1.0"', "version = 0.1", "worker.version: must be text (got 0.1)"),
    ('version = "0.1.0"', 'verzion = ""', "worker.verzion: is not a known field; did you mean 'version'?"),
    (f'"{PACKAGE}.cli"', '"os"', "worker.module: must be a module of the package"),
    (f'"{PACKAGE}.cli"', '"a b"', "worker.module: must be the dotted name of a Python module"),
    ("[worker]", "[worker", "(top level): is not TOML"),
    ('type = "sample"', "type = " + "9" * 5000, "(top level): is not TOML"),
    ("[worker]", "a" + ".a" * 5000 + " = 1\n[worker]", "(top level): has a line longer than"),
    ("[worker]", "x = " + "[\n" * 20_000 + "\n[worker]", "(top level): is"),
]
WRONG_TABLES = [
    ("[warm]\nmodule = 'os'", "warm.module: must be a module of the package"),
    ("[policies]\nact = 'os'", "policies.act: must be a module of the package"),
    ("[policies]\nact = 'mosaic_worker.warm_up'", "policies.act: must be a module of the package"),
    ("[warm]\nmodule = 'mosaic_worker.policies.act'", "warm.module: must be a module of the package"),
    ("[policies]\nplay = 'my_worker.play'", "policies.play"),
    ("[warn]", "warn: is not a known field; did you mean 'warm'?"),
    ("[capabilities]\npauze = true", "capabilities.pauze: is not a known field; did you mean 'pause'?"),
    ("[capabilities]\npause = 1", "capabilities.pause: must be true or false (got 1)"),
    ("[algorithms.ppo]", "algorithms.ppo.summary: is required"),
    ("[algorithms.ppo]\nsumary='s'", "algorithms.ppo.sumary: is not a known field; did you mean 'summary'?"),
    ("[algorithms.'Bad Name']\nsummary='s'", "algorithms['Bad Name']: must be a plain name"),
    ("[algorithms.ppo]\nsummary='s'\naction_spaces=['discreet']", "did you mean 'discrete'?"),
    ("[algorithms.ppo]\nsummary='s'\nenvironments=['attari']", "did you mean 'atari'?"),
    (
        "[choices.tree]\nhelp='h'\nkind='folder'\nany_algorithm=true",
        "choices.tree.scripts: says where a folder has the scripts",
    ),
    (
        "[choices.tree]\nhelp='h'\nkind='folder'\nany_algorithm=true\nscripts=['**/{algo}.py']",
        "choices.tree.scripts[0]: may not look into folders of any depth",
    ),
    (
        "[choices.tree]\nhelp='h'\nkind='folder'\nany_algorithm=true\nscripts=['../{algo}.py']",
        "choices.tree.scripts[0]: must be a path in the folder with {algo} in it",
    ),
    ("[choices.word]\nhelp='h'\nkind='text'\nany_algorithm=true", "choices.word.kind: must be a switch, a file or"),
    ("[algorithms.ppo]\nsummary='s'\nenvironments=[]", "is too short: at least 1 item (got"),
]


@pytest.mark.parametrize(("old", "new", "why"), WRONG_LINES)
def test_a_wrong_line_is_refused_with_file_key_and_reason(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in MANIFEST
    assert why in refusal(make_worker(tmp_path, MANIFEST.replace(old, new)))


@pytest.mark.parametrize(("table", "why"), WRONG_TABLES)
def test_a_wrong_table_is_refused_with_file_key_and_reason(tmp_path: Path, table: str, why: str) -> None:
    assert why in refusal(make_worker(tmp_path, f"{MANIFEST}{table}\n"))


def test_the_programs_of_the_kit_may_put_a_workers_checkpoints_to_use(tmp_path: Path) -> None:
    programs = "evaluate = 'mosaic_worker.policies.evaluate'\nact = 'mosaic_worker.policies.act'"
    found = load_manifest(make_worker(tmp_path, f"{MANIFEST}[policies]\n{programs}\n"))
    assert (found.policies.evaluate, found.policies.act) == (
        "mosaic_worker.policies.evaluate",
        "mosaic_worker.policies.act",
    )


@pytest.mark.parametrize(
    "script", ["absent.py", "../outside.py", "/etc/hostname", "sub/../x.py", "", ".hidden.py", "link.py"]
)
def test_a_script_must_be_a_file_inside_the_package(tmp_path: Path, script: str) -> None:
    package_dir = make_worker(tmp_path, f"{MANIFEST}[algorithms.a]\nsummary = 's'\nscript = '{script}'\n")
    (tmp_path / "outside.py").touch()
    (package_dir / "link.py").symlink_to(tmp_path / "outside.py")
    assert "algorithms.a.script: must be a" in refusal(package_dir)


def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(tmp_path)
    (tmp_path / "worker.toml").write_bytes(b"\xff")
    assert "is not UTF-8 text: see byte 0" in refusal(tmp_path)
    (tmp_path / "worker.toml").write_bytes(b"#" * 300_000)
    assert "is longer than 262144 bytes" in refusal(tmp_path)


toml_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.just(float("nan")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def toml_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    return "nan" if isinstance(value, float) else json.dumps(value)


def check_that_it_can_be_shown(error: ManifestError) -> None:
    assert error.problems
    assert all(line.isprintable() for line in str(error).split("\n"))


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_manifest_is_either_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    tables = tomllib.loads(MANIFEST + "[capabilities]\npause = true\n[algorithms.ppo]\nsummary = 's'\n")
    place = data.draw(st.sampled_from([tables, tables["worker"], tables["capabilities"], tables["algorithms"]]))
    place[data.draw(st.sampled_from(list(place)) | st.text())] = data.draw(toml_values)
    text = "\n".join(f"{json.dumps(key)} = {toml_text(value)}" for key, value in tables.items())
    package_dir = tmp_path / PACKAGE
    package_dir.mkdir(exist_ok=True)
    (package_dir / "worker.toml").write_text(data.draw(st.just(text) | st.text()), errors="replace")
    try:
        load_manifest(package_dir)
    except ManifestError as error:
        check_that_it_can_be_shown(error)


# --- discovery ---


def test_an_installed_worker_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_worker(tmp_path)
    install(tmp_path, f"sample = {PACKAGE}")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    found = discover({})
    assert found.workers["sample"].package_dir == tmp_path / PACKAGE
    assert not any(name.split(".")[0] == PACKAGE for name in set(sys.modules) - before)
    with pytest.raises(RuntimeError, match="the worker was imported"):
        __import__(PACKAGE)


def test_a_worker_that_is_installed_later_is_found_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, f"sample = {PACKAGE}")
    monkeypatch.syspath_prepend(tmp_path)
    before = tmp_path.stat()
    assert "sample" not in discover({}).workers
    make_worker(tmp_path)
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as on a disk with a coarse clock
    assert "sample" in discover({}).workers


def test_a_worker_is_added_by_dropping_its_folder(tmp_path: Path) -> None:
    make_worker(tmp_path / "one")
    other = MANIFEST.replace('"sample"', '"other"')
    make_worker(tmp_path / "two", other, package="other_worker_under_test")
    (tmp_path / "two" / "not_a_worker").mkdir()
    found = discover({"MOSAIC_WORKER_PATH": f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}{os.pathsep}"})
    assert found.workers["sample"].python_path == tmp_path / "one"
    assert found.workers["other"].python_path == tmp_path / "two"
    assert "other_worker_under_test" not in sys.modules


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (f"sample = {PACKAGE}.cli", "its value must be a top-level package"),
        (f"sample = {PACKAGE}:main", "its value must be a top-level package"),
        ("sample = no_such_worker_anywhere", "there is no package 'no_such_worker_anywhere'"),
        ("sample = json", "the package 'json' holds no worker.toml"),
        ("sample = abc", "the package 'abc' holds no worker.toml"),
    ],
)
def test_an_entry_point_that_leads_nowhere_becomes_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, why: str
) -> None:
    install(tmp_path, entry)
    monkeypatch.syspath_prepend(tmp_path)
    found = discover({})
    assert any("entry point 'sample'" in problem and why in problem for problem in found.problems)
    assert "sample" not in found.workers


def test_a_broken_manifest_hides_no_other_worker(tmp_path: Path) -> None:
    make_worker(tmp_path, "schema = ", package="a_broken_worker_under_test")
    make_worker(tmp_path)
    found = discover({"MOSAIC_WORKER_PATH": str(tmp_path)})
    assert "sample" in found.workers
    assert any("a_broken_worker_under_test/worker.toml: (top level): is not TOML" in line for line in found.problems)


def test_a_schema_that_cannot_be_used_is_reported_and_the_worker_stays(tmp_path: Path) -> None:
    package = make_worker(tmp_path)
    (package / "config.schema.json").write_text('{"properties": {"speed": {"minimun": 0}}}')
    found = discover({"MOSAIC_WORKER_PATH": str(tmp_path)})
    (manifest,) = (one for one in found.workers.values() if one.package_dir == package)
    (told,) = (sentence for sentence in found.problems if str(package) in sentence)
    assert f"the settings of the worker {manifest.type!r} are not known: config.schema.json" in told
    assert "did you mean 'minimum'" in told


def test_of_two_workers_with_one_type_the_first_is_kept_and_the_other_is_reported(tmp_path: Path) -> None:
    first, second = make_worker(tmp_path / "one"), make_worker(tmp_path / "two")
    found = discover({"MOSAIC_WORKER_PATH": f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}"})
    assert found.workers["sample"].package_dir == first
    expected = f"{second / 'worker.toml'}: is ignored, because {first} already provides the worker type 'sample'"
    assert expected in found.problems


@pytest.mark.parametrize("entry", ["aaa", "cleanrl"])
def test_no_installed_package_takes_the_place_of_a_built_in_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Neither by claiming its type nor by offering its algorithms, under whatever name its entry point sorts first."""
    text = MANIFEST.replace('"sample"', '"cleanrl"') + '[algorithms.ppo]\nsummary = "Mine."\n'
    pushy = make_worker(tmp_path, text, package="a_pushy_worker_under_test")
    other = text.replace('"cleanrl"', '"aaa"').replace(PACKAGE, "a_rival_worker_under_test")
    make_worker(tmp_path, other, package="a_rival_worker_under_test")
    install(tmp_path, f"{entry} = a_pushy_worker_under_test\nabc = a_rival_worker_under_test")
    monkeypatch.syspath_prepend(tmp_path)
    found = discover({})
    assert found.workers["cleanrl"].package_dir == ROOT / "cleanrl_worker"
    assert next(one.type for one in found.workers.values() if "ppo" in one.algorithms) == "cleanrl"
    (problem,) = [line for line in found.problems if "a_pushy_worker_under_test" in line]
    assert problem.startswith(f"{pushy / 'worker.toml'}: is ignored, because ")
    assert problem.endswith("already provides the worker type 'cleanrl'")


def test_a_worker_found_both_ways_is_one_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_worker(tmp_path)
    install(tmp_path, f"sample = {PACKAGE}")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    found = discover({"MOSAIC_WORKER_PATH": str(tmp_path / "link")})
    assert "sample" in found.workers and not any("already provides" in line for line in found.problems)


def test_a_search_path_that_is_wrong_is_reported(tmp_path: Path) -> None:
    package_dir = make_worker(tmp_path)
    make_worker(tmp_path / "named", package="not-a-package")
    absent = tmp_path / "absent"
    folders = [absent, package_dir, tmp_path / "named", "~nobody_of_this_name"]
    problems = discover({"MOSAIC_WORKER_PATH": os.pathsep.join(map(str, folders))}).problems
    assert f"{absent} of MOSAIC_WORKER_PATH cannot be read: No such file or directory" in problems
    assert any(problem.startswith("~nobody_of_this_name of MOSAIC_WORKER_PATH cannot be read") for problem in problems)
    assert f"{package_dir} of MOSAIC_WORKER_PATH is a worker itself: name the folder above it" in problems
    assert f"{tmp_path / 'named' / 'not-a-package'} is ignored: its name cannot be a Python package's" in problems


def test_import_machinery_that_fails_becomes_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == PACKAGE:
                raise OSError("the finder fell over")

    install(tmp_path, f"sample = {PACKAGE}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    assert any("the finder fell over" in problem for problem in discover({}).problems)


def test_metadata_that_cannot_be_read_becomes_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(**_: object) -> None:
        raise ValueError("broken metadata")

    make_worker(tmp_path)
    monkeypatch.setattr(importlib.metadata, "entry_points", failing)
    found = discover({"MOSAIC_WORKER_PATH": str(tmp_path)})
    assert "sample" in found.workers
    assert found.problems == ["the installed packages' entry points cannot be read: broken metadata"]


def test_the_cleanrl_worker_describes_itself_correctly() -> None:
    before = set(sys.modules)
    manifest = load_manifest(ROOT / "cleanrl_worker")
    assert (manifest.type, manifest.lane, manifest.module) == ("cleanrl", "analytics", "cleanrl_worker.cli")
    assert "ppo" in manifest.algorithms and manifest.lane == "analytics"
    assert "cleanrl_worker" not in set(sys.modules) - before


@pytest.mark.parametrize(
    ("twin", "refused"),
    [("ppo", ""), ("ppoo", "'ppoo'"), ("ppo_fast", "'ppo_fast'"), ("ppo_faster", "'ppo_faster'")],
)
def test_a_twin_is_another_algorithm_that_acts_for_itself(twin: str, refused: str, tmp_path: Path) -> None:
    text = f"""{MANIFEST}
[algorithms.ppo]
summary = "A classic."
[algorithms.ppo_faster]
summary = "Its twin."
twin = "ppo"
[algorithms.ppo_fast]
summary = "Another."
twin = "{twin}"
"""
    worker = make_worker(tmp_path, text)
    if not refused:
        assert load_manifest(worker).algorithms["ppo_fast"].twin == "ppo"
        return
    said = refusal(worker)
    assert said.startswith("algorithms.ppo_fast.twin: must be another algorithm of this worker, without a twin")
    assert refused in said
