import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from coevolve.environments.tools.filesystem.explorer import Chain, Walk
from coevolve.environments.tools.filesystem.grammar import exploration_start
from coevolve.environments.tools.filesystem.manual import manual
from coevolve.environments.tools.filesystem.simulated import CLASS, InProcessSimulator
from coevolve.environments.tools.filesystem.slicing import world_of
from coevolve.environments.tools.filesystem.steps import LOOKING, Step

TOOLS = manual(CLASS)


def explore(seed: int, chains: Sequence[Chain], most_calls: int = 12) -> Sequence[Step]:
    walk = Walk(
        InProcessSimulator(), f"walk-{seed}", TOOLS, np.random.default_rng(seed), most_calls
    )
    return asyncio.run(walk.run(world_of(exploration_start(0, seed)), chains))


def done(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.errand != LOOKING and not step.observed.failed]


def test_a_walk_is_a_function_of_its_seed() -> None:
    chains = (("cd", "cat"), ("grep",), ("mv",))
    assert explore(3, chains) == explore(3, chains)
    assert explore(3, chains) != explore(4, chains)


def test_a_walk_makes_no_more_calls_than_it_may() -> None:
    steps = explore(0, (("ls",), ("du", "pwd"), ("ls",)), most_calls=4)
    assert len(steps) == 4


@pytest.mark.parametrize("tool", list(TOOLS))
def test_most_errands_of_one_tool_succeed(tool: str) -> None:
    went = [step for seed in range(30) for step in done(explore(seed, ((tool,),)))]
    assert sum(step.tool == tool for step in went) >= (10 if tool == "rmdir" else 20)


def test_what_a_call_left_behind_is_used() -> None:
    for seed in range(20):
        made, moved = done(explore(seed, (("mkdir", "mv"),)))
        assert moved.arguments[1].value == made.arguments[0].value
        assert moved.arguments[1].answered_by is None


def test_an_argument_remembers_which_answer_it_came_from() -> None:
    walks = [explore(seed, (("cat", "echo"),)) for seed in range(30)]
    copied = [steps for steps in walks if steps[-1].arguments[0].answered_by is not None]
    assert len(copied) > 15
    for *_, shown, written in copied:
        assert (shown.tool, written.tool) == ("cat", "echo")
        assert f'"{written.arguments[0].value}"' in shown.observed.result
        assert written.arguments[1].value != shown.arguments[0].value


def test_a_search_leads_to_where_the_file_is() -> None:
    walks = [
        steps for seed in range(30) if len(steps := explore(seed, (("find", "cd", "rm"),))) == 4
    ]
    assert len(walks) > 15
    for _, found, went, removed in walks:
        assert went.arguments[0].answered_by == 1
        assert removed.arguments[0].value == found.arguments[1].value
        assert not removed.observed.failed


def test_a_word_is_looked_up_in_the_file_before_it_is_searched_there() -> None:
    for seed in range(10):
        around, looked, searched = explore(seed, (("grep",),))
        assert around.errand == looked.errand == LOOKING
        assert searched.arguments[0].value == looked.arguments[0].value
        assert str(searched.arguments[1].value) in looked.observed.result
        assert searched.observed.result != '{"matching_lines": []}'


def test_a_number_makes_a_difference() -> None:
    tails = [explore(seed, (("tail",),)) for seed in range(30)]
    used = [steps for steps in tails if done(steps)]
    assert len(used) > 20
    for steps in used:
        (shown,), other = done(steps), steps[-1]
        assert other.errand == LOOKING
        assert other.observed.result != shown.observed.result


def test_no_call_is_made_twice_in_the_same_place() -> None:
    steps = explore(1, (("du",), ("du",), ("pwd",), ("du",)))
    assert [step.tool for step in done(steps)] == ["du", "pwd"]


def test_an_errand_goes_on_without_a_call_that_cannot_be_made() -> None:
    went = [[step.tool for step in done(explore(seed, (("cd", "rmdir"),)))] for seed in range(30)]
    assert ["rmdir"] in went
    assert ["cd", "rmdir"] not in went  # no folder of these worlds holds another
