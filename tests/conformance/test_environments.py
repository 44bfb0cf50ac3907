"""Every built-in environment keeps what it declares, and what does not is found out."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.environments.registry import environment_named
from protocols.errors import ConfigError

RUN_FILE = Path(__file__).parents[1] / "own" / "run.yaml"

COINS = '''
class Coins:
    """Every third attempt fails, whatever is done."""

    tosses = 0
    {lacks}

    def reset(self, world):
        self.data = world

    def toss(self) -> str:
        """Toss the coin."""
        return "done"

    def reward(self, task: dict) -> float:
        Coins.tosses += 1
        return float(Coins.tosses % 3 > 0)
'''
TASKS = (
    '{"id": "a", "world": 1, "turns": [{"instruction": "Toss it.", "reference": ["toss()"]}]}\n'
    '{"id": "b", "world": 2, "turns": [{"instruction": "Toss.", "reference": ["toss()"]}],'
    ' "split": "held_out"}\n'
)


def states(use: str, most: int, **settings: object) -> dict[str, str]:
    found = asyncio.run(environment_named(use, **settings).conformance(most))
    assert all(finding.found for finding in found)
    return {finding.check: finding.state for finding in found}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("use", "most", "absent"),
    [
        ("filesystem", 40, set()),
        ("bfcl", 40, set()),
        pytest.param("hdl", 2, {"references"}, marks=(pytest.mark.hdl, pytest.mark.exhaustive)),
    ],
)
def test_a_built_in_environment_keeps_what_it_declares(use: str, most: int, absent: set[str]):
    found = states(use, most)
    assert {check for check, state in found.items() if state == "absent"} == absent
    assert "fails" not in found.values()


@pytest.fixture
def coins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an environment whose class is still to be written."""
    (tmp_path / "tasks.jsonl").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("coins", None)


def written(folder: Path, lacks: str) -> dict[str, str]:
    (folder / "coins.py").write_text(COINS.format(lacks=lacks))
    return states("coins:Coins", 40, tasks=str(folder / "tasks.jsonl"))


def test_a_reward_that_changes_its_mind_is_found_out(coins: Path):
    assert written(coins, "")["deterministic_reward"] == "fails"


def test_what_is_declared_to_be_lacking_is_absent_and_has_to_be_reckoned_with(coins: Path):
    found = written(coins, 'lacks = ("deterministic_reward",)')
    assert found["deterministic_reward"] == "absent"
    overrides = ["environment.use=coins:Coins", f"environment.tasks={coins / 'tasks.jsonl'}"]
    with pytest.raises(ConfigError, match=r"signals\.reward_flip_rate: .* needs the rate above 0"):
        load_config(RUN_FILE, overrides)
    measured = [*overrides, "signals.reward_flip_rate=0.2"]
    with pytest.raises(ConfigError, match=r"needs signals\.rules posterior"):
        load_config(RUN_FILE, measured)
    load_config(RUN_FILE, [*measured, "signals.rules=posterior"])


def test_without_replay_no_tasks_are_made(coins: Path):
    written(coins, 'lacks = ("replayable",)')
    overrides = ["environment.use=coins:Coins", f"environment.tasks={coins / 'tasks.jsonl'}"]
    with pytest.raises(ConfigError, match="is without replayable; choose arm static"):
        load_config(RUN_FILE, overrides)


def test_a_capability_that_nobody_knows_is_refused(coins: Path):
    words = r"lacks needs a tuple of names among replayable, .* found \('memory',\)"
    with pytest.raises(ConfigError, match=words):
        written(coins, 'lacks = ("memory",)')
