"""The embedded synthesizer: it practises the subject of a request, and else explores by popularity.

A subject is a task or a pattern of tools. Three quarters of the tasks for a task, or for a pattern
that is a cell, are of that cell, and the others of a cell that shares a tool or a link with it. It
knows the modes of links, as a user of the tools may; the policy has to learn them.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from coevolve.environments.tools.synthesis.brief import Start, tool_context
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolbox.domain import (
    Cell,
    Domain,
    cell_of,
    skills_of,
    thing_for,
)
from protocols.evolution import Candidate, Exploration, OnPattern, OnTask, Reflection
from protocols.interfaces import CallLog
from protocols.rollouts import Action
from protocols.synthesis import Brief, Synthesis
from protocols.tasks import body_of

T = TypeVar("T")

PRACTISED = 0.8
"""Share of the tasks that practise a request's subject; exploration finds the others."""

SAME_CELL = 0.75


class ToolboxSynthesizer:
    """A `protocols.interfaces.Synthesizer`."""

    name = "toolbox"

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._having: defaultdict[str, list[Cell]] = defaultdict(list)
        for cell in domain.trained:
            for skill in skills_of(cell):
                self._having[skill].append(cell)

    async def check(self) -> None:
        """Do nothing: there is no model."""

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        """Return a candidate for each start."""
        made = [
            self._made(brief, number, start)
            for number, start in enumerate(tool_context(brief).starts)
        ]
        return Synthesis(
            explorations=tuple(exploration for exploration, _ in made),
            candidates=tuple(candidate for _, candidate in made),
            simulator_calls=0,
        )

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        """Do nothing."""

    def _made(self, brief: Brief, number: int, start: Start) -> tuple[Exploration, Candidate]:
        rng = np.random.default_rng((brief.seed, number))
        subject = self._subject(brief, rng) if rng.random() < PRACTISED else ()
        cell = _any(subject, rng) if subject else self._domain.free(rng)
        task = self._domain.task(cell, thing_for(cell, "trained", rng))
        named = f"{brief.signal_id}-exploration-{number}"
        candidate = Candidate(
            candidate_id=f"{brief.signal_id}-candidate-{number}",
            signal_id=brief.signal_id,
            exploration_id=named,
            synthesizer=self.name,
            body=body_of(task),
            policy_version=brief.policy_version,
        )
        return self._exploration(brief, named, start, task), candidate

    def _exploration(self, brief: Brief, named: str, start: Start, task: ToolTask) -> Exploration:
        (turn,) = task.turns
        steps = zip(turn.reference, turn.results, strict=True)
        return Exploration(
            exploration_id=named,
            signal_id=brief.signal_id,
            synthesizer=self.name,
            reflection=Reflection(
                summary=f"{brief.kind} signal",
                failure_cause="",
                instability_pattern="",
                focus_pattern=(),
                avoid_pattern=(),
            ),
            start=start.origin,
            steps=tuple(Action(turn=0, text=c, result=r, failed=False) for c, r in steps),
        )

    def _subject(self, brief: Brief, rng: np.random.Generator) -> Sequence[Cell]:
        """Return cells that practise what the request is about; none if it is about nothing."""
        match brief.about:
            case OnTask():
                cell, _ = cell_of(tool_context(brief).instructions[0])
            case OnPattern(pattern=pattern):
                cell = tuple(re.findall(r"tool\d\d", pattern))
            case _:
                cell = ()
        if not cell:
            return ()
        if cell in self._domain.trained and rng.random() < SAME_CELL:
            return (cell,)
        return self._having.get(_any(skills_of(cell), rng)) or ()


def _any(choices: Sequence[T], rng: np.random.Generator) -> T:
    return choices[int(rng.integers(len(choices)))]
