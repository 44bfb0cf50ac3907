"""What only several tasks show, parts of references, tours, and what is a doubt alone."""

from pathlib import Path

import pytest

from tests.coevolve.environments.tools.adversary.classes import Case, adversary_of, tasks_of

ROBOT = '''
class Env:
    """A robot in a house."""
    def reset(self, world):
        self.goal = world["goal"]
        self.done = {}
    def wash(self, room: str) -> str:
        """Wash a floor."""
        self.done[room] = "washed"
        return "ok"
    def heat(self, room: str, degrees: int) -> str:
        """Heat a room."""
        self.done[room] = degrees
        return "ok"
    def air(self, room: str) -> str:
        """Air a room."""
        self.done[room] = "aired"
        return "ok"
    MORE
    def reward(self, task):
        return float(self.done == self.goal)
'''

ALL_OF_IT = {
    "without arguments": '''def finish(self) -> str:
        """Finish (for tests)."""
        self.done = dict(self.goal)
        return "ok"
''',
    "with an argument": '''def load(self, name: str) -> str:
        """Load a snapshot."""
        self.done = dict(self.goal)
        return f"loaded {name}"
''',
    "with answers that vary": '''def explain(self, steps: int) -> str:
        """Explain, and do."""
        self.done = dict(self.goal)
        return str(self.goal)
''',
}

WORK = tasks_of(
    *(
        ({"goal": {room: end}}, f"Please {verb} the {room}, number {n}.", [call.format(room)])
        for n, (room, end, verb, call) in enumerate(
            [
                ("hall", "washed", "wash", "wash(room='{}')"),
                ("bath", 23, "heat to 23", "heat(room='{}', degrees=23)"),
                ("attic", "aired", "air", "air(room='{}')"),
                ("cellar", 9, "heat to 9", "heat(room='{}', degrees=9)"),
                ("study", "washed", "wash", "wash(room='{}')"),
            ]
        )
    )
)

ALL_OFF = '''
class Env:
    """Lamps."""
    def reset(self, world):
        self.lamps = dict(world)
    def switch(self, lamp: str, on: bool) -> str:
        """Switch a lamp."""
        self.lamps[lamp] = on
        return "ok"
    def lamps_now(self) -> dict[str, bool]:
        """Return the lamps."""
        return self.lamps
    def all_off(self) -> str:
        """Switch all lamps off."""
        self.lamps = dict.fromkeys(self.lamps, False)
        return "ok"
'''

OFF = tasks_of(
    *(
        (
            {lamp: True, f"{lamp} 2": False},
            f"Switch the {lamp} off.",
            [*before, f"switch(lamp={lamp!r}, on=False)"],
        )
        for lamp, before in (
            ("sun", []),
            ("moon", ["lamps_now()"]),
            ("star", []),
            ("spot", ["lamps_now()"]),
        )
    )
)


@pytest.mark.parametrize("kind", ALL_OF_IT)
def test_a_call_that_solves_most_tasks_is_named(kind: str, tmp_path: Path) -> None:
    tool = ALL_OF_IT[kind].partition("(")[0].removeprefix("def ")
    found = adversary_of(tmp_path, ROBOT.replace("MORE", ALL_OF_IT[kind]), WORK)
    assert {task["id"] for task in WORK} == found.solved.keys()
    assert all(
        f"solves most tasks ('{tool}(" in how or tool in how for how in found.solved.values()
    )


@pytest.mark.parametrize(
    "case",
    [(ROBOT.replace("MORE", ""), WORK), (ALL_OFF, OFF)],
    ids=["no such call", "a call that does what one tool does"],
)
def test_a_call_that_does_what_is_asked_is_not_named(case: Case, tmp_path: Path) -> None:
    assert adversary_of(tmp_path, *case).solved == {}


