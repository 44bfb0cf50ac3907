"""Capabilities that no task needs are absent; what a reward sees and the state does not fails."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.findings import Finding
from tests.coevolve.environments.tools.adversary.classes import Case, made, tasks_of

READS = '''
class Env:
    """Towns."""
    def reset(self, world):
        self.towns = dict(world)
    def people(self, town: str) -> int:
        """Return how many people live in a town."""
        return self.towns[town]
    def larger(self, one: str, other: str) -> bool:
        """Return whether a town is larger than another one."""
        return self.towns[one] > self.towns[other]
'''
TOWNS = tasks_of(
    *(
        ({"Ulm": 120 + n, "Kiel": 240 - n, "Jena": 3 * n}, f"{asked} Town list {n}.", [call])
        for n, (asked, call) in enumerate(
            [
                ("How many people live in Ulm?", "people(town='Ulm')"),
                ("Is Kiel larger than Ulm?", "larger(one='Kiel', other='Ulm')"),
                ("How many people live in Jena?", "people(town='Jena')"),
                ("Is Jena larger than Kiel?", "larger(one='Jena', other='Kiel')"),
            ]
        )
    )
)
ASKED = "    def reward(self, task, answer: str):\n        return float(answer == task['right'])\n"
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"town-{n}",
        "world": {town: 120 + n, "Kiel": 240 - n},
        "turns": [{"instruction": f"How many people live in {town}?"}],
        "right": f"{120 + n} people",
        "split": "train" if n < 3 else "held_out",
    }
    for n, town in enumerate(("Ulm", "Jena", "Bonn", "Hof", "Calw", "Suhl"))
]
LOOKED_UP = [
    {
        **each,
        "turns": [
            {**each["turns"][0], "reference": [f"people(town={next(iter(each['world']))!r})"]}
        ],
    }
    for each in QUESTIONS
]
LEAK = '''
class Env:
    """Stamps on letters."""
    stamped = []
    def reset(self, world):
        self.stamped.clear()
    def stamp(self, letter: str) -> str:
        """Stamp a letter."""
        self.stamped.append(letter)
        return "ok"
    def reward(self, task):
        return float(self.stamped == [task["letter"]])
'''
LETTERS = tasks_of(
    *(({"n": n}, f"Stamp letter {n}{n}.", [f"stamp(letter='{n}{n}')"]) for n in range(6)),
    letter=[f"{n}{n}" for n in range(6)],
)


def findings(folder: Path, case: Case) -> Mapping[str, Finding]:
    environment = made(folder, *case)
    return {each.check: each for each in asyncio.run(environment.conformance(most=10))}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("source", "tasks", "absent"),
    [
        (READS, TOWNS, {"state_digest": "all your tasks only read: nothing to measure"}),
        (
            READS + ASKED,
            QUESTIONS,
            {
                "replayable": "no task has a reference: nothing to measure",
                "state_digest": "all your tasks only read: nothing to measure",
            },
        ),
        (
            READS + ASKED,
            LOOKED_UP,
            {"state_digest": "all your tasks only read: nothing to measure"},
        ),
    ],
    ids=["read", "asked", "looked up"],
)
def test_a_class_that_only_reads_needs_no_line_on_what_it_lacks(
    source: str, tasks: Sequence[dict[str, Any]], absent: Mapping[str, str], tmp_path: Path
) -> None:
    found = findings(tmp_path, (source, tasks))
    assert not [each for each in found.values() if each.state == "fails"]
    for check, words in absent.items():
        assert (found[check].state, found[check].found) == ("absent", words)


def test_a_reward_that_sees_what_the_state_does_not_fails(tmp_path: Path) -> None:
    found = findings(tmp_path, (LEAK, LETTERS))["state_digest"]
    assert found.state == "fails"
    assert "reward() judges what calls change" in found.found
    assert "attributes of the object" in found.found


def test_a_state_of_its_own_that_nothing_changes_is_a_doubt(tmp_path: Path) -> None:
    told = READS + "    def state(self):\n        return sorted(self.towns)\n"
    found = findings(tmp_path, (told, TOWNS))["state_digest"]
    assert found.state == "warns"
    assert "no reference changes what state() returns" in found.found


def test_a_slow_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.environments.tools.conformance.SLOW_RATE", 1e9)
    slow = READS.replace("class Env", "import time\n\nclass Env").replace(
        "        return self.towns[town]",
        "        time.sleep(0.3)\n        return self.towns[town]",
    )
    found = findings(tmp_path, (slow, TOWNS))["speed"]
    assert found.state == "warns"
    assert re.search(r"; people takes 0\.\d s, and each rollout waits", found.found)


def test_held_out_tasks_and_those_that_repeat_their_requests_are_named(tmp_path: Path) -> None:
    repeated = {
        **TOWNS[0],
        "id": "again",
        "split": "train",
        "world": {"Ulm": 7, "Kiel": 8, "Jena": 9},
    }
    tasks = [{**task, "split": "train" if n else "held_out"} for n, task in enumerate(TOWNS)]
    found = findings(tmp_path, (READS, [*tasks, repeated]))["worlds of the splits are disjoint"]
    assert found.state == "holds"
    assert f"1 held out ({TOWNS[0]['id']})" in found.found
    assert "; 1 more task (again) with requests of held-out ones" in found.found
