import random
from functools import partial

import msgspec
import pytest

from coevolve.learning.guard import MOST_BEST, Guard, sign_test
from protocols.learner_config import GuardConfig, LearnerConfig
from protocols.learning import CanaryScores, PolicyRegressed, Returned, StepReport, TaskScore
from tests.bench.guard import POPULATIONS, false_alarms, found

SETTINGS = GuardConfig(max_loss=0.1, chance=0.01)
ONE_COMPARISON = partial(LearnerConfig, steps=10)


def canaries(version: int, passed: str) -> CanaryScores:
    """One mark per canary: 1 passed, 0 did not, a blank failed."""
    scores = [
        TaskScore(task_id=f"c{number}", turns_passed=int(mark), turns_total=1)
        for number, mark in enumerate(passed)
        if mark != " "
    ]
    return CanaryScores(version=version, scores=tuple(scores), errors=passed.count(" "))


def covered(version: int, *coverage: float) -> CanaryScores:
    scores = [
        TaskScore(task_id=f"c{number}", turns_passed=1, turns_total=1, measures={"coverage": each})
        for number, each in enumerate(coverage)
    ]
    return CanaryScores(version=version, scores=tuple(scores), errors=0)


def returned(step: int, to_version: int, rate_factor: float = 0.5) -> StepReport:
    return StepReport(
        step=step,
        groups=(),
        weights_digest="",
        groups_consumed=0,
        metrics={},
        returned=Returned(to_version=to_version, rate_factor=rate_factor),
    )


def folded(*messages: CanaryScores | StepReport | PolicyRegressed, **settings: object) -> Guard:
    tree = msgspec.to_builtins(SETTINGS) | settings
    guard = Guard(ONE_COMPARISON(guard=msgspec.convert(tree, GuardConfig)))
    for message in messages:
        guard.fold(message)
    return guard


GOOD = canaries(0, "1" * 20)
BAD = canaries(10, "1" * 10 + "0" * 10)


@pytest.mark.parametrize(
    ("lost", "gained", "expected"),
    [
        (0, 0, 1.0),
        (0, 3, 1.0),
        (1, 0, 1 / 2),
        (1, 1, 3 / 4),
        (5, 0, 1 / 32),
        (6, 0, 1 / 64),
        (7, 0, 1 / 128),
        # 9 or 10 of 10: (10 + 1) / 1024.
        (9, 1, 11 / 1024),
        # 4, 5 or 6 of 6: (15 + 6 + 1) / 64.
        (4, 2, 22 / 64),
        (2, 2, 11 / 16),
    ],
)
def test_the_sign_test_by_hand(lost: int, gained: int, expected: float):
    assert sign_test(lost, gained) == expected


def test_a_regression_reports_its_counts():
    assert folded(GOOD, BAD).loss() == PolicyRegressed(
        version=10,
        score=0.5,
        best_version=0,
        best_score=1.0,
        lost=10,
        gained=0,
        canaries=20,
        chance=2**-10,
        action="return",
    )


def test_equal_scores_are_no_loss_and_neither_is_a_first_score():
    guard = Guard(ONE_COMPARISON(guard=SETTINGS))
    assert guard.loss() is None
    assert guard.best is None
    assert folded(GOOD).loss() is None
    assert folded(BAD, canaries(20, "1" * 10 + "0" * 10)).loss() is None
    # The same mean of other canaries: 10 lost, 10 gained.
    assert folded(BAD, canaries(20, "0" * 10 + "1" * 10)).loss() is None


def test_a_large_loss_that_chance_explains_is_ignored():
    # 6 of 8: a fall of 0.75, and a chance of one in 64.
    before = canaries(0, "11111100")
    after = canaries(1, "00000000")
    assert folded(before, after).loss() is None
    found = folded(before, after, chance=1 / 64).loss()
    assert found is not None
    assert (found.lost, found.gained, found.chance) == (6, 0, 1 / 64)
    assert folded(before, after, chance=0.0156).loss() is None


def test_a_small_but_certain_loss_is_ignored():
    # 8 of 100: a fall of 0.08, and a chance of one in 256.
    before, after = canaries(0, "1" * 100), canaries(1, "1" * 92 + "0" * 8)
    assert folded(before, after).loss() is None
    assert folded(before, after, max_loss=0.08 + 1e-9).loss() is None
    assert folded(before, after, max_loss=0.079).loss() is not None


