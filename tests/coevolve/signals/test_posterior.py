from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.signals import posterior
from coevolve.signals.probability import at_least, at_most, same_rate
from coevolve.signals.rules import Finding
from protocols.evolution import GroupSummary, OnPattern, OnTask, PatternKind
from protocols.evolution_config import SignalsConfig
from tests.coevolve.signals.histories import CONFIG, history_of, visit


def forgetting(visits: Sequence[GroupSummary], config: SignalsConfig = CONFIG) -> list[Finding]:
    return list(posterior.forgetting(config, history_of(visits, config), visits[-1]))


def test_a_clear_drop_is_forgetting_and_says_what_it_saw():
    visits = [visit(7, version=1), visit(7, version=2), visit(1, version=3, group=4)]
    [finding] = forgetting(visits)
    assert finding.about == OnTask(task_id="task")
    assert finding.score == pytest.approx(15 / 18 - 2 / 10)
    assert finding.evidence == visits[-1].evidence
    # The exact value of P is 0.99350.
    assert finding.rule == (
        "posterior forgetting: 14/16 before, 1/8 now, P(drop > 0.2) = 0.993, FDR 0.05 over 1 tasks"
    )


def test_the_evidence_of_forgetting_has_the_rollouts_that_showed_how():
    solved, failed = visit(8, version=1, group=1), visit(0, version=2, group=2)
    [finding] = forgetting([visit(8, version=0), solved, failed])
    assert finding.evidence == (*solved.evidence, *failed.evidence)


def test_no_version_is_compared_with_itself():
    assert forgetting([visit(8, version=1), visit(0, version=2)])
    assert not forgetting([visit(8, version=2), visit(0, version=2)])
    assert not forgetting([visit(8, version=1, version_max=2), visit(0, version=2, version_max=3)])
    assert not forgetting([visit(8, version=3), visit(0, version=2)])
    assert not forgetting([visit(0, version=2)])


def test_visits_of_one_version_are_one_now():
    # 8/8, then 3/8 and 8/8 by one version: 11/16 now is no drop by 0.2 that is certain.
    assert not forgetting([visit(8, version=1), visit(3, version=2), visit(8, version=2)])
    found = forgetting([visit(8, version=1), visit(0, version=2), visit(1, version=2)])
    assert [each.rule.split(", P")[0] for each in found] == [
        "posterior forgetting: 8/8 before, 1/16 now"
    ]


def test_the_best_visit_of_the_past_does_not_stand_for_all():
    past = [visit(successes, version=v) for v, successes in enumerate((6, 1, 2, 1, 2))]
    assert not forgetting([*past, visit(0, version=9)])


def test_visits_beyond_the_window_are_forgotten():
    visits = [visit(8, version=0), visit(0, version=1), visit(0, version=2), visit(0, version=3)]
    assert not forgetting(visits, SignalsConfig(window=2))


@pytest.mark.parametrize(("others", "fires"), [(0, True), (2, True), (3, False)])
def test_false_discoveries_are_bounded_over_the_pool(others: int, fires: bool):
    # 4/4 then 0/4: Fisher's p is 1/70 = 0.0143, between 0.05/4 and 0.05/3.
    pool = [
        visit(2, 4, version=version, task_id=f"same-{task}")
        for task in range(others)
        for version in (1, 2)
    ]
    visits = [*pool, visit(4, 4, version=1), visit(0, 4, version=2)]
    assert bool(forgetting(visits)) == fires


def test_one_discovery_makes_room_for_another():
    # Two of four tasks at 1/70: the second is compared with 2 * 0.05/4 = 0.025.
    pool = [visit(2, 4, version=v, task_id=f"same-{task}") for task in (1, 2) for v in (1, 2)]
    also = [visit(4, 4, version=1, task_id="also"), visit(0, 4, version=2, task_id="also")]
    assert forgetting([*pool, *also, visit(4, 4, version=1), visit(0, 4, version=2)])


def test_tasks_that_cannot_be_compared_are_not_in_the_pool():
    pool = [visit(2, 4, version=1, task_id=f"once-{task}") for task in range(50)]
    assert forgetting([*pool, visit(4, 4, version=1), visit(0, 4, version=2)])


SOME_VISITS = st.lists(
    st.builds(
        lambda task, successes, version: visit(successes, task_id=task, version=version),
        st.sampled_from("abcdefgh"),
        st.integers(0, 8),
        st.integers(0, 6),
    ),
    max_size=60,
)


@given(SOME_VISITS)
def test_the_p_values_are_those_of_every_task_that_can_be_compared(visits: list[GroupSummary]):
    history = history_of(visits, SignalsConfig(window=3))
    compared = [task.before_and_now() for task in history.state.tasks.values()]
    expected = sorted(same_rate(*each) for each in compared if each[0].rollouts)
    kept = history.p_values
    assert [kept.at(rank) for rank in range(len(kept))] == expected