LIFT = '''
class Env:
    """A lift."""
    def reset(self, world):
        self.floor, self.rides = world["floor"], []
    def ride(self, floors: int) -> str:
        """Ride some floors up, or down if negative."""
        self.floor += floors
        self.rides.append(floors)
        return "arrived"
    def open_door(self) -> str:
        """Open the door."""
        self.rides.append("door")
        return "open"
'''
SAFE = '''
class Env:
    """The wheel of a safe."""
    def reset(self, world):
        self.at, self.turned = world["at"], []
    def turn(self, way: str) -> str:
        """Turn the wheel by one to the left or to the right."""
        self.at += {"left": -1, "right": 1}[way]
        self.turned.append(way)
        return "click"
'''
PEN = '''
class Env:
    """A pen on paper."""
    def reset(self, world):
        self.pen, self.lines = world["pen"], []
    def move(self, side: str, by: int) -> str:
        """Draw a line to a side (x or y)."""
        self.pen = {**self.pen, side: self.pen[side] + by}
        self.lines.append([side, by])
        return "drawn"
'''
RIDES = tasks_of(
    *(
        ({"floor": n}, f"Ride {ups} floors up and come back, from {n}.", calls)
        for n, (ups, calls) in enumerate(
            [
                (2, ["ride(floors=2)", "ride(floors=-2)"]),
                (5, ["ride(floors=5)", "ride(floors=-5)"]),
                (3, ["ride(floors=3)", "ride(floors=-3)"]),
            ]
        )
    ),
    ({"floor": 7}, "Ride 4 floors up from 7.", ["ride(floors=4)"]),
)
TURNS = tasks_of(
    *(
        (
            {"at": n},
            f"Turn {way} and back, safe {n}.",
            [f"turn(way={way!r})", f"turn(way={back!r})"],
        )
        for n, (way, back) in enumerate([("left", "right"), ("right", "left")] * 2)
    )
)
DRAWN = tasks_of(
    *(
        (
            {"pen": {"x": n, "y": 0}},
            f"Draw a square of side {size}, from {n}.",
            [
                f"move(side='{side}', by={by})"
                for side, by in (("x", size), ("y", size), ("x", -size), ("y", -size))
            ],
        )
        for n, size in enumerate((3, 4, 5, 6))
    )
)
TOURS: dict[str, tuple[str, str, list[dict[str, object]], int]] = {
    "rides": (LIFT, "self.floor", RIDES, 3),
    "turns": (SAFE, "self.at", TURNS, 4),
    "squares": (PEN, "sorted(self.pen.items())", DRAWN, 4),
}


@pytest.mark.parametrize("name", TOURS)
def test_a_tour_that_any_tour_replaces_is_named(name: str, tmp_path: Path) -> None:
    source, state, tasks, most = TOURS[name]
    found = adversary_of(tmp_path, f"{source}    def state(self):\n        return {state}\n", tasks)
    assert [*found.solved] == [f"task-{n}" for n in range(most)], found


@pytest.mark.parametrize("name", TOURS)
def test_a_tour_of_which_the_state_keeps_the_way_is_not_named(name: str, tmp_path: Path) -> None:
    source, _, tasks, _ = TOURS[name]
    assert adversary_of(tmp_path, source, tasks).solved == {}


OFFICE = '''
class Env:
    """An office."""
    def reset(self, world):
        self.paid, self.mails, self.filed = [], [], []
    def pay(self, name: str) -> str:
        """Pay somebody."""
        self.paid.append(name)
        return "ok"
    def mail(self, name: str) -> str:
        """Mail somebody."""
        self.mails.append(name)
        return "ok"
    def file(self, name: str) -> str:
        """File a letter."""
        self.filed.append(name)
        return "ok"
    def mails_now(self) -> list[str]:
        """Return the mails."""
        return self.mails
'''
PAID = "    def reward(self, task):\n        return float(self.paid == [task['name']])\n"
NAMES = ["ann", "bob", "cid", "dan"]


def office(*calls: str, ask: str = "Pay, mail and file") -> list[dict[str, object]]:
    """Return tasks with these calls."""
    return tasks_of(
        *(
            ({"n": n}, f"{ask}: {name}.", [f"{call}(name={name!r})" for call in calls])
            for n, name in enumerate(NAMES)
        ),
        name=NAMES,
    )


SPARE: dict[str, tuple[Case, str]] = {
    "mail": ((OFFICE + PAID, office("pay", "mail")), "mail()"),
    "the first of three": ((OFFICE + PAID, office("file", "pay", "mail")), "file()"),
    "the last of four": ((OFFICE + PAID, office("pay", "file", "file", "mail")), "mail()"),
}


