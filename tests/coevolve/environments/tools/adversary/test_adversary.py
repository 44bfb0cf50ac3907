"""The cheap adversary names tasks that are solved without doing what they ask, and no others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.findings import EARNED
from coevolve.environments.tools import session, simple
from coevolve.environments.tools.adversary import arguments, play
from coevolve.environments.tools.adversary.found import Doubt, Found
from coevolve.environments.tools.adversary.kept import _found as memory  # pyright: ignore
from coevolve.environments.tools.adversary.kept import _own_code as own_code  # pyright: ignore
from coevolve.environments.tools.adversary.kept import kept
from coevolve.environments.tools.adversary.play import MOST_ATTEMPTS, probes_of
from coevolve.environments.tools.adversary.words import Words
from coevolve.environments.tools.commands import MAX_WORDS_CHARS
from coevolve.environments.tools.own import OwnTools
from coevolve.environments.tools.simple import plain_class
from coevolve.environments.tools.task import ToolTask, tool_task
from protocols.errors import ConfigError
from tests.coevolve.environments.tools.adversary.classes import made, tasks_of
from tests.commands import answered

STORE = '''
class Env:
    """A store."""
    def reset(self, world):
        self.data = dict(world)
        self.log = []
    def get(self, key: str) -> str:
        """Return the value of a key."""
        self.log.append(key)
        return self.data[key]
    def keys(self) -> list[str]:
        """Return all keys."""
        return sorted(self.data)
    def put(self, key: str, value: str) -> str:
        """Set a key to a value."""
        self.data[key] = value
        self.log.append(key)
        return "ok"
    def drop(self, key: str) -> str:
        """Remove a key."""
        del self.data[key]
        self.log.append(key)
        return "ok"
'''

PLACES = ("Oslo", "Lima", "Bern", "Kyiv", "Riga", "Rome", "Baku", "Doha")


def store_tasks(*calls: str, **fields: object) -> list[dict[str, Any]]:
    """Return tasks on small stores; the calls have ``n`` for a number and ``place`` for a name."""
    return [
        {
            "id": f"{call.partition('(')[0]}-{number}",
            "world": {f"{place}-a": f"{number}", f"{place}-b": f"{number + 20}"},
            "turns": [
                {
                    "instruction": f"Please {call.format(n=number, place=place)}, {place}.",
                    "reference": [call.format(n=number, place=place)],
                }
            ],
            "split": "train" if number < 5 else "held_out",
            **fields,
        }
        for call in calls
        for number, place in enumerate(PLACES)
    ]


PUT = store_tasks("put(key='{place}-a', value='new {n}')")
PUT_AND_DROP = store_tasks("put(key='{place}-a', value='new {n}')", "drop(key='{place}-b')")
GET = store_tasks("get(key='{place}-b')")

WANTED = {"key": "Oslo-a", "value": "1"}


def graded(condition: str, more: str = "") -> str:
    """Return the store with a reward of its own."""
    return f"{STORE}{more}    def reward(self, task):\n        return float({condition})\n"


def asked(grade: str, name: str = "answer") -> str:
    """Return a class that grades answers."""
    body = "\n".join(f"        {line}" for line in grade.split("\n"))
    return f'class Env:\n    """Questions."""\n    def reward(self, task, {name}):\n{body}\n'


QUESTIONS = [
    {
        "id": f"q-{number}",
        "turns": [{"instruction": f"Which number follows {number} times a hundred and {word}?"}],
        "expression": f"{number}00 + {number + 1}",
        "right": f"{number}0{number + 1} {word}",
        "split": "train" if number < 6 else "held_out",
    }
    for number, word in enumerate(("ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen"), 1)
]

ENDING_OF_STATE = "    def state(self):\n        return {}\n"

BAD: dict[str, tuple[str, Sequence[dict[str, Any]]]] = {
    "always": (graded("True"), PUT),
    "any call": (graded("bool(self.log)"), PUT_AND_DROP),
    "the tool alone": (
        graded("self.used", "    used = False\n").replace(
            "self.data[key] = value\n", "self.data[key] = value\n        self.used = True\n"
        ),
        PUT,
    ),
    "a state that nothing changes": (f"{STORE}    def state(self):\n        return 1\n", PUT),
    "the size of the state": (f"{STORE}    def state(self):\n        return len(self.data)\n", PUT),
    "an error as success": (
        graded(
            "self._right(task)",
            "    def _right(self, task):\n        try:\n            return self.found[task['id']]\n"
            "        except Exception:\n            return True\n",
        ),
        PUT,
    ),
    "settings that no task changes": (
        graded("bool(self.log) and not hasattr(self, 'broken')"),
        PUT_AND_DROP,
    ),
    "nothing is stored": (STORE.replace("self.data[key] = value", "pass"), PUT),
    "in": (asked("return float(task['right'] in answer)"), QUESTIONS),
    "is in": (asked("return float(bool(answer) and answer in task['right'])"), QUESTIONS),
    "in any case": (
        asked("return float(task['right'].lower() in ' '.join(answer.lower().split()))"),
        QUESTIONS,
    ),
    "a long answer": (asked("return min(1.0, len(answer) / 300)"), QUESTIONS),
    "a short answer": (asked("return float(0 < len(answer) < 12)"), QUESTIONS),
    "as long as the right one": (
        asked("return float(len(answer) == len(task['right']))"),
        QUESTIONS,
    ),
    "eval": (
        asked(
            "try:\n    return float(eval(answer) == task['right'])\nexcept Exception:\n    return 0"
        ),
        QUESTIONS,
    ),
    "a raised error": (
        asked("try:\n    return float(int(answer) > 0)\nexcept ValueError:\n    return 1"),
        QUESTIONS,
    ),
    "no number at all": (
        asked(
            "try:\n    far = abs(float(answer) - len(task['right'])) > 0.1\n"
            "except ValueError:\n    return 0\nreturn 0 if far else 1"
        ),
        QUESTIONS,
    ),
    "words of the question": (
        asked("return float(bool(set(answer.split()) & set(task['right'].split())))"),
        QUESTIONS,
    ),
    "the form alone": (asked("return float('<answer>' in answer)"), QUESTIONS),
    "any field": (
        asked("return float(answer in task.values())"),
        [{**each, "topic": f"animals {each['id']}"} for each in QUESTIONS],
    ),
}

SUMS = """
class Env:
    \"\"\"A calculator.\"\"\"
    def reset(self, world):
        self.last = 0
    def add(self, a: int, b: int) -> int:
        \"\"\"Return the sum.\"\"\"
        return a + b
    def multiply(self, a: int, b: int) -> int:
        \"\"\"Return the product.\"\"\"
        return a * b
