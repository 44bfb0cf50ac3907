import json
from pathlib import Path

import msgspec
import pytest

from coevolve.commands import calibrate_planted
from coevolve.commands.calibrate import LIMIT, worst
from coevolve.config.load import load_config
from coevolve.history.directory import RunDirectory, RunIdentity
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.signals.calibration import Rate, Size, calibrate
from protocols.config import RolloutConfig, RunConfig
from protocols.journal import Append, Receipt
from tests.coevolve.signals.test_planted import visit
from tests.commands import answered

SMALL = Size(tasks=400, patterns=6, pools=3)


@pytest.fixture(scope="module")
def rates() -> list[Rate]:
    return calibrate(RunConfig(name="test"), size=SMALL)


def test_posterior_rules_keep_their_false_alarms_at_every_level(rates: list[Rate]):
    assert worst(rates, "posterior").rate <= LIMIT
    kinds = {each.kind for each in rates if each.meaning == "false alarm"}
    assert kinds == {"forgetting", "boundary", "unsolved", "rare", "uncertainty"}


def test_the_papers_forgetting_fires_on_noise(rates: list[Rate]):
    # 1 - (1 - P(X < 4))^10 good once, times P(X < 4) bad now, X ~ Bin(8, 0.3): 0.713.
    [rate] = [
        each.rate
        for each in rates
        if (each.rules, each.situation) == ("paper", "p = 0.30 all along, 11 visits")
    ]
    assert rate == pytest.approx(0.713, abs=0.08)


def test_false_discoveries_in_a_pool_are_few_and_drops_are_found(rates: list[Rate]):
    pool = {
        (each.rules, each.meaning): each.rate for each in rates if "of 100 tasks" in each.situation
    }
    assert pool["posterior", "false discoveries"] <= LIMIT < pool["paper", "false discoveries"]
    assert pool["posterior", "detection"] > 0.2


@pytest.mark.parametrize("group_size", [pytest.param(7, marks=pytest.mark.exhaustive), 16])
def test_other_group_sizes_keep_the_limit(group_size: int):
    config = RunConfig(name="test", rollout=RolloutConfig(group_size=group_size))
    assert worst(calibrate(config, size=SMALL, seed=1), "posterior").rate <= LIMIT


def test_the_same_seed_measures_the_same():
    tiny = Size(tasks=20, patterns=1, pools=1)
    config = RunConfig(name="test")
    assert calibrate(config, size=tiny, seed=3) == calibrate(config, size=tiny, seed=3)


def test_the_command_prints_counts_as_json():
    answer = answered("calibrate", "--json", "--histories", "200")
    assert answer.returncode == 0
    assert msgspec.convert(json.loads(answer.stdout), list[Rate])


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return the folder of a run with a hundred versions, in which nothing is lost."""
    directory = RunDirectory(tmp_path / "recorded")
    directory.path.mkdir()
    directory.write_config(load_config("quickstart"))
    directory.write_identity(
        RunIdentity(run_id="r", name="recorded", namespace="n", address="", pid=1)
    )
    journal = Journal.open(directory.store)
    records = tuple(
        encode(visit(number, ("ls", "cd", "cd+ls")[number % 3], 8 - number % 2))
        for number in range(400)
    )
    receipt = Receipt(producer="signals", counter=1)
    journal.append(Append(records=records, receipt=receipt)).result(10)
    journal.close()
    return directory.path


def test_losses_planted_into_a_recorded_run_are_told(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
):
    swept = (("skills", "forgetting_evidence", (5.0,)),)
    monkeypatch.setattr(calibrate_planted, "SWEPT", swept)
    monkeypatch.setattr(calibrate_planted, "REMEMBERED", (100, 200))
    monkeypatch.setattr(calibrate_planted, "MOST_LOSSES", 6)
    answer = answered("calibrate", "--planted", str(recorded), "--json")
    result = msgspec.json.decode(answer.stdout, type=calibrate_planted.Result)
    [skills] = result.rows
    assert skills.is_default
    assert (skills.losses, skills.by_chance, skills.false_alarms) == (6, 0, 0)
    assert skills.found >= 4
    assert [len(times) for times in result.microseconds.values()] == [2]


def test_a_faulty_run_file_is_refused():
    answer = answered("calibrate", "nowhere.yaml")
    assert answer.returncode == 1
    assert "nowhere.yaml" in answer.stderr
