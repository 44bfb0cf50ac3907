"""An argument that decides nothing is named, whichever values its tool takes, and no other one."""

from pathlib import Path

import pytest

from coevolve.environments.tools.adversary.arguments import says
from tests.coevolve.environments.tools.adversary.classes import Case, adversary_of, tasks_of

LIBRARY = '''
class Env:
    """A library that lends to members."""
    def reset(self, world):
        self.members, self.shelf, self.lent = world["members"], list(world["shelf"]), {}
    def lend(self, title: str, to: str) -> str:
        """Lend a book to a member."""
        if to not in self.members or title not in self.shelf:
            raise KeyError("no such member or book")
        self.lent[title] = to
        return "lent"
    def back(self, title: str) -> str:
        """Take a book back."""
        del self.lent[title]
        return "back"
'''

TRAIN = '''
import enum
from typing import Literal, Optional
Meal = Literal["fish", "soup", "none"]
class Berth(enum.Enum):
    LOWER = "lower"
    MIDDLE = "middle"
    UPPER = "upper"
class Env:
    """Night trains."""
    def reset(self, world):
        self.trains, self.booked = world["trains"], []
    def book(self, train: int, berth: Berth, meal: Optional[Meal]) -> str:
        """Book a berth in a train."""
        if train not in self.trains:
            raise KeyError(train)
        self.booked.append((train, berth.value, meal))
        return "booked"
    def pay(self, amount: float) -> str:
        """Pay."""
        self.booked.append(amount)
        return "paid"
'''

DOCKS = '''
class Env:
    """Pallets and docks."""
    def reset(self, world):
        self.docks, self.at, self.moved = world["docks"], {}, 0
    def move(self, pallet: str, dock: str) -> str:
        """Move a pallet to a dock."""
        if dock not in self.docks:
            return f"there is no dock {dock}"
        self.at[pallet] = dock
        self.moved += 1
        return f"{pallet} is at a dock"
    def label(self, pallet: str) -> str:
        """Label a pallet."""
        self.at[pallet] = "labelled"
        return "labelled"
'''

REFUNDS = '''
class Env:
    """Orders and refunds."""
    def reset(self, world):
        self.orders, self.refunds = world["orders"], []
    def orders_of(self, name: str) -> list[dict]:
        """Return the orders of a customer."""
        return [order for order in self.orders if order["name"] == name]
    def order(self, number: str) -> dict:
        """Return an order."""
        return next(order for order in self.orders if order["number"] == number)
    def refund(self, number: str, amount: int) -> str:
        """Refund an amount of an order."""
        if all(order["number"] != number for order in self.orders):
            raise KeyError(number)
        self.refunds.append([number, amount])
        return "refunded"
    def reward(self, task):
        return float([number for number, *_ in self.refunds] == [task["number"]])
'''

NEWS = '''
class Env:
    """Newsletters."""
    def reset(self, world):
        self.lists = dict(world)
    def subscribe(self, name: str, on: bool) -> str:
        """Subscribe to a list, or leave it."""
        if name not in self.lists:
            raise KeyError(name)
        self.lists[name] = on
        return "ok"
    def found(self, name: str) -> str:
        """Found a list."""
        self.lists[name] = False
        return "ok"
'''

CINEMA = '''
from typing import Literal
class Env:
    """A cinema."""
    def reset(self, world):
        self.taken = {tuple(each) for each in world["taken"]}
        self.names = []
    def seats(self) -> list[list[int]]:
        """Return free seats: row and number."""
        every = ((row, seat) for row in range(1, 9) for seat in range(1, 9))
        return [list(each) for each in every if each not in self.taken]
    def book(self, row: int, seat: int, name: str) -> str:
        """Book a free seat."""
        if (row, seat) in self.taken or not (0 < row < 9 and 0 < seat < 9):
            raise ValueError("not free")
        self.taken.add((row, seat))
        self.names.append(name)
        return "booked"
    def reward(self, task):
        return float(self.names == [task["name"]])
'''

