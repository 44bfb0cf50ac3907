"""What `coevolve environment check --hostile` finds: a class with each fault, and one without."""

import asyncio
import importlib
from pathlib import Path

import pytest

from coevolve.environments.registry import environment_named

TASKS = (
    '{"id": "a", "world": 1, "turns": [{"instruction": "Put 2.", "reference": ["put(value=2)"]}]}\n'
    '{"id": "b", "world": 2, "turns": [{"instruction": "Put 3.", "reference": ["put(value=3)"]}],'
    ' "split": "held_out"}\n'
)

SOUND = '''
from typing import Any


class Held:
    """Holds a number."""

    calls = []

    def reset(self, world):
        self.data = world

    def put(self, value: Any = None) -> str:
        """Put a value."""
        {body}
        return "done"
'''
FAULTS = {
    "sound": ("self.data = value", set[str]()),
    "ends its process": (
        "self.data = value if value != -1 else __import__('os')._exit(1)",
        {
            "hostile calls are answered",
            "hostile calls pass no task",
            "sessions beside hostile ones",
        },
    ),
    "shares what it knows": (
        "Held.calls += [1] * (value == -1); self.data = value, len(Held.calls)",
        {"sessions beside hostile ones"},
    ),
    "believes anything": ("self.data = 'anything'", {"hostile calls pass no task"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_class_that_an_adversary_can_use_is_found_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    body, expected = FAULTS[name]
    module = f"held_{abs(hash(name))}"
    (tmp_path / f"{module}.py").write_text(SOUND.replace("{body}", body))
    (tmp_path / "tasks.jsonl").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    importlib.invalidate_caches()
    environment = environment_named(f"{module}:Held", tasks=str(tmp_path / "tasks.jsonl"))
    found = asyncio.run(environment.hostile(5))
    failed = {finding.check for finding in found if finding.state == "fails"}
    assert failed == expected, found
