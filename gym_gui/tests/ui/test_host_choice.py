"""Where a run is to go, chosen in the form."""

from __future__ import annotations

from gym_gui.tests.ui.conftest import OpenForm
from gym_gui.ui.forms.config_entries import hardware_in
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.run_fields import gpus_at
from mosaic_protocol.proto import trainer_pb2 as pb


def health(*hosts: pb.Host, gpus: int = 0) -> pb.Health:
    return pb.Health(capacity=pb.Resources(cpus=4, gpus=gpus), hosts=hosts)


def listed(editor: FieldEditor) -> list[str]:
    combo = editor.editor
    return [combo.itemText(number) for number in range(combo.count())]  # type: ignore[union-attr]


def test_the_host_that_is_chosen_is_asked_for() -> None:
    assert gpus_at(health(), "") == 0
    assert gpus_at(health(pb.Host(name="node1")), "node1") == 1, "nobody has looked there yet"
    reached = pb.Host(name="node2", capacity=pb.Resources(cpus=2, gpus=0))
    assert gpus_at(health(reached), "node2") == 0
    assert gpus_at(health(reached, gpus=2), "any") == 2
    assert gpus_at(health(reached), "gone") == 1, "the daemon refuses it with the nearest name"


def test_hosts_that_come_to_be_known_are_offered_and_a_choice_stays(open_form: OpenForm) -> None:
    _, _, form = open_form()
    editor = form.hardware["host"]
    assert listed(editor) == ["here", "any host"] and form.request().host == ""
    told = form.cockpit.bridge.health_changed
    told.emit(health(pb.Host(name="node1"), pb.Host(name="node2")))
    assert listed(editor) == ["here", "any host", "node1", "node2"]
    editor.put("node2")
    assert form.request().host == "node2"
    assert form.request().config()["resources"]["host"] == "node2"
    told.emit(health(pb.Host(name="node1")))
    assert form.request().host == "node2", "a host that is gone is refused with a sentence, and not exchanged"
    editor.put("any host")
    assert form.request().host == "any"


def test_a_run_of_a_host_is_repeated_there_and_remembered(open_form: OpenForm) -> None:
    _, _, form = open_form()
    form.hardware.put(hardware_in({"resources": {"host": "node9"}}))
    assert form.request().host == "node9", "also while nobody has said that there is such a host"
    form.refresh()
    state = form.state()
    form.hardware.reset()
    assert form.request().host == ""
    form.restore(state)
    assert form.request().host == "node9"
    form.hardware.put(hardware_in({}))
    assert form.request().host == "" and listed(form.hardware["host"])[0] == "here"


def test_a_gpu_can_be_asked_for_where_there_is_one(open_form: OpenForm) -> None:
    _, _, form = open_form()
    told = form.cockpit.bridge.health_changed
    there = pb.Host(name="node1", capacity=pb.Resources(cpus=8, gpus=2))
    told.emit(health(there, pb.Host(name="node2", capacity=pb.Resources(cpus=8))))
    assert "this machine" in form.hardware["cuda"].why_not
    form.hardware["host"].put("node1")
    assert form.hardware["cuda"].why_not == ""
    form.hardware["cuda"].put(True)
    assert form.request().gpus == 1
    form.hardware["host"].put("node2")
    assert "node2" in form.hardware["cuda"].why_not
    assert form.request().gpus == 0
