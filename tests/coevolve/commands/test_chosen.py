"""How long a run is said to take, and how many steps are chosen for it."""

from dataclasses import replace

import pytest
from msgspec.structs import asdict

from coevolve.commands.chosen import limits, training
from coevolve.commands.duration import (
    ALONE,
    DELIVERY_S,
    PROBED,
    REPLAYED,
    RUN_S,
    STEPS,
    Measured,
    Pace,
    replayed,
    run_seconds,
)
from coevolve.environments.tools.lengths import Lengths
from protocols.config import RunConfig


def known(*, held_out: int = 12, references: bool = True, cores: int = 2) -> Measured:
    return Measured(
        weights=134_500_000,
        trained_before=True,
        positions=2048,
        cache_bytes_a_token=1,
        lengths=Lengths(prompts=200, conversation=300, message=20, answer=20, turns=1),
        references=references,
        held_out=held_out,
        cores=cores,
        free_bytes=1 << 33,
        free_disk=1 << 40,
    )


def pace(
    attempt_s: float, row_s: float, *, success: float = 0.0, makes_tasks: bool = False
) -> Pace:
    return Pace(attempt_s=attempt_s, row_s=row_s, success=success, makes_tasks=makes_tasks)


def settings(found: Pace, of: Measured, steps: int = 0) -> dict[str, tuple[object, str]]:
    return {each.key: (each.value, each.why) for each in training(of, found, "lora", steps)}


def test_a_run_takes_its_warm_start_its_later_steps_and_its_scores():
    # 9 warm steps of 2 references, 3 of 8 rollouts, replay in both; scores at 0, 3, 6, 9 and 12.
    warm = 9 * (DELIVERY_S + (2 + REPLAYED[0]) * 2.0)
    later = 3 * (DELIVERY_S + (8 + REPLAYED[0]) * 2.0)
    scores = 5 * 12 * 0.5 * ALONE
    assert run_seconds(pace(0.5, 2.0), 2, 4, known(), 12) == pytest.approx(warm + later + scores)


def test_a_run_that_begins_without_a_warm_start_has_later_steps_alone():
    found = run_seconds(pace(0.5, 2.0, success=0.5), 2, 4, known(), 12)
    steps = 12 * (DELIVERY_S + (8 + REPLAYED[0]) * 2.0)
    assert found == pytest.approx(steps + 5 * 12 * 0.5 * ALONE)


@pytest.mark.parametrize(("row_s", "again"), [(4.0, 8), (1.0, 11), (0.9, 12), (0.1, 16)])
def test_references_are_replayed_until_the_engine_is_done(row_s: float, again: int):
    assert replayed(pace(1.0, row_s), 2, 4, known()) == again  # 8 attempts take 12.8 s
    assert replayed(pace(1.0, row_s), 2, 4, known(cores=1)) == REPLAYED[0]


def test_references_teach_a_pretrained_model_in_two_updates_a_step():
    assert settings(pace(1.0, 1.0), known())["learner.mini_batches"][0] == 2
    for other in (replace(known(), weights=400_000), known(references=False)):
        assert "learner.mini_batches" not in settings(pace(1.0, 1.0), other)


def test_groups_that_teach_nothing_are_spared_where_attempts_are_slow():
    made = settings(pace(1.0, 1.0, makes_tasks=True), known())
    assert (made["learner.refill_batches"][0], made["pool.retire_after"][0]) == (1, 1)
    assert "pool.retire_after" not in settings(pace(1.0, 1.0), known())
    small = settings(pace(1.0, 1.0, makes_tasks=True), replace(known(), weights=400_000))
    assert not {"learner.refill_batches", "pool.retire_after"} & set(small)


def test_an_interrupt_may_wait_for_a_slow_step_and_its_checkpoint():
    quick, slow = (settings(pace(1.0, row_s), known())["cluster.stop_s"][0] for row_s in (1.0, 9.0))
    assert isinstance(quick, int)
    assert isinstance(slow, int)
    assert slow > quick > 3 * 8 * ALONE
    assert "cluster.stop_s" not in settings(pace(1.0, 1.0), replace(known(), weights=400_000))


def test_probes_of_made_tasks_lengthen_steps_where_attempts_decide():
    slow = [pace(9.0, 0.1, success=1.0, makes_tasks=made) for made in (False, True)]
    plain, made = (run_seconds(each, 2, 4, known(held_out=0), 10) for each in slow)
    more = 10 * 8 * 9.0 * ALONE * (1 / (1 - PROBED) - 1)
    assert made - plain == pytest.approx(more)


@pytest.mark.parametrize("held_out", [4, 12, 100])
@pytest.mark.parametrize("row_s", [0.1, 2.0, 4.0, 40.0])
def test_as_many_steps_are_chosen_as_fit_twenty_minutes_and_the_time_is_said(
    row_s: float, held_out: int
):
    found, of = pace(1.0, row_s), known(held_out=held_out)
    value, why = settings(found, of)["learner.steps"]
    assert isinstance(value, int)
    least, most = STEPS
    assert least <= value <= most
    if value > least:
        assert run_seconds(found, 2, 4, of, value) <= RUN_S
    if value < most:
        assert run_seconds(found, 2, 4, of, value + 1) > RUN_S
    assert why.startswith(f"about {run_seconds(found, 2, 4, of, value) / 60:.0f} minutes: ")


@pytest.mark.parametrize(
    ("weights", "memory_gb", "disk_gb", "train"),
    [
        (400_000, 1, 1, "full"),
        (134_500_000, 15, 18, "full"),
        (134_500_000, 14, 18, "lora"),
        (134_500_000, 15, 17, "lora"),
        (361_000_000, 40, 50, "full"),
        (361_000_000, 35, 50, "lora"),
        (596_000_000, 256, 999, "lora"),
    ],
)
def test_all_weights_learn_where_they_are_few_and_fit_memory_and_disk(
    weights: int, memory_gb: int, disk_gb: int, train: str
):
    free = {"free_bytes": memory_gb * 10**9, "free_disk": disk_gb * 10**9}
    found = {each.key: each for each in limits(replace(known(), weights=weights, **free))}
    assert found["policy.train"].value == train
    assert ("learner.micro_batch_tokens" in found) == (weights > 20_000_000)
    if weights == 134_500_000:
        assert "11.6 GB of memory and 14.0 GB of disk" in found["policy.train"].why
        assert ("learner.keep_checkpoints" in found) == (train == "full")


def test_the_share_of_probes_is_the_default_of_the_setting():
    assert asdict(RunConfig(name="x").validator)["probe_share"] == PROBED
