from coevolve.launcher.fitting import demands, missing_labels, unfit
from coevolve.launcher.nodes import Node
from protocols.config import (
    ClusterConfig,
    LearnerConfig,
    PlacedPart,
    PlacementConfig,
    PolicyConfig,
    RolloutConfig,
    RunConfig,
    VllmEngine,
)

HEAD = "10.0.0.1:6379"


def node(cpus: float = 0.0, gpus: float = 0.0, *, launchers: bool = False, **labels: str) -> Node:
    return Node(resources={"CPU": cpus, "GPU": gpus}, labels=labels, is_launchers=launchers)


def placed(actors: int = 1, *, cpus: dict[PlacedPart, float], **nodes: str) -> RunConfig:
    return RunConfig(
        name="placed",
        rollout=RolloutConfig(actors=actors),
        cluster=ClusterConfig(address=HEAD),
        placement=PlacementConfig(cpus=cpus, **nodes),
    )


def too_few(config: RunConfig, *nodes: Node, resource: str = "CPU") -> list[str]:
    return unfit(demands(config), nodes, HEAD, resource)


def test_processes_that_fit_their_nodes_exactly_are_accepted():
    config = placed(3, cpus={"rollout": 2.0, "evaluator": 0.5}, rollout="group=gpu")
    assert not too_few(config, node(4.0, group="gpu"), node(2.0, group="gpu"), node(0.5))


def test_a_process_is_not_divided_between_nodes():
    config = placed(2, cpus={"rollout": 3.0}, rollout="group=gpu")
    (said,) = too_few(config, node(5.0, group="gpu"), node(2.0, group="gpu"), node(64.0))
    assert said == (
        "placement: the run reserves 6 CPUs (rollout 2 x 3), and the nodes with the label group=gpu"
        " have 5 + 2, and a process needs all of its CPUs on one node; add one by `ray start "
        f"--address={HEAD} --num-cpus=3 --labels group=gpu`, or lower placement.cpus"
    )


def test_parts_that_fit_alone_are_added_up():
    config = placed(cpus={"learner": 3.0, "evaluator": 2.0}, learner="group=gpu")
    (said,) = too_few(config, node(3.0, group="gpu"), node(1.0, launchers=True))
    assert "reserves 5 CPUs (learner 3, evaluator 2), and the nodes of the cluster" in said


def test_the_launchers_node_is_refused_by_itself_and_wider_kinds_are_not_told_again():
    config = placed(cpus={"curriculum": 4.0, "learner": 90.0})
    (said,) = too_few(config, node(2.0, launchers=True), node(64.0))
    assert "reserves 4 CPUs (curriculum 4), and the launcher's node has 2;" in said


def test_a_learner_needs_all_of_its_gpus_on_one_node():
    config = RunConfig(
        name="placed",
        policy=PolicyConfig(device="cuda"),
        learner=LearnerConfig(devices=4),
        cluster=ClusterConfig(address=HEAD),
    )
    (said,) = too_few(config, node(gpus=2.0), node(gpus=2.0), resource="GPU")
    assert "reserves 4 GPUs (learner 4)" in said
    assert "have 2 + 2, and a process needs all of its GPUs on one node" in said
    assert not too_few(config, node(gpus=4.0), resource="GPU")


def sharing(actors: int, engine: float, learner: float) -> RunConfig:
    """A learner and engines that reserve shares of GPUs."""
    return RunConfig(
        name="shared",
        policy=PolicyConfig(device="cuda"),
        learner=LearnerConfig(gpus=learner),
        rollout=RolloutConfig(actors=actors, engine=VllmEngine(gpus=engine)),
        cluster=ClusterConfig(address=HEAD),
    )


def test_learner_and_engine_may_share_a_gpu():
    assert not too_few(sharing(1, 0.4, 0.6), node(gpus=1.0), resource="GPU")
    (said,) = too_few(sharing(1, 0.6, 0.6), node(gpus=1.0), resource="GPU")
    assert "reserves 1.2 GPUs (learner 0.6, rollout 1 x 0.6)" in said


def test_a_share_of_a_gpu_is_not_put_together_from_several():
    (said,) = too_few(sharing(3, 0.6, 0.1), node(gpus=2.0), resource="GPU")
    assert "rollout 3 x 0.6" in said
    assert not too_few(sharing(3, 0.6, 0.1), node(gpus=2.0), node(gpus=1.0), resource="GPU")
    assert not too_few(sharing(4, 0.45, 0.1), node(gpus=2.0), resource="GPU")


def test_a_label_that_no_node_has_names_every_part_that_needs_it():
    config = placed(cpus={"rollout": 9.0}, rollout="group=gpu", evaluator="group=gpu")
    nodes = [node(2.0, zone="a")]
    (said,) = missing_labels(demands(config), nodes, HEAD)
    assert said.startswith("placement.rollout, placement.evaluator: needs a node with the label ")
    assert "has none (its nodes have zone=a); start one with" in said
    assert not too_few(config, *nodes)


def test_a_part_that_the_arm_does_not_have_needs_no_node():
    config = RunConfig(
        name="placed",
        arm="static",
        cluster=ClusterConfig(address=HEAD),
        placement=PlacementConfig(synthesizer="group=gpu"),
    )
    assert not missing_labels(demands(config), [node()], HEAD)
