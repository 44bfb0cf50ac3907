"""Attacks on classes of a user that protect themselves, and on classes with a fault each."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from coevolve.environments.registry import environment_named

NUMBERS = itertools.count()

STORE = '''
import os

class Store:
    """A store."""

    seen = []

    def reset(self, world: dict) -> None:
        self.data = dict(world)

    def get(self, key: str) -> str:
        """Return the value of a key."""
        {get}
        return self.data[key]

    def put(self, key: str, value: str) -> str:
        """Set a key."""
        self.data[key] = value
        return "ok"

    {more}
'''

TASKS = [
    {
        "id": f"{split}-{number}",
        "world": {f"{split}{number}": "1"},
        "turns": [
            {"instruction": "Set it.", "reference": ["put(key='a', value='b')", "get(key='a')"]}
        ],
        "split": split,
    }
    for split in ("train", "held_out")
    for number in range(6)
]


def states(
    folder: Path, monkeypatch: pytest.MonkeyPatch, get: str = "", more: str = ""
) -> dict[str, str]:
    name = f"hostile_{next(NUMBERS)}"
    monkeypatch.syspath_prepend(folder)
    (folder / f"{name}.py").write_text(STORE.format(get=get or "pass", more=more))
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    environment = environment_named(f"{name}:Store", tasks=str(folder / "tasks.jsonl"))
    return {each.check: each.state for each in asyncio.run(environment.hostile(9))}


def test_a_class_without_faults_withstands_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert set(states(tmp_path, monkeypatch).values()) == {"holds"}


@pytest.mark.parametrize(
    ("get", "more", "check"),
    [
        ("len(key) > 9000 and os._exit(3)", "", "break nothing"),
        (
            "len(key) > 9000 and self.seen.append(key)\n        if self.seen: return 'poisoned'",
            "",
            "affect no other session",
        ),
        ("if not key: return repr(object())", "", "see nothing of the machine"),
        ("", "def reward(self, task: dict) -> float: return 1.0", "earn nothing"),
        (
            "key == '' and self.seen.append(key)\n        if not key: return str(len(self.seen))",
            "",
            "have the same answers again",
        ),
    ],
)
def test_a_fault_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, get: str, more: str, check: str
):
    assert states(tmp_path, monkeypatch, get, more)[f"hostile calls {check}"] == "fails"
