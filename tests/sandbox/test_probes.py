"""G13: a parser that was taken over sees one document and changes nothing.

A hostile stand-in tries every probe inside the default worker and as a function with --sandbox, under several users,
with the worker started in the queue's folder and elsewhere.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from attack_scenario import AttackScenario, available_users, listening_servers, scenario_for
from inturn.sandbox import layers

ALL_USERS = available_users()
NOT_FOR_ALL = {
    # The kernel itself refuses them to whoever is not root.
    "a user": {
        *("be_root", "become_root", "write_where_root_may", "packets", "mount", "open_file_system", "bpf"),
        *("performance_events", "read_by_handle", "enter_namespace"),
    },
    "root": set[str](),
    "root, closed interpreter": set[str](),
}
ALWAYS_REFUSED = {"write_document"}
OF_THIS_TEST = {"inherited_descriptors"}
"""What the script that takes a layer away leaves open."""


def scene_for(name: str) -> AbstractContextManager[AttackScenario]:
    who = ALL_USERS[name]
    if who is None:
        pytest.skip("this machine or user cannot play that")
    return scenario_for(who)


@pytest.fixture(scope="module", params=list(ALL_USERS))
def scene(request: pytest.FixtureRequest) -> Iterator[AttackScenario]:
    with scene_for(request.param) as made:
        yield made


@pytest.mark.parametrize("inside", [True, False], ids=["in the folder", "elsewhere"])
@pytest.mark.parametrize("processor", ["default", "--sandbox"])
def test_g13_a_parser_that_was_taken_over_is_refused_everything(
    scene: AttackScenario, processor: str, *, inside: bool
) -> None:
    id_ = scene.submit()
    with listening_servers(scene.base) as sockets:
        scene.write_targets(sockets)
        before = scene.snapshot()
        own = [] if processor == "default" else ["--processor", "hostile:act", "--sandbox"]
        worked = scene.run("worker", "--until-empty", "--slots", "1", "--no-upkeep", *own, in_queue_folder=inside)
    assert worked.returncode == 0, worked.stderr
    result = scene.result(id_)
    outcomes = json.loads(result["text"]) if processor == "default" else result
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "refused"} == {}
    assert len(outcomes) > 70
    assert scene.snapshot() == before


@pytest.mark.parametrize("name", ALL_USERS)
def test_g13_the_probes_pass_outside_the_box(name: str) -> None:
    """Otherwise they would show nothing."""
    with (
        scene_for(name) as scene,
        listening_servers(scene.base) as sockets,
        scene.neighbour() as process,
        scene.open_queue(),
    ):
        outcomes = scene.run_unsandboxed({**scene.write_targets(sockets), "worker": process})
    refused = {name for name, outcome in outcomes.items() if outcome == "refused"}
    assert refused - ALWAYS_REFUSED <= NOT_FOR_ALL[name]


@pytest.mark.parametrize("key", ["nothing", *layers.LAYERS_BY_KEY])
@pytest.mark.parametrize("name", ALL_USERS)
def test_g13_without_a_layer_just_those_probes_pass_that_the_table_names(name: str, key: str) -> None:
    with (
        scene_for(name) as scene,
        listening_servers(scene.base) as sockets,
        scene.neighbour() as process,
        scene.open_queue(),
    ):
        outcomes = scene.run_sandboxed(key, {**scene.write_targets(sockets), "worker": process})
        may_search = scene.user.python == sys.executable and scene.user.is_root
        layer = layers.LAYERS_BY_KEY.get(key)
        powers = () if layer is None else layer.exposures(is_root=scene.user.is_root, may_search=may_search)
    passed = {name for name, outcome in outcomes.items() if outcome != "refused"} - OF_THIS_TEST
    assert passed == {probe for power in powers for probe in power.probes}
