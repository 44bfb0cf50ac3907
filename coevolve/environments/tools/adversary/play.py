"""Plays the cheap adversary on every task of a set, and says which attempt solves a task.

Whatever is tried, each attempt is made in a new world and graded as in a run. An attempt that
cannot be graded earns nothing.

*What counts against a task.* That it is solved

- by doing nothing, by a call of no tool, or by words that answer nothing (`adversary.words`);
- by most of the calls that are not its own (`adversary.calls`);
- by its own tools with all other arguments that were tried;
- by all other values of an argument that its tool takes (`adversary.tried`), at least two, if the
  task says the value: in its instruction, or in an answer to an earlier call of the reference
  (`adversary.arguments`). Where the reference is compared, its tool's answer never varies, because
  answers are compared, too;
- if the reference is compared and changes no state, by a call of another kind that has the same
  answer, where this answer never varies: it is the same in all tasks and for all arguments. A
  reference that ends where it began is tried with exchanged arguments, too;
- by what only several tasks show (`adversary.across`).

*What does not.* A single wrong call may do what was asked, such as a switch that is toggled instead
of turned on, or find the same number by chance. The reference's own calls are the solution, also
where they only read.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, pairwise

from coevolve.environments.tools.adversary.across import Across
from coevolve.environments.tools.adversary.arguments import Parameter
from coevolve.environments.tools.adversary.calls import (
    MOST,
    Changed,
    OtherCalls,
    no_call,
    tools_in,
)
from coevolve.environments.tools.adversary.found import Found
from coevolve.environments.tools.adversary.player import Player, Restarts
from coevolve.environments.tools.adversary.probes import Attempt, Grading, Probe, plainest
from coevolve.environments.tools.adversary.tried import (
    ROUNDS,
    Made,
    Played,
    Undecided,
    all_pass,
    all_passed,
    carried_out,
    changed,
    made,
)
from coevolve.environments.tools.adversary.words import IDLE_KINDS, SENTENCE, Words
from coevolve.environments.tools.commands import Failed, Tried
from coevolve.environments.tools.gates.trials import passes
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask

MOST_ATTEMPTS = 40_000
"""Attempts on all tasks of a set, as far as one of each kind on each task allows."""

ENOUGH = 2
"""Fewer calls with other arguments than this may do the same by chance."""

SILENCE = "silence (no call, no answer) gets the full reward"
AT_START = ", for example because the goal already holds at the start"
NO_TOOL = "a call of no tool"


async def solved(
    bodies: Sequence[ToolTask], pool: SimulatorPool, service: Restarts, grading: Grading
) -> Found:
    """Return, by its place, the attempt that solves a task without doing what it asks."""
    adversary = _Adversary(bodies, Player(pool, service, certain=grading.certain), grading)
    return await adversary.found()


def probes_of(body: ToolTask, words: Words | None, number: int, room: int) -> list[Probe]:
    """Return the probes of task ``number`` without calls of its tools, the plainest first.

    With ``words`` they are about as many as ``room``, but at least one of each kind; where one is
    left out of a kind, the choice differs from task to task.
    """
    nothing = SILENCE + (AT_START if words is None else "")
    silent = Probe(nothing, [Attempt(((),) * len(body.turns))])
    probes = [silent, Probe(NO_TOOL, [no_call(body)])]
    if words is None:
        return probes
    of_kind: defaultdict[str, list[Probe]] = defaultdict(list)
    for probe in words.probes(number):
        of_kind[probe.kind].append(probe)
    most = max(room // (2 * len(of_kind)), 1)
    for kind in of_kind.values():
        first = number % len(kind) if most < len(kind) else 0
        probes += (*kind[first:], *kind[:first])[:most]
    return probes


class _Adversary:
    def __init__(self, bodies: Sequence[ToolTask], player: Player, grading: Grading) -> None:
        self._bodies = bodies
        self._player = player
        self._grading = grading
        self._room = max(MOST_ATTEMPTS // max(len(bodies), 1), 1)
        self._words = Words(bodies) if grading.judges_words else None
        said = SENTENCE if grading.judges_words else ""
        self._calls = OtherCalls(bodies, said, max(min(self._room // 4, MOST), 1))
        self._answers: defaultdict[str, set[tuple[str, bool]]] = defaultdict(set)
        """Tool -> its answers that are no errors, and whether it may have changed the state."""

        self._changing: set[str] = set()
        """Tools that change the state without another tool."""

        self._decided: set[Parameter] = set()
        """Parameters of which some value fails in some task."""

        self._idle: dict[int, float] = {}
        """Place of a task -> the highest reward below 1 of doing nothing."""

    async def found(self) -> Found:
        """Return what solves each task that is solved, by its place, and what may be wrong."""
        tried = [await self._tried(number) for number in range(len(self._bodies))]
        played = {n: each for n, each in enumerate(tried) if not isinstance(each, str)}
        by_words = {n: each for n, each in enumerate(tried) if isinstance(each, str)}
        reasons = by_words | {n: self._by_calls(each) for n, each in played.items()}
        across = Across(
            self._bodies, played, self._one_answer, self._changing, self._decided, self._grading
        )
        by_several = across.by_one_call()
        if self._grading.is_own:
            by_several |= across.by_arguments()
        every = {n: reasons[n] or by_several.get(n, "") for n in reasons}
        named = {n: reason for n, reason in every.items() if reason}
        return Found(
            solved=named,
            doubts=across.doubts(named, self._idle) if self._grading.is_own else (),
            idle_reward=max(self._idle.values(), default=0.0),
        )

    async def _tried(self, number: int) -> str | Played:
        """Return the probe that solves the task, or the results of other calls."""
        body = self._bodies[number]
        probes = probes_of(body, self._words, number, self._room)
        tried = await self._player.play(body, [each for probe in probes for each in probe.every])
        results, passing = iter(tried), list[Probe]()
        for probe in probes:
            outcomes = [next(results) for _ in probe.every]
            attempts, unless = outcomes[: len(probe.attempts)], outcomes[len(probe.attempts) :]
            if all_passed(attempts) and not (unless and all_passed(unless)):
                passing.append(probe)
            if probe.kind.startswith((SILENCE, NO_TOOL, *IDLE_KINDS)):
                self._note_idle(number, attempts)
        if passing:
            return passing[0].shown
        return await self._called(number)

    def _note_idle(self, number: int, tried: Sequence[Tried | None]) -> None:
        verdicts = (each.turns[-1].verdict for each in tried if each is not None)
        rewards = (each.reward for each in verdicts if isinstance(each, Failed))
        self._idle[number] = max(self._idle.get(number, 0.0), *rewards, 0.0)

    async def _called(self, number: int) -> Played:
        """Return the results of calls that are not the task's own."""
        body, calls = self._bodies[number], self._calls.calls(number)
        kinds = (calls.other_tools, calls.fields, calls.same_tools)
        attempts = chain(*kinds, calls.parts.values())
        reference, *results = await self._player.play(body, [calls.reference, *attempts])
        left = iter(results)
        other, fields, same = (
            [(each, tried) for each in kind if (tried := next(left)) is not None] for kind in kinds
        )
        rest = zip(calls.parts.items(), left, strict=True)
        parts = {place: (each, tried) for (place, each), tried in rest if tried is not None}
        own = [(calls.reference, reference)] if reference is not None else []
        played = Played(own, other, fields, same, parts)
        self._remember((*played.reference, *played.every))
        if not self._grading.is_own:
            return played
        if not self._grading.rewards and not played.changes:
            played = await self._renamed(number, played)
        return await self._judged(body, played, calls.arguments)

    async def _renamed(self, number: int, played: Played) -> Played:
        """Return the results with those of exchanged arguments, for a reference of several calls.

        It may be a tour that ends where it began.
        """
        several = any(len(attempt.calls) > 1 for attempt, _ in played.reference)
        renamed = self._calls.renamed(number) if several else []
        ended = zip(renamed, await self._player.play(self._bodies[number], renamed), strict=True)
        return played._replace(renamed=[(each, how) for each, how in ended if how is not None])

    async def _judged(self, body: ToolTask, played: Played, arguments: Sequence[Changed]) -> Played:
        """Return the results with the arguments of which no value decides, and those that do.

        Most are decided by the first value, so the others are tried only if it leaves a doubt.
        """
        matter = [each for each in arguments if played.matters(each.place)]
        left = [Undecided(each, ()) for each in matter if self._may_count(each)]
        for first, last in pairwise(ROUNDS):
            attempts = [attempt for each in left for attempt in each.changed.attempts[first:last]]
            results = zip(attempts, await self._player.play(body, attempts), strict=True)
            tried = {attempt: how for attempt, how in results if how is not None}
            self._remember([*tried.items()])
            judged = [(each, played.judged(each, tried)) for each in left]
            self._decided |= {each.parameter for each, after in judged if after is None}
            left = [after for _, after in judged if after is not None]
        return played._replace(undecided=left)

    def _may_count(self, argument: Changed) -> bool:
        """Return whether it matters that an argument decides nothing in a task."""
        variants = argument.variants
        return (self._grading.rewards or self._one_answer(variants.slot.tool)) and (
            variants.said or variants.parameter not in self._decided
        )

    def _remember(self, made: Sequence[Made]) -> None:
        """Remember the answers of tools, and which tools change the state alone."""
        for attempt, tried in made:
            tools, changes = tools_in(attempt), changed(tried)
            if len(tools) == 1 and changes:
                self._changing |= tools
            for calls, turn in zip(attempt.turns, tried.turns, strict=True):
                for call, answer in zip(calls, turn.observed, strict=True):
                    if not answer.failed:
                        counts = changes or len(tools) > 1
                        self._answers[call.partition("(")[0]].add((answer.result, counts))

    def _by_calls(self, played: Played) -> str:
        """Return which calls solve the task although they are not its own; empty if none do.

        Those with the fewest calls are shown.
        """
        if not self._grading.rewards and not played.changes:
            return self._by_answer(played)
        if not _is_solved(played):
            return ""
        found = {
            "a part of its calls": [attempt for _, (attempt, _) in played.idle_parts],
            "a field of the task as an argument": made(played.fields),
            "its own tools with other arguments": made(played.same),
            "most calls that are not its own": made(played.other),
        }
        kinds = [Probe(kind, plainest(attempts)) for kind, attempts in found.items() if attempts]
        return min(kinds, key=lambda each: len(each.attempts[0].calls)).shown

    def _by_answer(self, played: Played) -> str:
        """Return a call with the answer of a reference that changes nothing; empty if none has."""
        if not self._never_vary(*(attempt for attempt, _ in played.reference)):
            return ""
        if alike := [each for each in made([*played.every]) if self._never_vary(each)]:
            return Probe("a call with the same answer", plainest(alike)).shown
        if renamed := made(played.renamed):
            return Probe("its own tools with other arguments", plainest(renamed)).shown
        return ""

    def _never_vary(self, *attempts: Attempt) -> bool:
        """Return whether the tools of these attempts have one answer each, in all tasks."""
        tools = {tool for attempt in attempts for tool in tools_in(attempt)}
        return all(map(self._one_answer, tools))

    def _one_answer(self, tool: str) -> bool:
        """Return whether a tool has one answer; if it changes the state, then wherever it does."""
        counted = {
            answer
            for answer, changes in self._answers[tool]
            if changes or tool not in self._changing
        }
        return len(counted) <= 1


def _is_solved(played: Played) -> bool:
    """Return whether more calls that are not the task's own pass than chance explains."""
    if all_pass(played.same, ENOUGH) or all_pass(played.fields):
        return True
    counted = carried_out((*played.other, *played.same))
    return 2 * sum(map(passes, counted)) > len(counted)
