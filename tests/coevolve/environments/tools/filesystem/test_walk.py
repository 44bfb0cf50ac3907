import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from coevolve.environments.tools.commands import Trial, Tried
from coevolve.environments.tools.filesystem.grammar import exploration_start
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.filesystem.walk import (
    LINKS,
    TOOLS,
    Chain,
    Errand,
    Slice,
    errands,
    says_something,
    walk,
)
from coevolve.environments.tools.session import World
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.worker import ToolWorker

NOTHING = ToolTurn(instruction="", reference=())
ALL_LINKS = tuple(chain for kind in LINKS for chain in kind)


def world(seed: int, turns: int = 1) -> ToolTask:
    start = exploration_start(0, seed)
    return ToolTask(classes=start.classes, world=start.world, turns=(NOTHING,) * turns)


def walked(seed: int, chains: Sequence[Chain], most_calls: int = 12) -> tuple[Errand, ...]:
    return walk(world(seed), chains, np.random.default_rng(seed), most_calls)


def slices(seed: int, *chains: Chain) -> list[Slice]:
    return [each for errand in walked(seed, chains) for each in errand]


def called(each: Slice) -> Chain:
    return tuple(call.partition("(")[0] for call in each.calls)


def values(call: str) -> list[str]:
    """Return what is quoted in a call."""
    return call.split("'")[1::2]


def linked(chain: Chain, worlds: int) -> list[Slice]:
    """Return the walks of which the whole chain is one slice; at least one in ten worlds."""
    walks = [slices(seed, chain) for seed in range(worlds)]
    found = [each for each, *more in filter(None, walks) if called(each) == chain and not more]
    assert len(found) >= worlds / 10
    return found


async def test_the_simulator_answers_as_the_walk_did_and_ends_in_the_same_state(
    worker: ToolWorker,
) -> None:
    trials: list[Trial] = []
    expected: list[list[tuple[tuple[str, ...], str]]] = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        found = walk(world(seed), errands((), 4, rng), rng, 12)
        turns = [each for errand in found for each in errand]
        again, states = World(world(seed)), list[str]()
        for each in turns:
            assert tuple(again.call(call).result for call in each.calls) == each.results
            states.append(again.digest())
        expected.append([(each.results, state) for each, state in zip(turns, states, strict=True)])
        calls = tuple(each.calls for each in turns)
        trials.append(Trial(session=f"walk-{seed}", task=world(seed, len(turns)), turns=calls))
    assert sum(len(trial.turns) for trial in trials) > 500
    for reply, turns in zip(await worker.execute(trials), expected, strict=True):
        assert isinstance(reply, Tried)
        assert not any(observed.failed for turn in reply.turns for observed in turn.observed)
        answered = [tuple(each.result for each in turn.observed) for turn in reply.turns]
        assert list(zip(answered, [turn.state for turn in reply.turns], strict=True)) == turns


def test_a_walk_is_a_function_of_its_seed() -> None:
    chains = (("cd", "cat"), ("grep",), ("mv",))
    assert walked(3, chains) == walked(3, chains)
    assert walked(3, chains) != walk(world(3), chains, np.random.default_rng(4), 12)


def test_a_walk_makes_no_more_calls_than_it_may() -> None:
    assert [called(each) for each in slices(0, ("ls",), ("du",))] == [("ls",), ("du",)]
    walks = (walked(0, (("ls",), ("rm", "du"), ("touch", "echo")), most) for most in range(6))
    made = [sum(len(each.calls) for errand in found for each in errand) for found in walks]
    assert made == [0, 1, 1, 3, 3, 5]


def test_the_table_has_every_documented_tool() -> None:
    assert set(TOOLS) == {document.name for document in tool_documents(CLASS)}


@pytest.mark.parametrize("tool", TOOLS)
def test_an_errand_of_one_tool_is_made_where_it_can_be(tool: str) -> None:
    made = [seed for seed in range(30) if [called(e) for e in slices(seed, (tool,))] == [(tool,)]]
    assert len(made) >= (10 if tool == "rmdir" else 25)


@pytest.mark.parametrize("chain", ALL_LINKS, ids=" > ".join)
def test_the_calls_of_a_link_are_one_slice(chain: Chain) -> None:
    assert len(linked(chain, 40)) >= (5 if chain[-1] == "diff" else 15)


def test_what_is_made_is_used() -> None:
    for each in linked(("touch", "echo"), 20):
        made, written = each.calls
        assert values(written)[1] == values(made)[0]
    for each in linked(("mkdir", "mv"), 20):
        made, moved = each.calls
        assert values(moved)[1] == values(made)[0]