def test_gains_are_set_against_losses():
    # 11 lost and 1 gained of 20: a chance of 13 in 4096. With 6 gained it is about one in 6.
    before = canaries(0, "1" * 11 + "0" * 9)
    after = canaries(1, "0" * 11 + "1" + "0" * 8)
    found = folded(before, after).loss()
    assert found is not None
    assert (found.lost, found.gained, found.chance) == (11, 1, 13 / 4096)
    assert found.score == pytest.approx(0.05)
    assert folded(before, canaries(1, "0" * 11 + "1" * 6 + "000")).loss() is None


def test_only_canaries_that_both_versions_have_a_score_of_are_compared():
    before = canaries(0, "1" * 18 + "  ")
    found = folded(before, canaries(1, "  " + "0" * 16 + "11")).loss()
    assert found is not None
    assert (found.canaries, found.lost, found.score, found.best_score) == (16, 16, 0.0, 1.0)


def test_coverage_is_compared_as_it_is_and_rounding_is_no_difference():
    before = covered(0, *[0.9] * 10)
    assert folded(before, covered(1, *[0.9 - 1e-12] * 10), max_loss=0.0).loss() is None
    found = folded(before, covered(1, *[0.5] * 9, 1.0)).loss()
    assert found is None  # 9 lost and 1 gained: 11 of 1024
    found = folded(before, covered(1, *[0.5] * 10)).loss()
    assert found is not None
    assert (found.score, found.best_score, found.lost) == (
        pytest.approx(0.5),
        pytest.approx(0.9),
        10,
    )


def test_of_equally_good_versions_the_newest_is_the_best():
    guard = folded(canaries(0, "1100"), canaries(10, "0011"), canaries(20, "0001"))
    assert guard.best == 10
    assert guard.needed == {10}


def test_a_version_is_compared_with_the_best_and_not_with_the_one_before():
    half = canaries(10, "1" * 16 + "0" * 4)
    found = folded(GOOD, half, canaries(20, "1" * 12 + "0" * 8)).loss()
    assert found is not None
    assert (found.version, found.best_version, found.lost) == (20, 0, 8)


def test_a_loss_is_reported_once():
    loss = folded(GOOD, BAD, action="warn").loss()
    assert loss is not None
    assert loss.action == "warn"
    guard = folded(GOOD, BAD, action="warn")
    assert guard.loss() == loss == guard.loss()
    guard.fold(loss)
    assert guard.loss() is None
    guard.fold(canaries(20, "1" * 10 + "0" * 10))
    again = guard.loss()
    assert again == msgspec.structs.replace(loss, version=20)


def test_a_version_that_recovers_is_no_loss():
    guard = folded(GOOD, BAD)
    guard.fold(canaries(20, "1" * 20))
    assert guard.loss() is None
    assert guard.best == 20


def test_a_guard_that_does_nothing_finds_nothing():
    assert folded(GOOD, BAD, action="none").loss() is None


def test_abandoned_versions_are_never_compared():
    guard = folded(canaries(0, "1" * 19 + "0"), canaries(10, "1" * 20), canaries(20, "0" * 20))
    loss = guard.loss()
    assert loss is not None
    guard.fold(loss)
    guard.fold(returned(24, 10))
    assert guard.abandoned == set(range(11, 24))
    assert guard.loss() is None
    # Late scores of an abandoned version are ignored.
    guard.fold(canaries(23, "0" * 20))
    assert guard.loss() is None
    guard.fold(canaries(22, "1" * 20))
    assert guard.best == 10
    guard.fold(canaries(24, "1" * 20))
    assert guard.best == 24
    assert guard.loss() is None


def test_weights_that_were_returned_to_are_needed_for_ever():
    guard = folded(GOOD, BAD, returned(12, 0))
    assert guard.needed == {0}
    guard.fold(canaries(20, "1" * 20))
    assert guard.needed == {0, 20}
    guard.fold(returned(35, 20, 0.25))
    guard.fold(canaries(40, "1" * 20))
    assert guard.needed == {0, 20, 40}
    assert guard.abandoned == {*range(1, 12), *range(21, 35)}


def test_the_rate_factor_is_that_of_the_last_return():
    assert folded(GOOD, BAD).rate_factor == 1.0
    assert folded(returned(12, 0)).rate_factor == 0.5
    assert folded(returned(12, 0), returned(20, 0, 0.25)).rate_factor == 0.25


def test_scored_versions_include_abandoned_ones():
    guard = folded(GOOD, BAD, returned(12, 0), canaries(20, "1" * 20))
    assert [guard.is_scored(version) for version in (0, 10, 12, 20)] == [True, True, False, True]


