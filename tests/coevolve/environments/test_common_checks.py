"""Checks of every environment say what a user has to expect of its scores."""

import json
from pathlib import Path

import pytest

from coevolve.environments.common_checks import common_findings
from coevolve.environments.registry import config_of

STORE = '''
class Store:
    """A store."""
    def reset(self, world):
        self.data = dict(world)
    def put(self, key: str, value: str) -> str:
        """Set a key to a value."""
        self.data[key] = value
        return "ok"
'''


@pytest.mark.parametrize(
    ("worlds", "words"),
    [
        (10, "3 held-out tasks: the 95 % interval of a score is up to ± 37 points; with 400"),
        (40, "12 held-out tasks: the 95 % interval of a score is up to ± 25 points; with 400"),
        (200, "60 held-out tasks: the 95 % interval of a score is up to ± 12 points; with 400"),
    ],
)
async def test_the_error_of_a_score_follows_from_the_number_of_held_out_tasks(
    worlds: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"store_of_{worlds}"
    (tmp_path / f"{module}.py").write_text(STORE)
    monkeypatch.syspath_prepend(tmp_path)
    turn = {"instruction": "Set k.", "reference": ["put(key='k', value='1')"]}
    tasks = [
        {
            "id": f"t{n}",
            "world": {"a": n},
            "turns": [turn | {"instruction": f"Set k, please, {chr(97 + n % 26) * (n + 1)}."}],
        }
        for n in range(worlds)
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    found = await common_findings(config_of({"use": f"{module}:Store", "tasks": str(path)}), 4)
    (error,) = [each for each in found if each.check == "error of a score"]
    assert error.state == "holds"
    assert error.found.startswith(words)
