"""Measures what an environment's gates refuse and admit falsely.

The environment's own tasks are candidates: people or a grammar wrote them, so a refusal is an error
of the gates or of the task. Then the admitted ones are spoilt on purpose (`tests.spoiling.kinds`),
so that only the planted fault can be the reason for a refusal. All choices depend on a seed alone.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from random import Random
from typing import NamedTuple

import structlog

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.evolution import instruction_reader, reading_model
from coevolve.environments.tools.gates.executed import ExecutedGates
from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.trials import passes
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.accounts import Account
from coevolve.environments.tools.synthesis.structured_call import Unrecorded
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.validation.gates import Findings
from protocols.config import RunConfig
from protocols.errors import SimulatorError
from protocols.evolution import Candidate, Refused
from protocols.tasks import Task, body_of
from tests.spoiling.kinds import KINDS, Kind
from tests.spoiling.rates import GateRates, KindRate, Refusal

CONCURRENT = 8
"""Candidates examined at a time."""

VARIANTS = 12
"""Maximum spoilt versions of one task that are tried until one fits."""


Kinds = Callable[[Sequence[ToolTask]], Awaitable[Mapping[str, Kind]]]
"""Returns kind of fault -> how it is made of these tasks. Raises SimulatorError."""


async def of_calls(tasks: Sequence[ToolTask]) -> Mapping[str, Kind]:
    """Return the kinds of faults of tasks whose references are calls."""
    del tasks
    return KINDS


log = structlog.get_logger()


class Sample(NamedTuple):
    """How much to measure."""

    given: int
    """Maximum number of the environment's own tasks of each label; 0 for all."""

    planted: int
    """Number of spoilt candidates of each kind."""

    seed: int


class _Examined(NamedTuple):
    """A candidate and what was found on it."""

    task_id: str
    findings: Findings

    @property
    def refusal(self) -> Refusal | None:
        """The refusal; one that is unread needs the policy's success, which is not measured."""
        outcome, reading = self.findings.outcome, self.findings.reading
        if isinstance(outcome, Refused):
            return Refusal(task_id=self.task_id, gate=outcome.gate, found=outcome.found)
        if reading.outcome == "unread":
            return Refusal(task_id=self.task_id, gate="unread", found=reading.found)
        return None


class GateCalibration:
    """Measures one environment's gates."""

    def __init__(
        self,
        gates: ExecutedGates,
        simulator: Simulator,
        sample: Sample,
        kinds: Kinds | None = None,
    ) -> None:
        """Examine with ``gates``; ``simulator`` replays spoilt tasks.

        ``kinds`` are by default those of calls.
        """
        self._kinds = kinds or of_calls
        self._gates = gates
        self._simulator = simulator
        self._sample = sample
        self._examining = asyncio.Semaphore(CONCURRENT)

    async def rates(self, tasks: Mapping[str, Sequence[Task]]) -> GateRates:
        """Return the rates on tasks by label. Raises SimulatorError."""
        given = [await self._given(label, of_label) for label, of_label in tasks.items()]
        passed = {task_id for rate in given for task_id in rate.admitted}
        every = {task.task_id: task for of_label in tasks.values() for task in of_label}
        sound = [task for task_id, task in every.items() if task_id in passed]
        planted = await self._spoilt_kinds(sound) if self._sample.planted else []
        return GateRates(given=tuple(given), planted=tuple(planted))

    async def _spoilt_kinds(self, sound: Sequence[Task]) -> list[KindRate]:
        kinds = await self._kinds(list(map(tool_task, sound)))
        return [await self._planted(name, kind, sound) for name, kind in kinds.items()]

    async def _given(self, label: str, tasks: Sequence[Task]) -> KindRate:
        most = self._sample.given or len(tasks)
        chosen = self._shuffled(tasks, label)[:most]
        return await self._examined(label, [(task.task_id, tool_task(task)) for task in chosen])

    async def _planted(self, name: str, kind: Kind, tasks: Sequence[Task]) -> KindRate:
        bodies: list[tuple[str, ToolTask]] = []
        for task in self._shuffled(tasks, name):
            if len(bodies) == self._sample.planted:
                break
            if (body := await self._spoilt(name, kind, task)) is not None:
                bodies.append((task.task_id, body))
        return await self._examined(name, bodies, visible=kind.visible)

    async def _spoilt(self, name: str, kind: Kind, task: Task) -> ToolTask | None:
        """Return the first spoilt version whose calls work; None if there is none."""
        rng = Random(f"{self._sample.seed}/{name}/{task.task_id}")
        for body, _ in zip(kind.spoil(tool_task(task), rng), range(VARIANTS), strict=False):
            label = f"{task.task_id}/{name}"
            tried = await self._played(label, body, body.references)
            if tried is None or not kind.fits(body, tried):
                continue
            if not kind.differs:
                return body
            attempt = await self._played(label, tool_task(task), body.references)
            if attempt is not None and not passes(attempt):
                return body
        return None

    async def _played(self, name: str, body: ToolTask, turns: Turns) -> Tried | None:
        """Return the results of calls in the task's world; None if one of them fails."""
        try:
            tried = await self._simulator.trial(name, body, turns)
        except SimulatorError:
            return None
        worked = not any(observed.failed for turn in tried.turns for observed in turn.observed)
        return tried if worked else None

    async def _examined(
        self, label: str, bodies: Iterable[tuple[str, ToolTask]], *, visible: bool = True
    ) -> KindRate:
        found = await asyncio.gather(*(self._examine(*each, label) for each in bodies))
        refusals = {each.task_id: each.refusal for each in found}
        gates = Counter(refusal.gate for refusal in refusals.values() if refusal)
        log.info("gates_measured", kind=label, candidates=len(found), refused_by=dict(gates))
        return KindRate(
            kind=label,
            candidates=len(found),
            admitted=tuple(task_id for task_id, refusal in refusals.items() if not refusal),
            refusals=tuple(refusal for refusal in refusals.values() if refusal),
            visible=visible,
            agreements=tuple(
                each.findings.reading.agreement
                for each in found
                if each.findings.reading.outcome != "none"
            ),
        )

    async def _examine(self, task_id: str, body: ToolTask, label: str) -> "_Examined":
        candidate = Candidate(
            candidate_id=f"{task_id}/{label}",
            signal_id="",
            exploration_id="",
            synthesizer="calibration",
            body=body_of(body),
            policy_version=0,
        )
        async with self._examining:
            findings = await self._gates.examine(candidate)
            findings = await self._gates.read(candidate, findings)
        return _Examined(task_id, findings)

    def _shuffled(self, tasks: Sequence[Task], name: str) -> list[Task]:
        ordered = sorted(tasks, key=lambda task: task.task_id)
        Random(f"{self._sample.seed}/{name}").shuffle(ordered)
        return ordered


def by_label(labels: Mapping[str, str], tasks: Iterable[Task]) -> Mapping[str, Sequence[Task]]:
    """Return tasks by label; ``labels`` has the label of each task id."""
    found: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        found[labels[task.task_id]].append(task)
    return found


def unrecorded_reader(config: RunConfig) -> InstructionReader | None:
    """Return the run's reader, whose calls no journal keeps; None if the run has none."""
    model = reading_model(config)

    async def account_of(candidate: Candidate) -> Account:
        del candidate
        return Account(calls=nullcontext(Unrecorded()), kind="rare")

    if model is None:
        return None
    return instruction_reader(config, model, account_of)