def boundary(visits: Sequence[GroupSummary], config: SignalsConfig = CONFIG) -> list[Finding]:
    return list(posterior.boundary(config, history_of(visits, config), visits[-1]))


def test_boundary_of_eight_by_hand():
    # P(Bin(8, .1) >= 3) = .0381 and >= 2 = .1869; the far tails are below .001.
    assert [k for k in range(9) if boundary([visit(k)])] == [3, 4, 5]
    [finding] = boundary([visit(3)])
    assert finding.score == pytest.approx(4 * 4 * 6 / (10 * 11))
    assert finding.rule == "posterior boundary: 3/8 now, P(0.1 < success < 0.9) >= 0.961"


def test_boundary_pools_a_version_and_leaves_older_ones_out():
    assert not boundary([visit(2)])
    assert boundary([visit(2), visit(3)])
    assert not boundary([visit(8, version=1), visit(2, version=2)])


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.9), (0.05, 0.7), (0.3, 0.95)])
@pytest.mark.parametrize("confidence", [0.6, 0.95, 0.99])
def test_the_band_and_its_confidence_are_those_of_the_run_file(
    low: float, high: float, confidence: float
):
    rollouts, chance = 60, 1 - confidence + 1e-9
    config = SignalsConfig(boundary_low=low, boundary_high=high, confidence=confidence)
    assert [k for k in range(rollouts + 1) if boundary([visit(k, rollouts)], config)] == [
        k
        for k in range(rollouts + 1)
        if at_least(k, rollouts, low) + at_most(k, rollouts, high) <= chance
    ]


def test_the_least_drop_and_the_share_of_false_discoveries_are_those_of_the_run_file():
    visits = [visit(7, version=1), visit(7, version=2), visit(1, version=3)]
    # P(drop > 0.2) is 0.99350; a drop of 0.72 would be the means' own.
    assert forgetting(visits, SignalsConfig(forgetting_drop=0.3))
    assert not forgetting(visits, SignalsConfig(forgetting_drop=0.72))
    assert forgetting(visits, SignalsConfig(false_discovery=0.007))
    assert not forgetting(visits, SignalsConfig(false_discovery=0.006))


def test_a_visit_that_came_late_is_not_pooled_with_those_of_newer_versions():
    newer = [visit(8, version=3), visit(8, version=3)]
    [finding] = boundary([*newer, visit(3, version=2)])
    assert finding.rule.startswith("posterior boundary: 3/8 now")


def test_a_score_is_no_less_than_0_however_eager_the_settings():
    eager = SignalsConfig(false_discovery=1.0, forgetting_drop=0.0)
    [finding] = forgetting([visit(1, version=1), visit(8, version=2)], eager)
    assert finding.score == 0.0


@given(st.integers(1, 200))
def test_boundary_raises_few_false_alarms_at_its_edges_for_any_number_of_rollouts(rollouts: int):
    firing = [k for k in range(rollouts + 1) if boundary([visit(k, rollouts)])]
    if firing:
        assert at_least(firing[0], rollouts, 0.1) <= 0.05
        assert firing == list(range(firing[0], rollouts - firing[0] + 1))


@pytest.mark.parametrize("flips", [0.05, 0.2, 0.4])
def test_verdicts_that_flip_move_both_edges_of_the_band_towards_one_half(flips: float):
    # A task that the policy solves with rate p shows p (1 - flips) + (1 - p) flips successes.
    low, high = (p * (1 - flips) + (1 - p) * flips for p in (0.1, 0.9))
    config, rollouts = SignalsConfig(reward_flip_rate=flips), 400
    firing = [k for k in range(rollouts + 1) if boundary([visit(k, rollouts)], config)]
    # Chance alone explains one success less at the lower edge, and one more at the upper edge.
    assert at_least(firing[0], rollouts, low) <= 0.05 < at_least(firing[0] - 1, rollouts, low)
    assert at_most(firing[-1], rollouts, high) <= 0.05 < at_most(firing[-1] + 1, rollouts, high)


def rare(
    visits: Sequence[GroupSummary], config: SignalsConfig = CONFIG, tools: Sequence[str] = ()
) -> list[Finding]:
    return list(posterior.rare(config, history_of(visits, config, tools), visits[-1]))


LASTING = SignalsConfig(half_life_visits=1e15)
"""Hardly any decay, so that visits can be counted by hand."""


def using(pattern: str, count: int = 1, kind: PatternKind = "tool", group: int = 0) -> GroupSummary:
    return visit(0, group=group, patterns=[(kind, pattern, count)])