@pytest.mark.parametrize("name", SPARE)
def test_a_call_that_can_be_left_out_is_a_doubt(name: str, tmp_path: Path) -> None:
    case, call = SPARE[name]
    found = adversary_of(tmp_path, *case)
    assert found.solved == {}
    doubt = f"pass without a call of their reference, {call}"
    assert found.doubts[doubt] == ("task-0", "task-1", "task-2", "task-3")


def test_calls_that_all_count_are_in_no_doubt(tmp_path: Path) -> None:
    found = adversary_of(tmp_path, OFFICE, office("pay", "mail", "file"))
    assert (found.solved, found.doubts) == ({}, {})


@pytest.mark.parametrize(
    ("ask", "is_doubted"),
    [
        ("Remove this name from the mails", True),
        ("Bitte alle Mails beantworten", True),
        ("Mail everybody again", True),
        ("The list is wrong. Empty it.", True),
        ("Which mails did I get", False),
        ("Wer hat geschrieben?", False),
        ("Show me the mails", False),
        ("Please list the mails", False),
    ],
)
def test_a_reference_that_only_reads_is_a_doubt_unless_it_answers(
    ask: str, is_doubted: bool, tmp_path: Path
) -> None:
    reads = [
        {**task, "id": f"reads-{n}", "turns": [{"instruction": ask, "reference": ["mails_now()"]}]}
        for n, task in enumerate(office("pay")[:1])
    ]
    found = adversary_of(tmp_path, OFFICE, [*office("pay"), *reads])
    assert found.solved == {}
    assert [*found.doubts.values()] == ([("reads-0",)] if is_doubted else [])


IDLE = '''
class Env:
    """Sums."""
    def reward(self, task, answer: str):
        GRADE
'''
SUMS = [
    {"id": f"sum-{n}", "turns": [{"instruction": f"What is {n} and {n}?"}], "right": f"{2 * n} {n}"}
    for n in range(11, 17)
]


@pytest.mark.parametrize(
    ("grade", "most"),
    [
        ("return 1.0 if answer == task['right'] else 0.75", 0.75),
        ("return 1.0 if answer == task['right'] else 0.6 * (not answer)", 0.6),
        ("return 1.0 if answer == task['right'] else 0.9 * ('done' in answer)", 0.9),
        ("return 1.0 if answer == task['right'] else 0.25 * bool(answer)", 0.25),
        ("return float(answer == task['right'])", 0.0),
    ],
)
def test_what_doing_nothing_earns_is_told_and_doubted_from_a_half(
    grade: str, most: float, tmp_path: Path
) -> None:
    found = adversary_of(tmp_path, IDLE.replace("GRADE", grade), SUMS)
    assert found.solved == {}
    assert found.idle_reward == most
    doubt = "give more than half of the reward for doing nothing"
    assert ([*found.doubts] == [doubt]) is (most > 0.5)


WORDS = [
    {"id": f"word-{n}", "turns": [{"instruction": f"Write one. This is number {n}."}], "n": n}
    for n in range(6)
]


@pytest.mark.parametrize(
    "grade",
    [
        "return float(answer.isalpha() and answer == answer[::-1] and len(set(answer)) > 1)",
        "return float(answer.isalpha() and answer.startswith('in') and 'f' in answer)",
        "try:\n            return float(float(answer) > 1000)\n"
        "        except ValueError:\n            return 0.0",
        "try:\n            return float(float(answer) < -1000)\n"
        "        except ValueError:\n            return 0.0",
    ],
    ids=["a palindrome", "a word with inf", "any large number", "any low number"],
)
def test_a_word_that_is_also_no_number_may_be_right(grade: str, tmp_path: Path) -> None:
    assert adversary_of(tmp_path, IDLE.replace("GRADE", grade), WORDS).solved == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "abs(float(answer) - task['n']) > 1",
        "float(answer) > task['n'] or float(answer) < task['n']",
    ],
)
def test_a_number_that_is_none_is_named(wrong: str, tmp_path: Path) -> None:
    grade = (
        f"try:\n            return 0.0 if {wrong} else 1.0\n"
        "        except ValueError:\n            return 0.0"
    )
    tasks = [{**each, "n": 600 + 7 * n} for n, each in enumerate(WORDS)]
    found = adversary_of(tmp_path, IDLE.replace("GRADE", grade), tasks).solved
    assert len(found) == len(tasks)
    assert all("number that is none" in how for how in found.values())