def test_scores_of_tasks_that_all_failed_are_none_and_nothing_more_is_waited_for():
    guard = folded(GOOD, canaries(10, " " * 20))
    assert guard.loss() is None
    assert guard.best == 0
    assert guard.is_scored(10)


def test_a_guard_that_is_rebuilt_judges_alike():
    records = [GOOD, canaries(10, "1" * 20), BAD, canaries(20, "0" * 20), returned(23, 10)]
    records += [canaries(30, "1" * 18 + "00"), canaries(40, "0" * 20)]
    live = folded()
    for count, record in enumerate(records, start=1):
        live.fold(record)
        rebuilt = folded(*records[:count])
        assert rebuilt.loss() == live.loss()
        assert (rebuilt.best, rebuilt.needed) == (live.best, live.needed)
        assert rebuilt.abandoned == live.abandoned


def test_a_half_scored_version_is_neither_best_nor_judged():
    lucky = canaries(10, "1" * 2 + " " * 18)
    guard = folded(GOOD, lucky)
    assert guard.best == 0
    assert guard.is_scored(10)
    assert guard.loss() is None
    guard.fold(canaries(20, "0" * 20))
    loss = guard.loss()
    assert loss is not None
    assert (loss.version, loss.best_version) == (20, 0)


def test_the_comparisons_of_a_run_share_its_chance():
    nine = canaries(10, "1" * 11 + "0" * 9)
    for steps, is_lost in ((10, True), (40, True), (100, False)):
        guard = Guard(LearnerConfig(steps=steps, guard=SETTINGS))
        guard.fold(GOOD)
        guard.fold(nine)
        # A chance of one in 512, compared with one in 100, 400 and 1000.
        assert (guard.loss() is not None) == is_lost


def test_more_versions_to_choose_the_best_from_need_a_clearer_loss():
    # 11 of 11 lost: a chance of one in 2,048, compared with one in 1,000 times the versions before.
    for earlier, is_lost in ((1, True), (2, True), (3, False)):
        guard = Guard(LearnerConfig(steps=100, guard=SETTINGS))
        for number in range(earlier):
            guard.fold(canaries(10 * number, "1" * 20))
        guard.fold(canaries(10 * earlier, "0" * 11 + "1" * 9))
        assert (guard.loss() is not None) == is_lost


def test_abandoned_versions_do_not_make_a_loss_harder_to_find():
    guard = Guard(LearnerConfig(steps=100, guard=SETTINGS))
    for message in (GOOD, canaries(10, "1" * 8 + "0" * 12), canaries(20, "1" * 20)):
        guard.fold(message)
    guard.fold(returned(21, 0))
    guard.fold(canaries(30, "0" * 11 + "1" * 9))
    assert guard.loss() is not None


@pytest.mark.parametrize("seed", range(20))
def test_scores_that_were_forgotten_are_never_the_newest_or_the_best(seed: int):
    chance = random.Random(seed)
    guard = folded()
    known: dict[int, int] = {}
    for version in range(0, 400, 2):
        solved = chance.randint(0, 20)
        guard.fold(canaries(version, "1" * solved + "0" * (20 - solved)))
        known[version] = solved
        if chance.random() < 0.1:
            best = max(known, key=lambda each: (known[each], each))
            guard.fold(returned(version + 1, best))
            known = {each: known[each] for each in known if each <= best}
        assert guard.best == max(known, key=lambda each: (known[each], each))
        dumped = guard.state.scores
        assert max(dumped) == max(known)
        assert len(dumped) <= MOST_BEST + 1


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("comparisons", "runs"), [(12, 1000), (100, 200)])
def test_at_most_one_run_in_a_hundred_raises_a_false_alarm(
    population: str, comparisons: int, runs: int
):
    alarms = false_alarms(POPULATIONS[population], comparisons, runs)
    error = (runs * 0.01 * 0.99) ** 0.5
    assert alarms <= runs * 0.01 + 2 * error


@pytest.mark.parametrize(
    ("before", "after", "comparisons", "least"),
    [(0.3, 0.0, 12, 95), (0.3, 0.0, 100, 90), (0.5, 0.2, 12, 65), (0.8, 0.4, 100, 75)],
)
def test_a_large_loss_is_found_at_once(before: float, after: float, comparisons: int, least: int):
    assert found(before, after, comparisons, runs=100) >= least