def test_a_tool_that_was_never_used_is_rare_once_there_are_visits_enough():
    # .95^58 = .0510, .95^59 = .0485
    assert not rare([using("cd")] * 58, LASTING, ["cd", "mv"])
    [finding] = rare([using("cd")] * 59, LASTING, ["cd", "mv"])
    assert finding.about == OnPattern(kind="tool", pattern="mv")
    assert finding.score == 1.0
    assert finding.evidence == ()
    assert finding.rule == (
        "posterior rare: 0 of 59 visits (half-life 1e+15), P(share < 0.05) >= 0.952"
    )


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("confidence", [0.7, 0.95])
def test_the_share_of_a_rare_pattern_and_its_confidence_are_those_of_the_run_file(
    share: float, confidence: float
):
    config = SignalsConfig(half_life_visits=1e15, rare_share=share, confidence=confidence)
    least = next(n for n in range(1, 99) if (1 - share) ** n <= 1 - confidence)
    assert not rare([using("cd")] * (least - 1), config, ["cd", "mv"])
    assert len(rare([using("cd")] * least, config, ["cd", "mv"])) == 1


def test_a_pattern_below_the_share_of_the_run_file_is_rare():
    visits = [*[using("mv")] * 10, *[using("cd")] * 90]  # one tenth
    wide = SignalsConfig(half_life_visits=1e15, rare_share=0.2)
    assert not rare(visits, LASTING, ["cd", "mv"])
    [finding] = rare(visits, wide, ["cd", "mv"])
    assert finding.score == pytest.approx(1 - 0.1 / 0.2)


def test_only_the_kinds_of_patterns_that_the_run_file_names_are_judged():
    both = [("tool", "cd", 1), ("error_class", "a", 1)]
    seen = visit(0, patterns=[("tool", "cd", 1), ("error_class", "b", 1)])
    visits = [*[visit(0, patterns=both)] * 99, seen]
    for patterns, found in (((), "mvb"), (("tool",), "mv"), (("error_class",), "b")):
        config = SignalsConfig(half_life_visits=1e15, patterns=patterns)
        about = [each.about for each in rare(visits, config, ["cd", "mv"])]
        assert "".join(each.pattern for each in about if isinstance(each, OnPattern)) == found


def test_a_tool_used_long_ago_rests_on_the_rollouts_that_used_it():
    [finding] = rare([using("mv", group=7), *[using("cd")] * 199], LASTING, ["cd", "mv"])
    # P(Bin(200, .05) <= 1) = .95^200 + 200 * .05 * .95^199 = .0004
    assert finding.score == pytest.approx(1 - (1 / 200) / 0.05)
    assert finding.evidence == (701, 702)


def test_a_group_is_one_observation_however_many_calls_it_made():
    assert not rare([using("cd", count=1000)] * 50, LASTING, ["cd", "mv"])


def test_a_visit_counts_with_the_share_of_its_calls():
    half = visit(0, patterns=[("tool", "cd", 3), ("tool", "mv", 3)])
    # Two halves are 1 of 93: P(Bin(93, .05) <= 1) = .0500; of 92: .0522.
    assert not rare([*[using("cd")] * 90, half, half], LASTING)
    [finding] = rare([*[using("cd")] * 92, half, half], LASTING)
    assert finding.rule.startswith("posterior rare: 1 of 94 visits")


def test_patterns_that_are_no_tools_are_asked_for_where_they_occur():
    common = [using("a", kind="error_class")] * 99
    seen = using("b", kind="error_class", group=3)
    assert [each.about for each in rare([*common, seen], LASTING)] == [
        OnPattern(kind="error_class", pattern="b")
    ]
    assert not rare([*common, seen, using("a", kind="error_class")], LASTING)


def test_kinds_are_not_mixed():
    # 99 visits with tools say nothing about errors: 1 of 1 is not rare.
    assert not rare([*[using("cd")] * 99, using("e", kind="error_class")], LASTING)


def test_old_use_is_worth_half_after_the_half_life():
    config = SignalsConfig(half_life_visits=10)
    history = history_of([using("mv"), *[using("cd")] * 10], config)
    assert history.share("tool", "mv").seen == pytest.approx(0.5)
    assert history.share("tool", "cd").visits == pytest.approx(
        sum(0.5 ** (i / 10) for i in range(11))
    )


def test_the_rarest_come_first():
    visits = [
        *[using("cd")] * 150,
        *[using("wc")] * 2,
        using("du"),
    ]
    found = rare(visits, LASTING, ["cd", "du", "pwd", "wc"])
    assert [each.about for each in found] == [
        OnPattern(kind="tool", pattern=tool) for tool in ("pwd", "du", "wc")
    ]