def test_a_text_that_was_shown_is_written_into_another_file() -> None:
    for each in linked(("cat", "echo"), 40):
        shown, written = each.calls
        text, file = values(written)
        assert json.loads(each.results[0]) == {"file_content": text}
        assert file != values(shown)[0]


def test_a_search_leads_to_where_the_file_is() -> None:
    for each in linked(("find", "cd", "rm"), 40):
        found, went, removed = each.calls
        (folder,), (file,) = values(went), values(removed)
        assert values(found)[1] == file
        assert json.loads(each.results[0]) == {"matches": [f"./{folder}/{file}"]}


def test_what_is_done_in_a_folder_cannot_be_done_outside() -> None:
    found = 0
    for seed in range(40):
        for each in slices(seed, ("cd", "cat")):
            if called(each) == ("cd", "cat"):
                found += 1
                folder = json.loads(world(seed).world)[CLASS]["root"]["workspace"]["contents"]
                inside = folder[values(each.calls[0])[0]]["contents"]
                assert values(each.calls[1])[0] in inside
    assert found > 10


@pytest.mark.parametrize("chain", [("rm", "ls"), ("mkdir", "cd"), ("ls", "cd"), ("cat", "cat")])
def test_calls_that_are_no_link_are_slices_in_the_order_of_the_errand(chain: Chain) -> None:
    for seed in range(10):
        assert [called(each) for each in slices(seed, chain)] == [(tool,) for tool in chain]


def test_a_longer_errand_is_cut_where_a_link_ends() -> None:
    walks = [[called(each) for each in slices(seed, ("cd", "cat", "sort"))] for seed in range(20)]
    assert walks.count([("cd", "cat"), ("sort",)]) > 10


def test_every_call_tells_or_changes_something() -> None:
    made: Counter[str] = Counter()
    for seed in range(40):
        for each in slices(seed, ("grep",), ("touch", "cat"), ("diff",), ("tail",)):
            made.update(called(each))
            assert len(each.results) == len(each.calls)
            assert all(map(says_something, each.results)) or called(each) == ("touch",)
    assert min(made[tool] for tool in ("grep", "touch", "diff", "tail")) >= 5


def test_a_number_of_lines_makes_a_difference() -> None:
    found = 0
    for seed in range(20):
        (each,) = slices(seed, ("tail",))
        if called(each) == ("tail",):
            found += 1
            whole = World(world(seed)).call(f"cat(file_name={values(each.calls[0])[0]!r})")
            text = json.loads(whole.result)["file_content"]
            assert len(json.loads(each.results[0])["last_lines"]) < len(text)
    assert found > 5


def test_where_an_errand_finds_nothing_to_do_the_walk_goes_elsewhere() -> None:
    walks = [[called(each) for each in slices(s, ("cd",), ("sort",), ("sort",))] for s in range(40)]
    assert [("cd",), ("cd",), ("sort",)] in walks
    assert [("cd",), ("sort",), ("sort",)] in walks


def test_the_first_errand_has_the_focus() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        first, *others = errands((("mkdir", "mv"),), 3, rng)
        assert (first, len(others)) == (("mkdir", "mv"), 2)
        assert "rm" in errands((("rm",),), 1, rng)[0]
        assert errands((("ls", "rm"),), 1, rng)[0] == ("ls", "rm")
        assert errands((("cd", "rm"),), 1, rng)[0] in (("cd", "rm"), ("find", "cd", "rm"))


def test_without_a_focus_every_tool_and_every_link_is_tried() -> None:
    tried = set(errands((), 3000, np.random.default_rng(0)))
    assert tried == {(tool,) for tool in TOOLS} | set(ALL_LINKS)


def test_a_slice_has_its_calls_as_parts() -> None:
    each = Slice(calls=("ls()", "pwd()"), results=("a", "b"))
    assert each.parts() == (Slice(("ls()",), ("a",)), Slice(("pwd()",), ("b",)))
    assert each.parts()[0].parts() == ()


@pytest.mark.parametrize("result", ["None", "", "{}", '{"matches": []}', '{"diff_lines": ""}'])
def test_an_empty_answer_says_nothing(result: str) -> None:
    assert not says_something(result)


@pytest.mark.parametrize("result", ['{"count": 0}', '{"matches": ["./a"]}', "plain"])
def test_any_other_answer_does(result: str) -> None:
    assert says_something(result)
