"""The CleanRL form: fields from the script itself, checks before the start, and a memory."""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QCheckBox
from pytestqt.qtbot import QtBot

from gym_gui.cli.commands.train import train
from gym_gui.cli.run_plan import TrainRequest, make_plan
from gym_gui.logging_config.log_constants import LOG_UI_MAINWINDOW_INVALID_CONFIG
from gym_gui.services.run_estimate import estimate
from gym_gui.services.run_request import RunRequest, train_command
from gym_gui.services.worker_queries import EnvironmentFamily
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit, make_cockpit, no_thread_is_left  # noqa: F401 - fixtures
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.forms.field_spec import FieldError, FieldSpec, from_flag, from_schema, read_count, title_of
from gym_gui.ui.forms.settings_of import Start, parts_of
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.widgets.cleanrl_train_form import CleanRlTrainForm
from gym_gui.ui.workers.cleanrl.script_settings import ScriptSettings
from gym_gui.validations.config_problems import config_problems, refusal_by_field
from gym_gui.validations.validation_cleanrl_worker_form import proxy_fallback
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover

pytestmark = pytest.mark.usefixtures("workers_train")

HANG = 60_000
OpenForm = Callable[..., tuple[CockpitApp, CleanRlTrainForm]]

INSTALLER = "cleanrl_worker.tools.install_extras"


@pytest.fixture
def open_form(make_cockpit: MakeCockpit, qtbot: QtBot) -> Iterator[OpenForm]:  # noqa: F811
    """A cockpit with the CleanRL form, whose flags have been read."""
    unexpected: list[object] = []

    def make(daemon: DaemonProcess) -> tuple[CockpitApp, CleanRlTrainForm]:
        cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
        dock = cockpit.window.docks["train"].widget()
        assert isinstance(dock, TrainDock)
        cockpit.reporter.happened.connect(unexpected.append)
        dock.show_page("train")
        qtbot.waitUntil(lambda: isinstance(dock.form, CleanRlTrainForm), timeout=HANG)
        form = dock.form
        assert isinstance(form, CleanRlTrainForm)
        qtbot.waitUntil(lambda: form.parameters.is_known, timeout=HANG)
        return cockpit, form

    yield make
    assert unexpected == []


def params_in(form: CleanRlTrainForm) -> dict[str, Any]:
    """The script's parameters as the form would submit them."""
    return dict(parts_of(form.request().settings).params)


# ---- without a window --------------------------------------------------------------------------------------------


def test_a_number_stays_as_it_was_typed() -> None:
    rate = from_flag({"name": "learning_rate", "type": "float", "default": 0.00025})
    assert rate.read("3e-4") == 3e-4 and rate.differs("3e-4") and not rate.differs("2.5e-4")


@pytest.mark.parametrize(
    ("text", "number"), [("500000", 500_000), ("500k", 500_000), ("5e5", 500_000), ("1.5M", 1_500_000), ("1_000", 1000)]
)
def test_large_numbers_are_read_as_people_write_them(text: str, number: int) -> None:
    assert read_count(text) == number


@pytest.mark.parametrize("text", ["", "12.5", "lots", "1e400", "nan"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="whole number"):
        read_count(text)


def test_a_flag_becomes_a_field_with_its_help_and_unit() -> None:
    spec = from_flag(
        {"name": "target_kl", "type": "float | None", "default": None, "help": "How far.", "option": "--x"}
    )
    assert (spec.kind, spec.optional, spec.start, spec.help, spec.read("none")) == ("float", True, "", "How far.", None)
    assert from_flag({"name": "num_steps", "type": "int", "default": 128}).unit == "steps"
    assert (title_of("num_envs"), title_of("gae_lambda")) == ("Environments", "GAE lambda")


@pytest.mark.parametrize("algo", ["dqn", "dqn_jax", "ppo_atari_envpool_xla_jax_scan"])
def test_the_form_and_the_manifest_choose_the_same_bundle_for_upstreams_scripts(algo: str) -> None:
    choices = discover({}).workers["cleanrl"].choices
    assert ScriptSettings(algo=algo, upstream=True).environment == choices["upstream"].bundle_for(algo)
    assert ScriptSettings(algo=algo, cleanrl_path="/x").environment == choices["cleanrl_path"].bundle_for(algo)


def test_a_schema_becomes_fields_with_bounds_and_choices() -> None:
    size, colour, more = from_schema(
        {
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 2, "description": "How large."},
                "colour": {"enum": ["red", "blue"], "default": "red"},
                "more": {"type": "array", "default": [1]},
            },
        }
    )
    with pytest.raises(FieldError, match="at least 2"):
        size.read("1")
    with pytest.raises(FieldError, match="empty"):
        size.read(" ")
    assert (colour.kind, colour.start, more.kind, more.read("[1, 2]")) == ("choice", "red", "json", [1, 2])


