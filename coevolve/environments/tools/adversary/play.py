"""Plays the cheap adversary on every task of a set, and says which attempt solves a task.

Whatever is tried, each attempt is made in a new world and graded as in a run. An attempt that
cannot be graded earns nothing.

*What counts against a task.* That it is solved

- by doing nothing, by a call of no tool, or by words that answer nothing (`adversary.words`);
- by most of the calls that are not its own (`adversary.calls`);
- by its own tools with all other arguments that were tried, or with all other values of an argument
  whose value the instruction says (where the reference is compared, of a tool whose answer never
  varies, because answers are compared, too);
- if the reference is compared and changes no state, by a call of another kind that has the same
  answer, where this answer never varies: it is the same in all tasks and for all arguments.

*What does not.* A single wrong call may do what was asked, such as a switch that is toggled instead
of turned on, or find the same number by chance. The reference's own calls are the solution, also
where they only read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from coevolve.environments.tools.adversary.calls import MOST, Calls, OtherCalls, no_call, tools_in
from coevolve.environments.tools.adversary.probes import Attempt, Probe
from coevolve.environments.tools.adversary.words import SENTENCE, Words
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.trials import passes
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask
from protocols.errors import SimulatorError

MOST_ATTEMPTS = 40_000
"""Attempts on all tasks of a set, as far as one of each kind on each task allows."""

MOST_LOST = 20
"""Processes that attempts may end before words are no longer tried again alone."""

ENOUGH = 2
"""Fewer calls with other arguments than this may do the same by chance."""

AGAIN = 2
"""Further attempts that have to pass, too, where equal attempts may get different rewards."""


class Grading(NamedTuple):
    """How the tools of a set of tasks grade."""

    rewards: bool
    """Whether by a reward of their own; otherwise by comparison with the reference."""

    judges_words: bool
    certain: bool
    """Whether equal attempts get equal rewards."""

    is_own: bool
    """Whether the user can correct it. A benchmark's verdict is what it is, so what it overlooks in
    single arguments is not looked for."""


class Restarts(Protocol):
    """What counts the processes that were lost."""

    @property
    def restarts(self) -> int:
        """Number of processes that were replaced."""
        ...


async def solved(
    bodies: Sequence[ToolTask], pool: SimulatorPool, service: Restarts, grading: Grading
) -> Mapping[int, str]:
    """Return, by its place, the attempt that solves a task without doing what it asks."""
    adversary = _Adversary(bodies, _Player(pool, service, certain=grading.certain), grading)
    return await adversary.solved()


def probes_of(body: ToolTask, words: Words | None, number: int, room: int) -> list[Probe]:
    """Return the probes of task ``number`` without calls of its tools.

    With ``words`` they are about as many as ``room``, but at least one of each kind; where one is
    left out of a kind, the choice differs from task to task.
    """
    silent = Probe("silence", [Attempt(((),) * len(body.turns))])
    probes = [silent, Probe("a call of no tool", [no_call(body)])]
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


class _Player:
    """Makes attempts."""

    def __init__(self, pool: SimulatorPool, service: Restarts, *, certain: bool) -> None:
        self._pool = pool
        self._service = service
        self._again = 0 if certain else AGAIN
        self._lost = 0
        self._fatal: set[str] = set()
        """Tools that ended the process."""

    async def play(self, body: ToolTask, attempts: Sequence[Attempt]) -> list[Tried | None]:
        """Return the results; None for an attempt that cannot be made or graded.

        If one of them ends the process, the others are made again, each alone.
        """
        before = self._service.restarts
        found = list(await asyncio.gather(*(self._played(body, each) for each in attempts)))
        if self._service.restarts > before:
            for place, attempt in enumerate(attempts):
                if found[place] is None:
                    found[place] = await self._alone(body, attempt)
        return found

    async def _alone(self, body: ToolTask, attempt: Attempt) -> Tried | None:
        tools, before = tools_in(attempt), self._service.restarts
        if not tools and self._lost >= MOST_LOST:
            return None
        tried = await self._played(body, attempt)
        if self._service.restarts > before:
            self._lost += 1
            self._fatal |= tools
        return tried

    async def _played(self, body: ToolTask, attempt: Attempt) -> Tried | None:
        if self._fatal & tools_in(attempt):
            return None
        try:
            tried = await self._trial(body, attempt)
            for _ in range(self._again if passes(tried) else 0):
                again = await self._trial(body, attempt)
                tried = tried if passes(again) else again
        except SimulatorError:
            return None
        return tried

    async def _trial(self, body: ToolTask, attempt: Attempt) -> Tried:
        return await self._pool.trial("adversary", body, attempt.turns, attempt.words)


class _Played(NamedTuple):
    """The calls of a task that were tried, with their results."""

    reference: Sequence[tuple[Attempt, Tried]]
    """The reference; empty if it could not be played."""

    other: Sequence[tuple[Attempt, Tried]]
    fields: Sequence[tuple[Attempt, Tried]]
    same: Sequence[tuple[Attempt, Tried]]
    arguments: Sequence[Probe]
    """Those of which every attempt passed."""

    @property
    def every(self) -> Iterator[tuple[Attempt, Tried]]:
        """All of them but those with one other argument."""
        yield from (*self.other, *self.fields, *self.same)

    @property
    def changes(self) -> bool:
        """Whether the reference changes the state, as the grade sees it."""
        return any(
            turn.state != tried.initial for _, tried in self.reference for turn in tried.turns
        )


class _Adversary:
    def __init__(self, bodies: Sequence[ToolTask], player: _Player, grading: Grading) -> None:
        self._bodies = bodies
        self._player = player
        self._grading = grading
        self._room = max(MOST_ATTEMPTS // max(len(bodies), 1), 1)
        self._words = Words(bodies) if grading.judges_words else None
        said = SENTENCE if grading.judges_words else ""
        self._calls = OtherCalls(bodies, said, max(min(self._room // 4, MOST), 1))
        self._answers: defaultdict[str, set[str]] = defaultdict(set)
        """Tool -> its answers that are no errors."""

    async def solved(self) -> Mapping[int, str]:
        """Return what solves each task that is solved, by its place."""
        found = [await self._tried(number) for number in range(len(self._bodies))]
        reasons = (each if isinstance(each, str) else self._by_calls(each) for each in found)
        return {number: reason for number, reason in enumerate(reasons) if reason}

    async def _tried(self, number: int) -> str | _Played:
        """Return the probe that solves the task, or the results of other calls."""
        body = self._bodies[number]
        probes = probes_of(body, self._words, number, self._room)
        tried = await self._player.play(body, [each for probe in probes for each in probe.attempts])
        results = iter(tried)
        for probe in probes:
            if _all_passed([next(results) for _ in probe.attempts]):
                return probe.shown
        calls = self._calls.calls(number)
        reference, *results = await self._player.play(
            body,
            [
                *(calls.reference, *calls.other_tools, *calls.fields, *calls.same_tools),
                *(each for probe in calls.arguments for each in probe.every),
            ],
        )
        return self._noted(calls, reference, results)

    def _noted(
        self, calls: Calls, reference: Tried | None, results: Sequence[Tried | None]
    ) -> _Played:
        """Return the results by kind, and remember the answers of tools."""
        left = iter(results)
        other, fields, same = (
            [(each, tried) for each in kind if (tried := next(left)) is not None]
            for kind in (calls.other_tools, calls.fields, calls.same_tools)
        )
        own = [(calls.reference, reference)] if reference is not None else []
        outcomes = [(probe, [next(left) for _ in probe.every]) for probe in calls.arguments]
        arguments = [
            probe
            for probe, (*tried, without) in outcomes
            if _all_passed(tried) and not _all_passed([without])
        ]
        played = _Played(own, other, fields, same, arguments)
        for attempt, tried in (*own, *played.every):
            for made, turn in zip(attempt.turns, tried.turns, strict=True):
                for call, answer in zip(made, turn.observed, strict=True):
                    if not answer.failed:
                        self._answers[call.partition("(")[0]].add(answer.result)
        return played

    def _by_calls(self, played: _Played) -> str:
        """Return which calls solve the task although they are not its own; empty if none do."""
        passing = _made([*played.every])
        if not self._grading.rewards and not played.changes:
            own = [attempt for attempt, _ in played.reference]
            if not self._never_vary(*own):
                return ""
            if alike := [each for each in passing if self._never_vary(each)]:
                return Probe("a call with the same answer", alike).shown
        for probe in played.arguments if self._grading.is_own else ():
            if self._grading.rewards or self._one_answer(probe.tool):
                return probe.shown
        if _all_pass(played.same, ENOUGH):
            return Probe("its own tools with other arguments", _made(played.same)).shown
        if _all_pass(played.fields):
            return Probe("a field of the task as an argument", _made(played.fields)).shown
        counted = _carried_out((*played.other, *played.same))
        if 2 * sum(map(passes, counted)) > len(counted):
            return Probe("most calls that are not its own", passing).shown
        return ""

    def _never_vary(self, *attempts: Attempt) -> bool:
        """Return whether the tools of these attempts have one answer each, in all tasks."""
        tools = {tool for attempt in attempts for tool in tools_in(attempt)}
        return all(map(self._one_answer, tools))

    def _one_answer(self, tool: str) -> bool:
        return len(self._answers[tool]) <= 1


def _made(tried: Sequence[tuple[Attempt, Tried]]) -> list[Attempt]:
    return [attempt for attempt, each in tried if passes(each)]


def _all_passed(tried: Sequence[Tried | None]) -> bool:
    return all(each is not None and passes(each) for each in tried)


def _carried_out(tried: Sequence[tuple[Attempt, Tried]]) -> list[Tried]:
    """Return the attempts that passed, or of which a call was carried out."""
    return [
        each
        for _, each in tried
        if passes(each) or any(not call.failed for turn in each.turns for call in turn.observed)
    ]


def _all_pass(tried: Sequence[tuple[Attempt, Tried]], least: int = 1) -> bool:
    counted = _carried_out(tried)
    return len(counted) >= least and all(map(passes, counted))
