from collections.abc import Sequence

import pytest

from coevolve.signals import paper
from coevolve.signals.rules import Finding
from protocols.evolution import GroupSummary, OnPattern, OnTask
from protocols.evolution_config import SignalsConfig
from tests.coevolve.signals.histories import CONFIG, history_of, visit


def forgetting(visits: Sequence[GroupSummary], config: SignalsConfig = CONFIG) -> list[Finding]:
    return list(paper.forgetting(config, history_of(visits, config), visits[-1]))


def test_forgetting_is_good_once_and_not_now():
    visits = [visit(0), visit(6), visit(1), visit(3, group=9)]
    [finding] = forgetting(visits)
    assert finding.about == OnTask(task_id="task")
    assert finding.score == pytest.approx(6 / 8 - 3 / 8)
    assert finding.evidence == visits[-1].evidence
    assert finding.rule == (
        "paper forgetting: 6/8 once, 3/8 now, good from 0.5 on, window 10 visits"
    )


def test_one_half_is_good():
    assert forgetting([visit(4), visit(3)])
    assert not forgetting([visit(8), visit(4)])
    assert not forgetting([visit(3), visit(0)])
    assert not forgetting([visit(0)])


def test_the_window_holds_so_many_visits_before_the_newest():
    config = SignalsConfig(window=2)
    assert forgetting([visit(8), visit(0), visit(0)], config)
    assert not forgetting([visit(8), visit(0), visit(0), visit(0)], config)


def test_boundary_needs_both_outcomes_in_one_group():
    def found(successes: int) -> list[Finding]:
        newest = visit(successes)
        return list(paper.boundary(CONFIG, history_of([visit(1), newest]), newest))

    assert not found(0)
    assert not found(8)
    [finding] = found(2)
    assert finding.score == pytest.approx(4 * 0.25 * 0.75)
    assert finding.rule == "paper boundary: 2/8 in one group"


def test_rare_is_a_tool_of_this_visit_below_the_share_of_all_calls():
    visits = [
        visit(0, patterns=[("tool", "cd", 93), ("tool", "du", 1), ("error_class", "e", 1)]),
        visit(0, group=2, patterns=[("tool", "cd", 1), ("tool", "mv", 4), ("tool", "wc", 1)]),
    ]
    found = list(paper.rare(CONFIG, history_of(visits, tools=["pwd"]), visits[1]))
    # 100 calls in all. `du` is not of this visit, `pwd` was never called.
    assert [each.about for each in found] == [
        OnPattern(kind="tool", pattern="wc"),
        OnPattern(kind="tool", pattern="mv"),
    ]
    assert [each.score for each in found] == pytest.approx([1 - 0.01 / 0.05, 1 - 0.04 / 0.05])
    assert found[1].rule == "paper rare: 4 of 100 calls, below 0.05"
    assert found[1].evidence == visits[1].evidence


def test_exactly_the_share_is_not_rare():
    newest = visit(0, patterns=[("tool", "cd", 95), ("tool", "mv", 5)])
    assert not list(paper.rare(CONFIG, history_of([newest]), newest))