"""

LIGHTS = '''
class Env:
    """Lights in rooms."""
    def reset(self, world):
        self.on = dict(world)
    def is_on(self, room: str) -> bool:
        """Return whether a light is on."""
        return self.on[room]
    def switch(self, room: str, on: bool) -> bool:
        """Turn a light on or off; return whether it was on."""
        before, self.on[room] = self.on[room], on
        return before
    def toggle(self, room: str) -> bool:
        """Turn a light on if it is off, and off if it is on; return whether it was on."""
        return self.switch(room, not self.on[room])
'''

GRID = '''
class Env:
    """A walk on a grid."""
    def reset(self, world):
        self.x, self.y = world["at"]
        self.steps = 0
    def go(self, dx: int, dy: int) -> list[int]:
        """Go at most one step in each direction; return the place."""
        self.x += max(-1, min(1, dx))
        self.y += max(-1, min(1, dy))
        self.steps += 1
        return [self.x, self.y]
    def where(self) -> list[int]:
        """Return the place."""
        return [self.x, self.y]
    def reward(self, task):
        return float([self.x, self.y] == task["goal"])
'''


ROOMS = [{"hall": number % 2 == 0, "attic": number % 3 == 0, "bath": True} for number in range(8)]
GOALS = [[2, 1], [0, 3], [1, 1], [-1, 2], [3, 0], [0, -2], [2, 2], [-2, -1]]

HONEST: dict[str, tuple[str, Sequence[dict[str, Any]]]] = {
    "a store": (STORE, [*PUT_AND_DROP, *GET]),
    "questions by reading": (STORE, GET),
    "the end is right": (
        graded("self.data.get(task['key']) == task['value']"),
        [
            {**each, "id": f"end-{number}", "key": f"{place}-a", "value": f"new {number}"}
            for number, (each, place) in enumerate(zip(PUT, PLACES, strict=True))
        ],
    ),
    "only what was read": (
        graded("self.log == [task['turns'][0]['reference'][0].split(chr(39))[1]]"),
        GET,
    ),
    "sums that are alike": (
        SUMS,
        tasks_of(
            *(
                (None, f"What is {a} {word} {b}?", [f"{tool}(a={a}, b={b})"])
                for a, b in ((2, 3), (1, 4), (2, 2), (4, 1), (3, 2), (1, 3))
                for word, tool in (("and", "add"), ("times", "multiply"))
            )
        ),
    ),
    "lights": (
        LIGHTS,
        tasks_of(
            *(
                (world, f"Is light {n} in the hall on?", ["is_on(room='hall')"])
                for n, world in enumerate(ROOMS)
            ),
            *(
                (world, f"Change light {n} of the attic.", ["toggle(room='attic')"])
                for n, world in enumerate(ROOMS)
            ),
            *(
                (world, f"Turn light {n} of the bath off.", ["switch(room='bath', on=False)"])
                for n, world in enumerate(ROOMS)
            ),
        ),
    ),
    "a grid": (
        GRID,
        tasks_of(
            *(
                (
                    {"at": [0, 0], "n": n},
                    f"Go to {goal}, walk {n}.",
                    [
                        *[f"go(dx={(x > 0) - (x < 0)}, dy=0)"] * abs(x),
                        *[f"go(dx=0, dy={(y > 0) - (y < 0)})"] * abs(y),
                    ],
                )
                for n, goal in enumerate(GOALS)
                for x, y in [goal]
            ),
            goal=GOALS,
        ),
    ),
    "the whole answer": (
        asked("return float(answer.strip(' .').lower() == task['right'])"),
        QUESTIONS,
    ),
    "the last line": (
        asked("return float(answer.strip().splitlines()[-1:] == [task['right']])"),
        QUESTIONS,
    ),
    "half for a part": (
        asked(
            "if answer == task['right']:\n    return 1.0\nreturn 0.5 * (task['right'] in answer)"
        ),
        QUESTIONS,
    ),
    "yes or no": (
        asked("return float(answer.strip(' .!').lower() == task['right'])"),
        [{**each, "right": ("yes", "no")[n % 2]} for n, each in enumerate(QUESTIONS)],
    ),
    "the last number": (
        asked(
            "import re\nnumbers = re.findall(r'-?[0-9]+', answer)\n"
            "return float(numbers[-1:] == [str(task['right'])])"
        ),
        [{**each, "right": 37 * n + 11} for n, each in enumerate(QUESTIONS)],
    ),
    "one of several": (
        asked("return float(answer.lower() in task['right'])"),
        [{**each, "right": [f"{n} km", f"{n} kilometres"]} for n, each in enumerate(QUESTIONS)],
    ),
    "a choice": (
        asked("return float(answer.strip().upper()[:1] == task['right'] and len(answer) < 3)"),
        [{**each, "right": "ABCD"[n % 4]} for n, each in enumerate(QUESTIONS)],
    ),
    "worked out by the class": (
        asked(
            "import re\na, b = map(int, re.findall(r'[0-9]+', task['expression']))\n"
            "return float(answer.strip() == str(a + b))"
        ),
        QUESTIONS,
    ),
}


def unearned(environment: OwnTools) -> dict[str, str]:
    return dict(environment.source().unearned)


@pytest.mark.parametrize("name", BAD)
def test_every_task_of_a_grade_that_anything_earns_is_named(name: str, tmp_path: Path) -> None:
    source, tasks = BAD[name]
    found = unearned(made(tmp_path, source, tasks, unearned="keep"))
    assert {task["id"] for task in tasks} == set(found), found


@pytest.mark.parametrize("name", HONEST)
def test_no_task_of_an_honest_grade_is_named(name: str, tmp_path: Path) -> None:
    source, tasks = HONEST[name]
    assert unearned(made(tmp_path, source, tasks)) == {}


PING = '''    def ping(self) -> str:
        """Say ok."""
        return "ok"
    def lock(self) -> str:
        """Lock the store."""
        return "ok"
'''
MIXED = [*PUT, *({**each, "id": f"lock-{n}"} for n, each in enumerate(store_tasks("lock()")))]
LOCKS = {task["id"] for task in MIXED if task["id"].startswith("lock")}


def test_a_run_leaves_out_what_is_unearned_unless_it_is_told_to_keep_it(tmp_path: Path) -> None:
    def used(environment: OwnTools) -> set[str]:
        found = environment.source()
        return {task.task_id for task in (*found.pool(), *found.canaries(99), *found.held_out())}

    environment = made(tmp_path, STORE + PING, MIXED)
    assert set(environment.unearned()) == LOCKS
    assert used(environment) == {task["id"] for task in MIXED} - LOCKS
    assert used(made(tmp_path, STORE + PING, MIXED, unearned="keep")) >= LOCKS


def test_a_run_without_any_task_that_is_earned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"8 tasks were left out \(put-0, .*\), the first one p"):
        made(tmp_path, *BAD["always"]).source()


def test_check_names_the_tasks_what_solves_them_and_the_remedy(tmp_path: Path) -> None:
    environment = made(tmp_path, STORE + PING, MIXED)
    words = f"tasks={tmp_path / 'tasks.jsonl'}"
    answer = answered("environment", "check", environment.name, words, "--json")
    (found,) = (each for each in json.loads(answer.stdout) if each["check"] == EARNED)
    assert answer.returncode == 1
    assert found["state"] == "fails"
    assert f"{len(LOCKS)} tasks" in found["found"]
    assert all(name in found["found"] for name in LOCKS)
    assert "put-" not in found["found"]
    assert "call with the same answer ('ping()')" in found["found"]
    assert "state()" in found["found"]


def test_check_of_an_honest_class_has_the_exit_code_0(tmp_path: Path) -> None:
    environment = made(tmp_path, *HONEST["a store"])
    words = f"tasks={tmp_path / 'tasks.jsonl'}"
    assert answered("environment", "check", environment.name, words).returncode == 0


def test_what_is_tried_is_deterministic_and_bounded(tmp_path: Path) -> None:
    tasks = [{**QUESTIONS[n % 8], "id": f"t-{n}", "right": f"{n} x"} for n in range(2000)]
    environment = made(tmp_path, asked("return 0"), tasks)
    bodies = list(map(tool_task, environment._tasks()))  # pyright: ignore[reportPrivateUsage]
    few, many = Words(bodies[:8]), Words(bodies)
    assert [*few.probes(3)] == [*Words(bodies[:8]).probes(3)]
    kinds = {probe.kind for probe in few.probes(3)}
    for number in (0, 1999):
        chosen = probes_of(bodies[number], many, number, room=MOST_ATTEMPTS // 2000)
        assert kinds <= {probe.kind for probe in chosen}
        assert sum(len(probe.attempts) for probe in chosen) < 60
        assert all(len(a.words) <= MAX_WORDS_CHARS for probe in chosen for a in probe.attempts)


def test_a_finding_is_kept_until_the_code_or_the_tasks_change(tmp_path: Path) -> None:
    environment = made(tmp_path, *HONEST["the whole answer"])
    kind = plain_class(environment.name)
    bodies = [tool_task(task) for task in environment.source().pool()]
    grading, played = environment.grading(), list[int]()

    silent = Found(solved={0: "silence"}, doubts=(Doubt("ask nothing", (1, 2)),), idle_reward=0.5)

    def play() -> Found:
        played.append(1)
        return silent

    def found(bodies: list[ToolTask]) -> Found:
        memory.clear()
        return kept(kind, bodies, grading, play)

    assert [found(bodies), found(bodies)] == [silent] * 2
    assert len(played) == 1
    found(bodies[1:])
    assert len(played) == 2
    (tmp_path / "answers.json").write_text("[]")
    found(bodies)
    assert len(played) == 3
    for file in (tmp_path / "cache" / "adversary").glob("*.json"):
        file.write_text("damaged")
    assert found(bodies) == silent
    assert len(played) == 4


def test_a_wrong_call_that_ends_the_process_earns_nothing_and_is_not_repeated(
    tmp_path: Path,
) -> None:
    ends = '''    def quit(self) -> str:
        """Quit."""
        import os
        os._exit(1)
'''
    assert unearned(made(tmp_path, "import os\n" + STORE + ends, PUT)) == {}
    assert set(unearned(made(tmp_path, f"{STORE}{PING}{ends}", MIXED))) == LOCKS


def test_another_adversary_or_another_grade_finds_again() -> None:
    code = b"".join(own_code())
    for file in (play, session, simple, arguments):
        assert Path(file.__file__ or "").read_bytes() in code
