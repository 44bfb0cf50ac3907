"""Candidates of known quality: draws of the task grammar, unchanged and spoilt on purpose."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from coevolve.environments.tools.filesystem.grammar import paraphrases, uniform_task
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from coevolve.environments.tools.trial import TrialRun
from protocols.evolution import Candidate, Gate
from protocols.tasks import Task, body_of

FICKLE = "fickle"
"""Name of the candidates for which simulators give different answers each time."""

READING = ("cat", "sort", "wc", "du", "ls")
DOORS = ("driver", "passenger", "rear_left", "rear_right")

_numbers = itertools.count()


def candidate(body: ToolTask, name: str = "candidate") -> Candidate:
    number = next(_numbers)
    return Candidate(
        candidate_id=f"{name}-{number}",
        signal_id=f"signal-{number}",
        exploration_id=f"exploration-{number}",
        synthesizer="planted",
        body=body_of(body),
        policy_version=0,
    )


def has_effect(body: ToolTask) -> bool:
    """Return whether every turn changes something or answers something."""
    tried = TrialRun(body, [turn.reference for turn in body.turns]).play()
    before = tried.initial
    for turn in tried.turns:
        answers = [json.loads(o.result) for o in turn.observed if o.result != "None"]
        if turn.state == before and not any(any(answer.values()) for answer in answers):
            return False
        before = turn.state
    return True


def draws(seed: int) -> Iterator[Task]:
    """Yield new tasks in which every turn has an effect."""
    return filter(
        lambda task: has_effect(read_body(task.body)),
        (uniform_task(seed, n) for n in itertools.count()),
    )


def single(seed: int, skill: str) -> Iterator[Task]:
    """Yield new tasks with one turn, which has the given skill."""
    for task in draws(seed):
        if task.skills[0] == skill:
            body = read_body(task.body)
            first = with_turns(body, body.turns[:1])
            yield msgspec.structs.replace(task, skills=(skill,), body=body_of(first))


def with_turns(body: ToolTask, turns: Sequence[ToolTurn]) -> ToolTask:
    return msgspec.structs.replace(body, turns=tuple(turns))


def said(instruction: str, *reference: str) -> ToolTurn:
    return ToolTurn(instruction=instruction, reference=reference)


def reworded(body: ToolTask, turn: int, instruction: str) -> ToolTask:
    turns = list(body.turns)
    turns[turn] = said(instruction, *turns[turn].reference)
    return with_turns(body, turns)


def recalled(body: ToolTask, turn: int, *reference: str) -> ToolTask:
    turns = list(body.turns)
    turns[turn] = said(turns[turn].instruction, *reference)
    return with_turns(body, turns)


def some_file(body: ToolTask) -> str:
    """Return a file in the folder in which the conversation starts."""
    return next(name for name, item in contents(body).items() if item["type"] == "file")


def some_folder(body: ToolTask) -> str:
    return next(name for name, item in contents(body).items() if item["type"] == "directory")


def contents(body: ToolTask) -> dict[str, dict[str, str]]:
    return json.loads(body.world)["GorillaFileSystem"]["root"]["workspace"]["contents"]


def malformed(seed: int) -> Iterator[ToolTask]:
    for number, task in enumerate(draws(seed)):
        body = read_body(task.body)
        first = body.turns[0]
        yield (
            with_turns(body, ()),
            reworded(body, 0, ""),
            reworded(body, 0, " \n"),
            with_turns(body, body.turns * 9),
            recalled(body, 0, *["ls()"] * 5),
            recalled(body, 0, "not a call"),
            recalled(body, 0, "rm(file_name=ls())"),
            recalled(body, 0, f"{first.reference[0]}; ls()"),
            recalled(body, 0, "touch(file_name=f'{1}.txt')"),
            reworded(body, 0, f"Mind 'the gap and {first.instruction}"),
            msgspec.structs.replace(body, world="{"),
            msgspec.structs.replace(body, world='{"GorillaFileSystem": {"root": {"x": 1}}}'),
            msgspec.structs.replace(body, classes=("Shell",)),
            msgspec.structs.replace(body, classes=()),
            reworded(body, 0, "x" * 5000),
        )[number % 15]


def unknown_tool(seed: int) -> Iterator[ToolTask]:
    for number, task in enumerate(draws(seed)):
        turn = number % len(read_body(task.body).turns)
        calls = read_body(task.body).turns[turn].reference
        yield recalled(read_body(task.body), turn, *calls[:-1], f"x{calls[-1]}")


def replay_failed(seed: int) -> Iterator[ToolTask]:
    for number, task in enumerate(draws(seed)):
        body = read_body(task.body)
        file, folder = some_file(body), some_folder(body)
        bad = (
            said("Read 'zebra.bin'.", "cat(file_name='zebra.bin')"),
            said("Go into 'zebra'.", "cd(folder='zebra')"),
            said(f"Copy '{folder}'.", f"cp(source='{folder}', destination='{folder}')"),
            said(f"Delete '{file}'.", f"rm(file_name='{file}')", f"rm(file_name='{file}')"),
            said(f"Create '{folder}'.", f"mkdir(dir_name='{folder}')"),
            said(f"Read '{file}'.", f"cat(path='{file}')"),
        )[number % 6]
        yield with_turns(body, (bad, *body.turns))


def no_effect(seed: int) -> Iterator[ToolTask]:
    for number, task in enumerate(draws(seed)):
        body = read_body(task.body)
        file = some_file(body)
        bad = (
            said("Where are items named 'zebra'?", "find(path='.', name='zebra')"),
            said(f"Search '{file}' for 'zebra'.", f"grep(file_name='{file}', pattern='zebra')"),
            said(f"Compare '{file}' and '{file}'.", f"diff('{file}', '{file}')"),
            said("Do nothing for now."),
        )[number % 4]
        yield with_turns(body, (bad, *body.turns) if number % 3 else (*body.turns, bad))


def read_at_last(seed: int) -> Iterator[ToolTask]:
    """Yield bodies whose last turn is one reading call."""
    for task in draws(seed):
        (first, *others) = read_body(task.body).turns[-1].reference
        if not others and first.partition("(")[0] in READING:
            yield read_body(task.body)


def passes_without_acting(seed: int) -> Iterator[ToolTask]:
    for body in read_at_last(seed):
        last = body.turns[-1]
        yield with_turns(body, (*body.turns, said(f"{last.instruction} Again.", *last.reference)))


def passes_truncated(seed: int) -> Iterator[ToolTask]:
    for body in read_at_last(seed):
        again = said(
            f"{body.turns[-1].instruction} And create 'zebra.txt'.",
            *body.turns[-1].reference,
            "touch(file_name='zebra.txt')",
        )
        yield with_turns(body, (*body.turns, again))


def passes_reordered(seed: int) -> Iterator[ToolTask]:
    """Locks doors: the answers count those that are left, and one count is known already."""
    for first, second in itertools.permutations(DOORS, 2):
        others = [door for door in DOORS if door not in (first, second)]
        locked = [f"lockDoors(unlock=False, door=['{first}'])"]
        yield ToolTask(
            classes=("VehicleControlAPI",),
            world='{"VehicleControlAPI": {}}',
            turns=(
                said(f"Unlock '{first}', '{second}', '{others[0]}' and '{others[1]}'.", *opened()),
                said(f"Lock '{first}', then unlock '{first}'.", *locked, *opened(first)),
                said(
                    f"Lock '{first}', then '{others[0]}' and '{others[1]}'.",
                    *locked,
                    f"lockDoors(unlock=False, door={others})",
                ),
            ),
        )


def opened(*doors: str) -> tuple[str, ...]:
    return (f"lockDoors(unlock=True, door={list(doors or DOORS)})",)


def passes_wrong_argument(seed: int) -> Iterator[ToolTask]:
    for number, task in enumerate(draws(seed)):
        body = read_body(task.body)
        files = contents(body).items()
        short = [
            name for name, item in files if item.get("content") and "\n" not in item["content"]
        ]
        if short and number % 2:
            lines = 2 + number % 5
            call = f"tail(file_name='{short[0]}', lines={lines})"
            yield with_turns(body, [said(f"Show the last {lines} lines of '{short[0]}'.", call)])
        else:
            file = some_file(body)
            calls = f"echo(content='zebra', file_name='{file}')", f"rm(file_name='{file}')"
            yield with_turns(body, [said(f"Write 'zebra' into '{file}' and delete it.", *calls)])


def description_omits(seed: int) -> Iterator[ToolTask]:
    for task in draws(seed):
        turn = read_body(task.body).turns[0]
        numbers = re.search(r" \d(?= lines)", turn.instruction)
        if numbers:
            yield reworded(read_body(task.body), 0, turn.instruction.replace(numbers[0], ""))
        elif "'" in turn.instruction:
            yield reworded(
                read_body(task.body), 0, re.sub(r"'[^']*'", "it", turn.instruction, count=1)
            )


def description_invents(seed: int) -> Iterator[ToolTask]:
    for number, task in enumerate(draws(seed)):
        turn = number % len(read_body(task.body).turns)
        instruction = read_body(task.body).turns[turn].instruction
        if "tail" in task.skills[turn]:
            yield reworded(read_body(task.body), turn, f"{instruction} Take 77 at most.")
        else:
            extra = ("Mind 'zebra.txt' as well.", 'The folder is "zebra".', "Not `zebra`.")
            yield reworded(read_body(task.body), turn, f"{instruction} {extra[number % 3]}")


def copies(tasks: Sequence[Task]) -> Iterator[ToolTask]:
    """Yield tasks unchanged, with other case and punctuation, and paraphrased in the same world."""
    for number, task in enumerate(tasks):
        turns = list(read_body(task.body).turns)
        for position, turn in enumerate(turns):
            match number % 3:
                case 0:
                    instruction = turn.instruction
                case 1:
                    parts = turn.instruction.rstrip(".?").split("'")
                    parts[::2] = [part.upper() for part in parts[::2]]
                    instruction = "'".join(parts) + "!"
                case _:
                    known = paraphrases(task.skills[position], turn.reference)
                    instruction = min(known - {turn.instruction})
            turns[position] = said(instruction, *turn.reference)
        yield with_turns(read_body(task.body), turns)


SPOILT: dict[Gate, Callable[[], Iterator[ToolTask]]] = {
    "malformed": lambda: malformed(101),
    "unknown_tool": lambda: unknown_tool(102),
    "replay_failed": lambda: replay_failed(103),
    "no_effect": lambda: no_effect(104),
    "passes_without_acting": lambda: passes_without_acting(105),
    "passes_truncated": lambda: passes_truncated(106),
    "passes_reordered": lambda: passes_reordered(107),
    "passes_wrong_argument": lambda: passes_wrong_argument(108),
    "description_omits": lambda: description_omits(109),
    "description_invents": lambda: description_invents(110),
}
"""Gate -> bodies that it has to refuse; gates that compare with other tasks are left out."""