def ran(algo: str, env_id: str, steps: int, seconds: float = 10, **settings: object) -> pb.Run:
    config = {"metadata": {"worker": {"config": {"algo": algo, "env_id": env_id, **settings}}}}
    return pb.Run(
        worker_type="cleanrl",
        algo=algo,
        env_id=env_id,
        last_step=steps,
        active_seconds=seconds,
        config_json=json.dumps(config),
    )


def test_the_estimate_prefers_runs_on_the_same_environment() -> None:
    runs = [ran("ppo", "A", 1000), ran("ppo", "B", 9000), ran("dqn", "A", 5), ran("ppo", "A", 0, 0)]
    found = estimate(runs, {"algo": "ppo", "env_id": "A"}, 6000, "cleanrl")
    assert found is not None and found.seconds == 60 and found.sentence().startswith("about 60 s at 100 steps/s")
    assert estimate(runs, {"algo": "sac", "env_id": "A"}, 6000, "cleanrl") is None


def test_the_estimate_goes_by_runs_of_the_same_script_only() -> None:
    """Upstream's script of the same name is several times slower than ours, and a file of the user's is anything."""
    runs = [
        ran("ppo", "A", 6000),
        ran("ppo", "A", 600, source="cleanrl"),
        ran("ppo", "A", 60, script="/home/me/ppo.py"),
        pb.Run(worker_type="cleanrl", algo="ppo", env_id="A", last_step=6, active_seconds=10, config_json="{"),
        pb.Run(worker_type="other", algo="ppo", env_id="A", last_step=6, active_seconds=10),
    ]
    speeds = []
    for more in ({}, {"source": "cleanrl"}, {"script": "/home/me/ppo.py"}):
        found = estimate(runs, {"algo": "ppo", "env_id": "A", **more}, 6000, "cleanrl")
        assert found is not None and found.runs == 1
        speeds.append(found.steps_per_second)
    assert speeds == [600, 60, 6]
    assert estimate(runs, {"algo": "ppo", "env_id": "A", "script": "/home/me/other.py"}, 6000, "cleanrl") is None


def test_a_refused_config_names_the_field() -> None:
    config = RunRequest("cleanrl", "cleanrl_worker.cli", " bad ", {"algo": "ppo"}, cpus=0).config()
    assert set(config_problems(config)) == {"run_name", "cpus"}
    told = refusal_by_field("metadata.worker.config.seed: must be at least 0\nresources.cpus.requested: too many")
    assert told == {"seed": "must be at least 0", "cpus": "too many"}
    assert refusal_by_field("the daemon is away") == {"": "the daemon is away"}


def typed_on_the_command_line(command: str) -> dict[str, Any]:
    """The run config that `mosaic` makes of a command line."""
    program, verb, *words = shlex.split(command)
    assert (program, verb) == ("mosaic", "train")
    given: dict[str, Any] = train.make_context("train", words, obj=None).params
    launching = {"detach", "dry_run", "no_preflight", "summary", "as_json", "yes"}
    asked = {name: value for name, value in given.items() if name not in launching}
    return make_plan(TrainRequest.of(asked), discover()).config


def test_the_command_line_makes_the_same_run_config(tmp_path: Path) -> None:
    params = {"learning_rate": 3e-4, "anneal_lr": False, "num_envs": 8, "ent_coef": -0.5}
    extras = {"wandb_run_name": "mine", "wandb_use_vpn_proxy": True, "algo_params": params}
    settings = {"env_id": "CartPole-v1", "seed": 7, "total_timesteps": 2000, "extras": extras}
    script = ScriptSettings(algo="ppo")
    request = RunRequest(
        "cleanrl",
        "cleanrl_worker.cli",
        "a name",
        {**script.settings(), **settings},
        notes="it's a try",
        tags=("x", "y z"),
        cpus=2,
        tensorboard=False,
        artifacts={"checkpoints": {"enabled": False}},
        max_wallclock_minutes=1.5,
    )
    assert typed_on_the_command_line(train_command(script, request)) == request.config()


