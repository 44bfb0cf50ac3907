import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from coevolve.journal.journal import Journal
from coevolve.launcher.engines import ANYWHERE, ClusterEngines
from coevolve.launcher.launch import settings
from coevolve.launcher.nodes import Node
from coevolve.runs import starting
from protocols.config import ClusterConfig, PlacementConfig, RunConfig, VllmEngine
from protocols.control import RolloutScaled
from protocols.errors import RunError
from tests.commands import ROOT
from tests.evolving import write
from tests.fakes import ScriptPart, SteadyPart

QUICKSTART = ROOT / "configs/quickstart.yaml"


def node(node_id: str, gpus: float) -> Node:
    resources = {"CPU": 8.0, "GPU": gpus}
    return Node(node_id=node_id, resources=resources, labels={}, is_launchers=node_id == "head")


def engines(config: RunConfig, nodes: Sequence[Node]) -> ClusterEngines:
    return ClusterEngines(config, lambda name, place: SteadyPart(name), lambda: list(nodes))


def with_gpus(quickstart: RunConfig, per_node: int) -> RunConfig:
    """Return a run with one GPU for each engine, the evaluator's included."""
    engine = VllmEngine(gpus=1.0)
    rollout = replace(quickstart.rollout, actors=4, actors_per_node=per_node, engine=engine)
    return replace(quickstart, rollout=rollout)


async def test_ray_chooses_the_nodes_unless_there_is_a_number_per_node(quickstart: RunConfig):
    nodes = [node("head", 2.0), node("a", 4.0), node("b", 0.0)]
    anywhere = await engines(with_gpus(quickstart, 0), nodes).rooms()
    assert anywhere == {ANYWHERE: quickstart.most_rollouts_in_flight}
    assert await engines(with_gpus(quickstart, 3), nodes).rooms() == {"head": 2, "a": 3}


async def test_a_node_without_room_for_an_engine_is_told(quickstart: RunConfig):
    host = engines(with_gpus(quickstart, 3), [node("head", 2.0), node("b", 0.0)])
    await host.rooms()
    (said,) = host.too_small()
    assert "gets no process of rollout, because it has 0 of 1 GPUs" in said
    free = engines(with_gpus(quickstart, 0), [node("b", 0.0)])
    await free.rooms()
    assert not free.too_small()


async def test_engines_for_which_the_cluster_has_no_gpus_are_refused(quickstart: RunConfig):
    host = engines(with_gpus(quickstart, 0), [node("head", 4.0)])
    assert not await host.refusal(3)
    said = await host.refusal(4)
    assert said.startswith("the run needs 5 GPUs (rollout 4 x 1, evaluator 1), and torch finds 4")
    assert "\n" not in said


async def test_the_maximum_may_be_below_the_number_of_a_node(quickstart: RunConfig):
    assert not await engines(with_gpus(quickstart, 3), [node("head", 4.0)]).refusal(1)


async def test_engines_that_would_have_nothing_to_do_are_refused(quickstart: RunConfig):
    most = quickstart.most_rollouts_in_flight
    said = await engines(quickstart, [node("head", 0.0)]).refusal(most + 1)
    assert said.startswith(f"rollout.actors: {most + 1} actors are more than the {most} rollouts")


def test_a_resumed_run_keeps_its_scale_unless_an_override_changes_it(
    tmp_path: Path, quickstart: RunConfig
):
    directory = starting.create(tmp_path / quickstart.name, quickstart)
    journal = Journal.open(directory.store)
    write(journal, [RolloutScaled(cause="request", actors=3, engines=("rollout-0",))])
    journal.close()

    def actors(*overrides: str, resume: bool = True) -> int:
        return settings(QUICKSTART, overrides, tmp_path, resume=resume).rollout.actors

    assert actors() == actors("learner.steps=500") == 3
    assert actors("rollout.actors=2") == 2
    assert actors(resume=False) == quickstart.rollout.actors
    assert actors("name=another") == quickstart.rollout.actors


async def test_engines_for_which_there_are_no_cpus_are_refused(quickstart: RunConfig):
    head = Node(node_id="head", resources={"CPU": 2.0}, labels={}, is_launchers=True)
    host = engines(quickstart, [head])
    assert not await host.refusal(4)
    assert await host.refusal(5) == (
        "rollout.actors: 5 processes that compute on CPUs are more than 2 for each of the 2 CPUs "
        "that the nodes have; ask for at most 4"
    )


async def test_engines_for_which_there_is_no_memory_are_refused(quickstart: RunConfig):
    resources = {"CPU": 1e9}
    large = ScriptPart("rollout-0", [])
    large.pid = os.getpid()
    head = Node(node_id="head", resources=resources, labels={}, is_launchers=True)
    host = ClusterEngines(with_many(quickstart), lambda name, place: large, lambda: [head])
    assert not await host.refusal(100_000)  # nothing is measured before an engine runs
    host.start("rollout-0", ANYWHERE)
    assert not await host.refusal(2)
    said = await host.refusal(100_000)
    assert said.startswith("rollout.actors: 99999 more engines need ")
    assert "each as the largest present one, and this machine has" in said
    joined = replace(with_many(quickstart), cluster=ClusterConfig(address="head:6379"))
    elsewhere = ClusterEngines(joined, lambda name, place: large, lambda: [head])
    elsewhere.start("rollout-0", ANYWHERE)
    assert not await elsewhere.refusal(100_000)  # other machines are not measured


async def test_the_last_known_nodes_count_while_ray_does_not_answer(quickstart: RunConfig):
    answers = [[node("head", 2.0), node("b", 0.0)], None, [node("head", 1.0)]]

    def nodes() -> list[Node]:
        found = answers.pop(0)
        if found is None:
            raise RunError("Ray does not answer")
        return found

    host = ClusterEngines(with_gpus(quickstart, 3), lambda name, place: SteadyPart(name), nodes)
    assert [await host.rooms() for _ in range(2)] == [{"head": 2}] * 2
    assert len(host.too_small()) == 1
    assert await host.rooms() == {"head": 1}
    assert not host.too_small()


def with_many(quickstart: RunConfig) -> RunConfig:
    """Return a run that has rollouts for very many engines."""
    rollout = replace(quickstart.rollout, in_flight_groups=100_000)
    learner = replace(quickstart.learner, max_staleness=1_000_000)
    return replace(quickstart, rollout=rollout, learner=learner)


async def test_only_cpus_where_engines_may_be_count_and_those_on_gpus_need_none(
    quickstart: RunConfig,
):
    placed = replace(
        quickstart,
        cluster=ClusterConfig(address="head:6379"),
        placement=PlacementConfig(rollout="group=few"),
    )
    few = Node(node_id="a", resources={"CPU": 1.0}, labels={"group": "few"}, is_launchers=False)
    many = Node(node_id="head", resources={"CPU": 64.0}, labels={}, is_launchers=True)
    assert not await engines(placed, [few, many]).refusal(2)
    said = await engines(placed, [few, many]).refusal(3)
    assert "more than 2 for each of the 1 CPUs that the nodes have; ask for at most 2" in said
    rich = Node(node_id="head", resources={"CPU": 1.0, "GPU": 9.0}, labels={}, is_launchers=True)
    assert not await engines(with_gpus(quickstart, 0), [rich]).refusal(8)
