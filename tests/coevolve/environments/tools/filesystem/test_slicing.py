import asyncio
import json

import pytest

from coevolve.environments.tools.filesystem.simulated import CLASS, InProcessSimulator, open_world
from coevolve.environments.tools.filesystem.slicing import Slice, sliced
from coevolve.environments.tools.filesystem.steps import Argument, Step
from coevolve.environments.tools.synthesis.brief import Start

WORLD = json.dumps(
    {
        CLASS: {
            "root": {
                "workspace": {
                    "type": "directory",
                    "contents": {
                        "docs": {
                            "type": "directory",
                            "contents": {"a.txt": {"type": "file", "content": "red"}},
                        },
                        "b.md": {"type": "file", "content": "blue"},
                        "c.md": {"type": "file", "content": "green"},
                    },
                }
            }
        }
    }
)
START = Start(origin="test", classes=(CLASS,), world=WORLD, checks_directory=True)

Call = tuple[str, dict[str, str]]


def walk(*errands: list[Call], answered: tuple[int, int] | None = None) -> list[Step]:
    """Return the steps of errands; ``answered``: (step, step whose answer its first value is)."""
    world, steps = open_world(WORLD), list[Step]()
    for number, errand in enumerate(errands):
        for tool, values in errand:
            source = answered[1] if answered and answered[0] == len(steps) else None
            arguments = tuple(
                Argument(name, value, source if position == 0 else None)
                for position, (name, value) in enumerate(values.items())
            )
            text = f"{tool}({', '.join(f'{name}={value!r}' for name, value in values.items())})"
            steps.append(Step(number + 1, tool, arguments, world.call(text)))
    return steps


def cut(steps: list[Step]) -> list[list[str]]:
    slices = asyncio.run(sliced(InProcessSimulator(), "test", START, steps))
    return [[call.partition("(")[0] for call in each.calls] for each in slices]


CD: Call = ("cd", {"folder": "docs"})
CAT: Call = ("cat", {"file_name": "b.md"})
MKDIR: Call = ("mkdir", {"dir_name": "new"})
TOUCH: Call = ("touch", {"file_name": "x.txt"})


@pytest.mark.parametrize(
    "errand",
    [
        [CD, ("cat", {"file_name": "a.txt"})],
        [CD, TOUCH],
        [CD, ("ls", {})],
        [MKDIR, ("mv", {"source": "b.md", "destination": "new"})],
        [TOUCH, ("echo", {"content": "red", "file_name": "x.txt"})],
    ],
)
def test_what_the_last_call_needs_stays(errand: list[Call]) -> None:
    assert cut(walk(errand)) == [[tool for tool, _ in errand]]


@pytest.mark.parametrize(
    "errand",
    [
        [CAT, TOUCH],
        [MKDIR, TOUCH],
        [TOUCH, CAT],
        [("ls", {}), TOUCH],
        [("cat", {"file_name": "b.md"}), ("echo", {"content": "x", "file_name": "b.md"})],
        [
            ("echo", {"content": "x", "file_name": "b.md"}),
            ("echo", {"content": "y", "file_name": "b.md"}),
        ],
    ],
)
def test_what_the_last_call_does_not_need_is_a_turn_of_its_own(errand: list[Call]) -> None:
    assert cut(walk(errand)) == [[tool] for tool, _ in errand]


def test_a_call_stays_whose_answer_was_copied() -> None:
    echo: Call = ("echo", {"content": "blue", "file_name": "c.md"})
    assert cut(walk([CAT, echo], answered=(1, 0))) == [["cat", "echo"]]
    assert cut(walk([CAT, echo])) == [["cat"], ["echo"]]


def test_an_errand_is_judged_in_the_state_that_the_ones_before_left() -> None:
    assert cut(walk([CD], [TOUCH, ("cat", {"file_name": "a.txt"})])) == [
        ["cd"],
        ["touch"],
        ["cat"],
    ]


def test_calls_that_failed_and_the_look_around_are_left_out() -> None:
    steps = walk([("rmdir", {"dir_name": "nothing"}), CAT])
    assert cut([Step(0, "find", (), steps[1].observed), *steps]) == [["cat"]]


def test_a_slice_has_its_calls_as_parts() -> None:
    each = Slice(calls=("ls()", "pwd()"), results=("a", "b"))
    assert each.parts() == (Slice(("ls()",), ("a",)), Slice(("pwd()",), ("b",)))