def test_a_script_of_ones_own_makes_the_same_run_config_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("")
    script = ScriptSettings(script=str(file))
    settings = {**script.settings(), "seed": 1, "extras": {"algo_params": {}}}
    request = RunRequest("cleanrl", "cleanrl_worker.cli", "mine-s1", settings)
    assert typed_on_the_command_line(train_command(script, request)) == request.config()


def test_the_proxy_of_an_env_file_is_shown_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_VPN_HTTP_PROXY", "WANDB_VPN_HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text("# none\nexport WANDB_VPN_HTTP_PROXY='http://me:word@host:8080' # vpn\n")
    assert proxy_fallback(MosaicPaths(tmp_path / "var")) == f"http://host:8080 (from {tmp_path / '.env'})"


# ---- the form ----------------------------------------------------------------------------------------------------


def test_the_parameters_are_the_scripts_own_and_follow_the_algorithm(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    rate = form.parameters.fields["learning_rate"]
    assert rate.entry == "0.00025" and "Adam" in rate.editor.toolTip() and "--learning-rate" in rate.editor.toolTip()
    assert "clip_coef" in form.parameters.fields and "env_id" not in form.parameters.fields
    rate.put("3e-4")
    form.content.picker.algo.put("dqn")
    qtbot.waitUntil(lambda: form.parameters.is_known and "buffer_size" in form.parameters.fields, timeout=HANG)
    assert "clip_coef" not in form.parameters.fields
    form.content.picker.algo.put("ppo")
    qtbot.waitUntil(lambda: form.parameters.is_known and "clip_coef" in form.parameters.fields, timeout=HANG)
    assert form.parameters.fields["learning_rate"].entry == "3e-4"


def test_a_changed_field_is_marked_and_can_be_reset(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    gamma = form.parameters.fields["gamma"]
    assert gamma.reset_button.isHidden()
    gamma.put("0.9")
    assert not gamma.reset_button.isHidden() and "600" in gamma.label.styleSheet()
    assert params_in(form) == {"gamma": 0.9}
    gamma.reset_button.click()
    assert gamma.entry == "0.99" and gamma.reset_button.isHidden()
    assert params_in(form) == {}


def test_what_is_wrong_stands_under_its_field_and_keeps_launch_from_working(
    open_form: OpenForm, daemon: DaemonProcess
) -> None:
    _, form = open_form(daemon)
    assert form.bar.launch_button.isEnabled(), form.bar.why_not
    rate = form.parameters.fields["learning_rate"]
    rate.put("fast")
    assert "must be a number" in rate.error.text() and not rate.error.isHidden()
    assert not form.bar.launch_button.isEnabled() and form.bar.reason.text().startswith(
        "Learning rate must be a number"
    )
    rate.put("1e-3")
    assert rate.error.isHidden() and form.bar.launch_button.isEnabled()
    form.environment.put("")
    assert not form.environment.told.isHidden() and "environment" in form.bar.why_not


def test_the_environments_are_the_workers_and_what_is_missing_says_how_to_get_it(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    picker = form.environment
    qtbot.waitUntil(lambda: picker.choice.findText("Acrobot-v1") >= 0, timeout=HANG)
    assert picker.choice.findText("PongNoFrameskip-v4") < 0, "ppo does not play Atari games"
    picker.offer([EnvironmentFamily("Box2D", ("gymnasium",), False, "box2d", ("LunarLander-v3",), INSTALLER)])
    picker.put("LunarLander-v3")
    assert "install_extras --set box2d" in picker.told.text() and "install_extras --set box2d" in form.bar.why_not
    picker.copy_button.click()
    clipboard = QApplication.clipboard()
    assert clipboard is not None and clipboard.text() == "python -m cleanrl_worker.tools.install_extras --set box2d"


def test_choosing_an_algorithm_moves_on_from_the_example_environment(
    open_form: OpenForm, daemon: DaemonProcess
) -> None:
    _, form = open_form(daemon)
    form.content.picker.algo.put("sac_continuous_action")
    assert form.environment.env_id == "Pendulum-v1"
    form.environment.put("MountainCarContinuous-v0")
    form.content.picker.algo.put("td3_continuous_action")
    assert form.environment.env_id == "MountainCarContinuous-v0"


def test_cuda_is_disabled_with_the_reason_where_there_is_no_gpu(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    cuda, told = form.content.hardware["cuda"], form.cockpit.bridge.health_changed
    told.emit(pb.Health())
    assert not cuda.editor.isEnabled() and "No GPU" in cuda.editor.toolTip()
    told.emit(pb.Health(capacity=pb.Resources(gpus=1)))
    assert cuda.editor.isEnabled()
    cuda.put(True)
    assert form.request().gpus == 1 and params_in(form) == {"cuda": True}
    told.emit(pb.Health())
    assert form.request().gpus == 0 and params_in(form) == {}


def test_a_dry_run_goes_to_the_notes_with_its_time_and_starts_nothing(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    form.bar.dry_run_button.click()
    assert not form.bar.launch_button.isEnabled()
    qtbot.waitUntil(lambda: "dry run passed" in form.notes_panel.toPlainText(), timeout=HANG)
    text = form.notes_panel.toPlainText()
    assert (
        re.match(r"\d\d:\d\d:\d\d  dry run passed", text) and "--env-id CartPole-v1" in text and "Discrete(2)" in text
    )
    assert form.bar.launch_button.isEnabled() and list(daemon.client.runs().runs) == []


def test_a_refused_dry_run_is_shown_where_it_was_caused(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    form.environment.put("Pendulum-v1")
    form.dry_run()
    qtbot.waitUntil(lambda: "dry run refused" in form.notes_panel.toPlainText(), timeout=HANG)
    assert "discrete action space" in form.environment.told.text() and "discrete" in form.bar.reason.text()
    form.refresh()
    assert "discrete" in form.bar.reason.text(), "it stays while the form is as it was"
    form.environment.put("CartPole-v1")
    assert form.bar.reason.text() == ""


def test_launch_submits_what_was_previewed_and_looks_at_the_run(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit, form = open_form(daemon)
    form.content.run["total_timesteps"].put("1k")
    form.parameters.fields["learning_rate"].put("3e-4")
    form.content.artifacts["checkpoint_every"].put("500")
    form.content.remarks["tags"].put("quick, small")
    previewed = typed_on_the_command_line(form.preview.command)
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        form.bar.launch_button.click()
    run_id = submitted.args[0]
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.last_step) == ("completed", 1000)
    assert cockpit.window.cockpit.selection.ids == [run_id]
    stored = json.loads(run.config_json)
    assert stored["metadata"]["worker"]["config"] == previewed["metadata"]["worker"]["config"]
    assert stored["metadata"]["tags"] == ["quick", "small"] and stored["run_name"] == previewed["run_name"]


def test_a_refusal_of_the_daemon_is_shown_noted_and_logged(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> None:
    _, form = open_form(daemon)
    form.content.hardware["cpus"].put("4000")
    with caplog.at_level(logging.WARNING):
        form.launch()
        qtbot.waitUntil(lambda: "not submitted" in form.notes_panel.toPlainText(), timeout=HANG)
    assert "4000" in form.bar.reason.text() or "4,000" in form.bar.reason.text()
    assert any(LOG_UI_MAINWINDOW_INVALID_CONFIG.code in str(vars(record)) for record in caplog.records)
    assert form.bar.launch_button.isEnabled()


def test_duplicating_a_run_gives_the_same_config_again(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    params = {"learning_rate": 0.001, "anneal_lr": False, "checkpoint_keep": 5, "capture_video": True}
    settings = {"algo": "ppo", "env_id": "Acrobot-v1", "seed": 3, "total_timesteps": 4096}
    request = RunRequest(
        "cleanrl",
        "cleanrl_worker.cli",
        "again",
        {**settings, "extras": {"algo_params": params}},
        notes="a note",
        tags=("one", "two"),
        cpus=2,
        artifacts={"video": {"enabled": True}},
    )
    form.fill_quietly(request.config())
    assert form.request().config() == request.config()


def test_what_is_typed_survives_theme_daemon_and_application(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit, form = open_form(daemon)
    form.content.run["seed"].put("42")
    form.parameters.fields["learning_rate"].put("3e-4")
    form.content.remarks["notes"].put("typed long ago")
    wanted = form.request()
    cockpit.themes.toggle()
    daemon.kill()
    qtbot.waitUntil(lambda: "away" in form.bar.why_not, timeout=HANG)
    daemon.start()
    qtbot.waitUntil(form.bar.launch_button.isEnabled, timeout=HANG)
    assert form.request() == wanted
    cockpit.close()
    _, again = open_form(daemon)
    assert again is not form and again.request() == wanted
    assert again.parameters.fields["learning_rate"].entry == "3e-4"


@pytest.mark.parametrize("damage", [{"script": 5, "params": [1], "run": {"seed": {}}}, {"params": {"ppo||||": 3}}])
def test_a_damaged_memory_leaves_the_defaults(
    open_form: OpenForm, daemon: DaemonProcess, damage: dict[str, Any]
) -> None:
    _, form = open_form(daemon)
    form.put_state(damage)
    assert form.bar.launch_button.isEnabled(), form.bar.why_not
    assert form.request().settings["algo"] == "ppo"


def test_a_checkpoint_can_be_begun_from(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    form.set_checkpoint("", "warm_start")
    assert "checkpoint" in form.bar.why_not
    form.set_checkpoint("some-run@best", "warm_start")
    assert parts_of(form.request().settings).start == Start("warm_start", "some-run@best")
    assert "--warm-start some-run@best" in form.preview.command
    form.content.start.kind.choose("scratch")
    assert parts_of(form.request().settings).start is None


def test_a_checkpoint_that_is_not_there_is_refused_before_anything_is_submitted(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    form.set_checkpoint("nobody@best", "resume")
    form.launch()
    qtbot.waitUntil(lambda: "not submitted" in form.notes_panel.toPlainText(), timeout=HANG)
    assert "checkpoint" in form.bar.reason.text() and list(daemon.client.runs().runs) == []


def test_a_script_of_ones_own_shows_its_own_flags(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--speed', type=float, default=0.5, help='How fast.')\nargs = parser.parse_args()\n"
    )
    _, form = open_form(daemon)
    form.content.picker.source.choose("own")
    assert "script" in form.bar.why_not
    form.content.picker.script_file.put(str(file))
    qtbot.waitUntil(lambda: "speed" in form.parameters.fields, timeout=HANG)
    form.parameters.fields["speed"].put("0.75")
    config = form.request().config()["metadata"]["worker"]["config"]
    assert config["script"] == str(file) and parts_of(config).params == {"speed": 0.75}
    assert not form.content.artifacts["capture_video"].editor.isEnabled()
    assert f"--script {file}" in form.preview.command


def test_flags_that_have_no_field_are_read_by_the_script_s_types(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    form.parameters.more.put("--num-envs 8 --no-anneal-lr")
    assert params_in(form) == {"num_envs": 8, "anneal_lr": False}
    form.parameters.more.put("--num-env 8")
    assert "did you mean '--num-envs'" in form.bar.why_not and not form.bar.launch_button.isEnabled()


def test_nothing_of_the_form_holds_an_api_key(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    form.content.wandb["track"].put(True)
    request = form.request()
    assert params_in(form) == {"track": True}
    assert request.config()["artifacts"]["wandb"] == {"enabled": True}
    assert "WANDB_API_KEY" in form.content.wandb_hint.text()
    assert not any("key" in name for name in form.titles())


def test_wandb_s_name_and_proxy_travel_with_a_tracked_run_only(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    wandb = form.content.wandb
    wandb["wandb_run_name"].put("first try")
    wandb["wandb_use_vpn_proxy"].put(True)
    wandb["wandb_https_proxy"].put("http://vpn:8080")
    assert parts_of(form.request().settings).extras == {}
    wandb["track"].put(True)
    config = form.request().config()
    assert parts_of(config["metadata"]["worker"]["config"]).extras == {
        "wandb_run_name": "first try",
        "wandb_use_vpn_proxy": True,
        "wandb_https_proxy": "http://vpn:8080",
    }
    assert "--extra 'wandb_run_name=first try'" in form.preview.command
    form.put_state({})
    form.fill_quietly(config)
    assert form.request().config() == config


def test_a_form_that_is_reset_has_the_example_environment_again(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    example, typed = form.environment.env_id, "Acrobot-v1"
    form.environment.put(typed)
    before = form.state()
    form.put_state({})
    assert form.environment.env_id == example != typed
    form.put_state(before)
    assert form.environment.env_id == typed


def test_two_columns_only_where_there_is_room(open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot) -> None:
    _, form = open_form(daemon)
    form.content.columns.resize(500, 900)
    assert form.content.columns.count == 1
    form.content.columns.resize(900, 900)
    assert form.content.columns.count == 2


def test_every_control_says_what_it_does_and_has_a_name(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    editors = [editor for group in form.content._all_groups() for editor in group.editors.values()]
    assert len(editors) > 30
    for editor in editors:
        assert editor.editor.toolTip() and editor.editor.accessibleName(), editor.spec.name
    assert isinstance(form.parameters.fields["anneal_lr"].editor, QCheckBox)


def test_a_preset_of_the_worker_is_offered_with_its_evidence_and_fills_the_form(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit, form = open_form(daemon)
    dock = cockpit.window.docks["train"].widget()
    assert isinstance(dock, TrainDock)
    form.content.groups()["run"]["seed"].put("7")
    dock.presets_button.setChecked(True)
    bar = dock.train_presets
    row = bar.choice.findData("dqn tuned for CartPole-v1")
    assert row > 0 and "fresh seeds" in bar.choice.itemData(row, Qt.ItemDataRole.ToolTipRole)
    bar.choice.setCurrentIndex(row)
    bar.choice.activated.emit(row)
    qtbot.waitUntil(lambda: form.parameters.is_known, timeout=HANG)
    settings = form.request().settings
    assert (settings["algo"], settings["env_id"], settings["total_timesteps"]) == ("dqn", "CartPole-v1", 50_000)
    assert settings["seed"] == 7 and params_in(form)["learning_starts"] == 500
    assert not form.has_own_name and not bar.forget_button.isEnabled()


def test_a_page_about_the_algorithm_stands_beside_it(open_form: OpenForm, daemon: DaemonProcess) -> None:
    _, form = open_form(daemon)
    assert "PPO" in form.content.documentation.toPlainText()
    form.content.picker.algo.put("dqn")
    assert "DQN" in form.content.documentation.toPlainText()


def test_the_forms_options_are_options_of_mosaic_train() -> None:
    params = train.get_params(click.Context(train))
    options = {name for param in params if isinstance(param, click.Option) for name in param.opts}
    request = RunRequest(
        "t",
        "m",
        "n",
        {"env_id": "e", "seed": 1, "total_timesteps": 1},
        cpus=2,
        gpus=1,
        memory_mb=5,
        host="any",
        labels=("l",),
        max_wallclock_minutes=1.0,
        notes="note",
        tags=("a",),
        tensorboard=False,
    )
    words = shlex.split(train_command(ScriptSettings("a", True, "dir", "", "b"), request, "w"))
    assert {word for word in words if word.startswith("--")} <= options


def test_an_unbounded_field_takes_what_its_bounds_allow() -> None:
    seed = FieldSpec("seed", "Seed", "int", 1, least=0, most=2**32 - 1)
    assert seed.read(str(2**32 - 1)) == 2**32 - 1
    with pytest.raises(FieldError, match="at most"):
        seed.read(str(2**32))


def test_a_run_is_warm_started_from_another_ones_checkpoint(
    open_form: OpenForm, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, form = open_form(daemon)
    form.content.run["total_timesteps"].put("600")
    with qtbot.waitSignal(form.submitted, timeout=HANG) as first:
        form.launch()
    daemon.wait_over(first.args[0])
    form.set_checkpoint(f"{first.args[0]}@last", "warm_start", "ppo", "CartPole-v1")
    # A warm worker can be done before the moment is over in which a press still counts to the first launch.
    qtbot.waitUntil(lambda: not form.is_resting, timeout=HANG)
    with qtbot.waitSignal(form.submitted, timeout=HANG) as second:
        form.launch()
    run = daemon.wait_over(second.args[0])
    given = parts_of(json.loads(run.config_json)["metadata"]["worker"]["config"]).start
    assert run.outcome == "completed" and given is not None and first.args[0] in given.checkpoint
    form.environment.put("Acrobot-v1")
    qtbot.waitUntil(lambda: not form.is_resting, timeout=HANG)
    form.launch()
    qtbot.waitUntil(lambda: "does not fit" in form.bar.reason.text(), timeout=HANG)