SHELF = {"members": {"mia": 3, "ned": 0, "ola": 7, "pia": 1}, "shelf": ["Emma", "Dune", "Holes"]}
LENDS = tasks_of(
    *(
        (SHELF | {"n": n}, f"Lend {title} to {who}.", [f"lend(title={title!r}, to={who!r})"])
        for n, (title, who) in enumerate(
            [("Emma", "mia"), ("Dune", "ned"), ("Holes", "pia"), ("Emma", "ola")]
        )
    )
)
BERTHS = tasks_of(
    *(
        (
            {"trains": [5, 7, 9, 12 + n]},
            f"Book me the {berth} berth in train {train}, with {meal}.",
            [f"book(train={train}, berth={berth!r}, meal={meal!r})"],
        )
        for n, (train, berth, meal) in enumerate(
            [
                (7, "lower", "fish"),
                (5, "upper", "soup"),
                (9, "middle", "fish"),
                (7, "upper", "soup"),
            ]
        )
    )
)
MOVES = tasks_of(
    *(
        (
            {"docks": ["north", "south", "east", "west"], "n": n},
            f"Bring pallet {pallet} to the {dock}.",
            [f"move(pallet={pallet!r}, dock={dock!r})"],
        )
        for n, (pallet, dock) in enumerate(
            [("P1", "north"), ("P2", "west"), ("P3", "south"), ("P4", "east")]
        )
    )
)
BOOK = [
    {"number": f"A{n}", "name": name, "price": 10 * n + 3}
    for n, name in enumerate(("ann", "bob", "cid", "dan", "eve"))
]
BY_ORDER = tasks_of(
    *(
        (
            {"orders": BOOK, "n": n},
            f"Refund order {BOOK[n]['number']} in full.",
            [
                f"order(number='A{n}')",
                f"refund(number='A{n}', amount={BOOK[n]['price']})",
            ],
        )
        for n in range(4)
    ),
    number=["A0", "A1", "A2", "A3"],
)
BY_NAME = tasks_of(
    *(
        (
            {"orders": [*BOOK, {"number": "B1", "name": BOOK[n]["name"], "price": 99}]},
            f"Refund order A{n} of {BOOK[n]['name']} in full.",
            [
                f"orders_of(name={BOOK[n]['name']!r})",
                f"refund(number='A{n}', amount={BOOK[n]['price']})",
            ],
        )
        for n in range(4)
    ),
    number=["A0", "A1", "A2", "A3"],
)
LISTS = tasks_of(
    *(
        (
            {name: not on, f"other {n}": True},
            f"I {'want' if on else 'no longer want'} the news on {name}.",
            [f"subscribe(name={name!r}, on={on})"],
        )
        for n, (name, on) in enumerate(
            [("jazz", True), ("chess", False), ("hikes", True), ("films", False)]
        )
    )
)
ANY_SEAT = tasks_of(
    *(
        (
            {"taken": [[1, n + 1]]},
            f"Any seat for {name}, please.",
            ["seats()", f"book(row={row}, seat={seat}, name={name!r})"],
        )
        for n, (name, row, seat) in enumerate(
            [("Ann", 2, 5), ("Bob", 3, 6), ("Cid", 4, 1), ("Dan", 7, 7)]
        )
    ),
    name=["Ann", "Bob", "Cid", "Dan"],
)

BAD: dict[str, tuple[Case, str]] = {
    "a member of the world's keys": (
        (LIBRARY + "    def state(self):\n        return sorted(self.lent)\n", LENDS),
        "lend with another 'to'",
    ),
    "one of an enumeration": (
        (
            TRAIN
            + "    def state(self):\n        return [(each[0], each[2]) for each in self.booked]\n",
            BERTHS,
        ),
        "book with another 'berth'",
    ),
    "one of a list that may be missing": (
        (
            TRAIN + "    def reward(self, task):\n"
            "        return float([b[:2] for b in self.booked] == [tuple(task['want'])])\n",
            [
                {**task, "want": [train, berth]}
                for task, (train, berth) in zip(
                    BERTHS, [(7, "lower"), (5, "upper"), (9, "middle"), (7, "upper")], strict=True
                )
            ],
        ),
        "book with another 'meal'",
    ),
    "what is refused in words": (
        (DOCKS + "    def reward(self, task):\n        return float(self.moved == 1)\n", MOVES),
        "",
    ),
    "an amount in the record that is asked for": (
        (REFUNDS, BY_ORDER),
        "refund with another 'amount'",
    ),
    "an amount in a list of records": ((REFUNDS, BY_NAME), "refund with another 'amount'"),
    "a truth value": (
        (NEWS + "    def state(self):\n        return sorted(self.lists)\n", LISTS),
        "subscribe with another 'on'",
    ),
}

HONEST: dict[str, Case] = {
    "members": (LIBRARY, LENDS),
    "berths and meals": (TRAIN, BERTHS),
    "docks": (DOCKS, MOVES),
    "refunds": (
        REFUNDS.replace(
            "number for number, *_ in self.refunds", "each for each in self.refunds"
        ).replace('[task["number"]]', '[task["want"]]'),
        [
            {**each, "want": [f"A{n}", BOOK[n]["price"]], "id": f"{kind}-{n}"}
            for kind, tasks in (("order", BY_ORDER), ("name", BY_NAME))
            for n, each in enumerate(tasks)
        ],
    ),
    "truth values": (NEWS, LISTS),
    "any seat": (CINEMA, ANY_SEAT),
}


@pytest.mark.parametrize("name", BAD)
def test_an_argument_that_decides_nothing_is_named(name: str, tmp_path: Path) -> None:
    (source, tasks), how = BAD[name]
    found = adversary_of(tmp_path, source, tasks)
    assert {task["id"] for task in tasks} == found.solved.keys(), found
    assert all(how in each for each in found.solved.values()), found.solved


@pytest.mark.parametrize("name", HONEST)
def test_an_argument_that_decides_is_not_named(name: str, tmp_path: Path) -> None:
    assert adversary_of(tmp_path, *HONEST[name]).solved == {}


def test_a_free_choice_of_a_number_is_a_doubt_alone(tmp_path: Path) -> None:
    found = adversary_of(tmp_path, CINEMA, ANY_SEAT)
    assert [*found.doubts] == [
        "pass with any 'row' of book()",
        "pass with any 'seat' of book()",
    ]


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("Pay 30 to bob", 30, True),
        ("Pay 30 to bob", 3, False),
        ("Pay 30 to Bob", "bob", True),
        ("Heat to 21", 21.0, True),
        ("Ship bolts", "bolt", True),
        ("Ship it", "i", False),
        ("It is true", True, False),
        ("", "", False),
        ("[1]", [1], False),
    ],
)
def test_a_text_says_a_value(text: str, value: object, expected: bool) -> None:
    assert says(text, value) is expected
