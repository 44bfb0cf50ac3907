import msgspec
import pytest

from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.history.costs import Costs
from protocols.evolution import (
    Admitted,
    CallPurpose,
    CandidateVerdict,
    GroupSummary,
    ModelCall,
    Parked,
    ProbeReport,
    SignalSettled,
)
from protocols.journal import Message
from protocols.learning import StepReport, TrainedGroup
from protocols.tasks import Continued, Instantiated, Origin, Seeded, Synthesized, Task, body_of

SYNTHESIZED = Synthesized(candidate_id="c", signal_id="s")


def task(task_id: str, origin: Origin) -> Task:
    body = ToolTask(classes=(), world="{}", turns=(ToolTurn(instruction="do", reference=("f()",)),))
    return Task(task_id=task_id, split="train", origin=origin, skills=(), body=body_of(body))


def step(number: int, *task_ids: str) -> StepReport:
    return StepReport(
        step=number,
        groups=tuple(
            TrainedGroup(
                group_id=f"{number}-{index}",
                group=index,
                task_id=task_id,
                sequences=(),
                successes=1,
                use="policy_gradient",
            )
            for index, task_id in enumerate(task_ids)
        ),
        weights_digest="",
        groups_consumed=0,
        metrics={},
    )


def visit(rollouts: int, tokens: int, calls: int) -> GroupSummary:
    return GroupSummary(
        group_id="g",
        group=0,
        task_id="a",
        root="a",
        version_min=0,
        version_max=0,
        successes=0,
        rollouts=rollouts,
        errors=8 - rollouts,
        surprise=0.0,
        sampled_tokens=tokens,
        calls=calls,
        patterns=(),
        evidence=(),
    )


def probe(rollouts: int) -> ProbeReport:
    return ProbeReport(
        probe_id="p",
        candidate_id="c",
        successes=0,
        rollouts=rollouts,
        errors=0,
        policy_version=1,
        sampled_tokens=30,
        calls=5,
    )


def verdict(outcome: Admitted | Parked) -> CandidateVerdict:
    return CandidateVerdict(
        candidate_id="c",
        signal_id="s",
        synthesizer="m",
        outcome=outcome,
        policy_version=1,
        simulator_calls=11,
    )


def call(ordinal: int, purpose: CallPurpose = "reflect") -> ModelCall:
    return ModelCall(
        signal_id="s",
        ordinal=ordinal,
        purpose=purpose,
        kind="boundary",
        model="m",
        prompt="",
        answer="",
        prompt_tokens=100,
        answer_tokens=20,
        cost_usd=0.25,
        wall_s=1.0,
    )


ADMITTED = Admitted(task_id="b", label="learnable", probe_successes=1, probe_rollouts=4)
SETTLED = SignalSettled(
    signal_id="s",
    kind="boundary",
    outcome="synthesized",
    reason="",
    synthesizer="m",
    candidates=1,
    simulator_calls=48,
)


def folded(*messages: Message) -> Costs:
    costs = Costs()
    for message in messages:
        costs.fold(message)
    return costs


def test_training_groups_are_counted_by_the_origin_of_their_task():
    costs = folded(
        task("a", Seeded(source="test")), task("b", SYNTHESIZED), step(1, "a", "b"), step(2, "b")
    )
    assert (costs.seed_tasks, costs.synthesized_tasks) == (1, 1)
    assert (costs.groups, costs.synthesized_groups) == (3, 2)
    assert costs.synthesized_share == pytest.approx(2 / 3)


def test_a_group_that_continues_a_synthesized_task_counts_as_synthesized():
    following = task("b/1", Continued(root="b", rollout="g0/1"))
    costs = folded(task("b", SYNTHESIZED), following, step(1, "b/1"))
    assert (costs.synthesized_tasks, costs.synthesized_groups) == (1, 1)


def test_only_the_tasks_used_last_are_told_apart():
    costs = Costs(most_tasks=10)
    made = ("a", "b", *(f"t{number}" for number in range(10)))
    for message in (*(task(each, SYNTHESIZED) for each in made), step(1, "a", "b", "t5")):
        costs.fold(message)
    assert (costs.groups, costs.synthesized_groups, len(costs.known)) == (3, 1, 10)
    fewer = Costs(most_tasks=3)
    fewer.state = costs
    fewer.fold(task("c", SYNTHESIZED))
    assert list(fewer.known) == ["t9", "t5", "c"]


def test_neither_held_out_tasks_nor_instances_are_training_tasks():
    seeded = task("a", Seeded(source="test"))
    held_out = msgspec.structs.replace(seeded, task_id="h", split="held_out")
    instance = task("a@7", Instantiated(root="a", instance=7))
    costs = folded(seeded, held_out, instance, step(1, "a"))
    assert (costs.seed_tasks, costs.synthesized_tasks, list(costs.known)) == (1, 0, ["a"])


def test_failed_and_retried_rollouts_are_counted_among_all_that_were_asked_for():
    retried = msgspec.structs.replace(visit(6, 50, 10), retried=3)
    costs = folded(retried, visit(8, 100, 20), msgspec.structs.replace(probe(3), errors=1))
    amounts = {line.name.strip(): line.text for line in costs.lines()}
    assert amounts["share of failed rollouts, training"] == "12.5 %"  # 2 of 16
    assert amounts["share of failed rollouts, probing"] == "25.0 %"
    assert amounts["rollouts of a later try, training"] == "3"
    assert amounts["rollouts of a later try, probing"] == "0"


def test_a_task_that_was_recorded_twice_is_one_task():
    assert folded(task("b", SYNTHESIZED), task("b", SYNTHESIZED)).synthesized_tasks == 1


def test_work_for_training_probing_exploring_and_judging_is_counted_apart():
    costs = folded(
        visit(8, 100, 20), visit(6, 50, 10), probe(4), SETTLED, verdict(Parked(probe_rollouts=4))
    )
    assert (costs.visits, costs.training.rollouts, costs.training.errors) == (2, 14, 2)
    assert (costs.training.tokens, costs.training.simulator_calls) == (150, 30)
    assert (costs.probing.rollouts, costs.probing.tokens, costs.probing.simulator_calls) == (
        4,
        30,
        5,
    )
    assert (costs.exploring_calls, costs.judging_calls) == (48, 11)
    assert costs.simulator_calls == 30 + 5 + 48 + 11


def test_tokens_and_money_are_divided_among_the_admitted():
    costs = folded(
        call(0), call(1), call(2), call(3), verdict(Parked(probe_rollouts=4)), verdict(ADMITTED)
    )
    assert (costs.synthesizing.prompt_tokens, costs.synthesizing.answer_tokens) == (400, 80)
    assert costs.tokens_per_admitted == 480
    assert costs.cost_usd_per_admitted == 1.0


def test_calls_that_read_instructions_are_counted_with_the_others_and_apart():
    costs = folded(call(0), call(1, "read"), call(2, "teach"))
    assert (costs.synthesizing.calls, costs.reading.calls, costs.teaching.calls) == (2, 1, 1)
    amounts = {line.name.strip(): line.text for line in costs.lines()}
    assert amounts["of these, tokens that read instructions"] == "120"
    assert amounts["of these, cost of reading instructions"] == "0.2500 USD"


def test_a_new_run_has_costs_without_ratios():
    costs = folded()
    amounts = {line.name.strip(): line.text for line in costs.lines()}
    assert amounts["training groups"] == "0"
    assert amounts["share of the training groups"] == "none yet"
    assert amounts["synthesizer, cost"] == "0.0000 USD"
