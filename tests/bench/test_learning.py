"""Tests of the comparisons of the learning studies, and of their refusals."""

from argparse import Namespace
from pathlib import Path

import pytest

from coevolve.commands.grid import Plan
from protocols.errors import ConfigError, RunError
from tests.bench import learning
from tests.bench.learning import STUDIES, plans_of

ROOT = Path(__file__).parents[2]


def planned(
    monkeypatch: pytest.MonkeyPatch, study: str, *, arms: str = "", overrides: tuple[str, ...] = ()
) -> list[Plan]:
    monkeypatch.chdir(ROOT)
    return plans_of(Namespace(study=study, arms=arms, seeds="0-1", overrides=overrides))


@pytest.mark.parametrize("study", STUDIES)
def test_every_arm_has_a_run_of_its_own_for_each_seed(monkeypatch: pytest.MonkeyPatch, study: str):
    plans = planned(monkeypatch, study)
    assert len({plan.name for plan in plans}) == len(plans) == 2 * len(STUDIES[study].arms)
    assert STUDIES[study].reference in STUDIES[study].arms
    batches = {(p.config.learner.groups_per_step, p.config.rollout.group_size) for p in plans}
    assert len(batches) == 1


def test_each_source_is_left_out_where_the_study_says_so(monkeypatch: pytest.MonkeyPatch):
    runs = {plan.arm: plan.config.learner for plan in planned(monkeypatch, "sources")}
    assert runs["imitation"].only_imitates
    assert runs["imitation"].imitation == runs["both"].imitation
    assert runs["gradient"].objective == runs["both"].objective
    none = runs["gradient"].imitation
    assert (none.weight, none.replay_per_step) == (0, 0)


def test_a_collapse_is_made_by_twenty_times_all_rates(monkeypatch: pytest.MonkeyPatch):
    shipped = planned(monkeypatch, "sources", arms="both")[0].config.learner
    plans = planned(monkeypatch, "collapse")
    assert plans
    for plan in plans:
        made = plan.config.learner
        assert made.learning_rate == pytest.approx(20 * shipped.learning_rate)
        assert made.imitation.learning_rate == pytest.approx(20 * shipped.imitation.learning_rate)


def test_unknown_studies_and_arms_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    with pytest.raises(RunError, match="--arms of the study 'sources' needs names among both"):
        planned(monkeypatch, "sources", arms="both,luck")
    with pytest.raises(ConfigError, match="learner"):
        planned(monkeypatch, "sources", overrides=("learner.luck=1",))
    with pytest.raises(SystemExit) as ended:
        learning.main(["sources", "--seeds", "x", "--runs", str(tmp_path / "none")])
    assert ended.value.code == 2
    assert "--seeds needs whole numbers" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
