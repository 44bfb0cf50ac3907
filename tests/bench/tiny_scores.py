"""Scores a tiny policy, as a policy and as a synthesizer, in this process."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.filesystem.abstraction import (
    MAX_TOKENS,
    STOP_IDS,
    mentions_its_slots,
    trajectory,
    written,
)
from coevolve.environments.tools.filesystem.grammar import draw_task, group_of, paraphrases
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.skills import SKILLS
from coevolve.environments.tools.task import ToolTurn, tool_task
from coevolve.rollouts.agent import Episode
from protocols.config import RolloutConfig
from protocols.generation import GenerationRequest
from protocols.interfaces import Generator
from protocols.tasks import Task
from tests.simulated import InProcessSimulator

_EXPLORATION_SEED = 4242


@dataclass(frozen=True)
class Share:
    """A share as two counts."""

    hits: int
    of: int

    def __str__(self) -> str:
        return f"{self.hits}/{self.of} = {self.hits / max(1, self.of):.3f}"


@dataclass(frozen=True)
class SynthesizerScore:
    """How well instructions describe executed trajectories."""

    valid: Mapping[str, Share]
    """Instructions that equal one of the grammar's own for these calls, by skill group."""

    kept: Share
    """Instructions that pass the slot filter."""

    precision: Share
    """Valid instructions among those that pass."""

    recall: Share
    """Instructions that pass among the valid ones."""


async def policy_scores(
    generator: Generator, renderer: TinyRenderer, tasks: Sequence[Task]
) -> Mapping[str, Share]:
    """Return the greedy success by group of tasks, including ``all``."""
    agent = ToolAgent(
        generator=generator,
        simulator=InProcessSimulator(),
        renderer=renderer,
        limits=RolloutConfig(),
        temperature=0.0,
    )

    async def attempt(number: int, task: Task) -> Episode:
        return await agent.attempt(task, f"score-{number}", seed=0)

    rollouts = await asyncio.gather(*(attempt(*each) for each in enumerate(tasks)))
    passed = [(group_of(task), each.succeeded) for task, each in zip(tasks, rollouts, strict=True)]
    return _by_group(passed)


async def synthesizer_score(
    generator: Generator, renderer: TinyRenderer, *, per_skill: int = 20, temperature: float = 0.3
) -> SynthesizerScore:
    """Return how well the synthesizer describes new trajectories of every skill."""
    turns = _turns_by_skill(per_skill)

    async def describe(number: int, turn: ToolTurn) -> str:
        conversation = f"describe-{number}"
        generation = await generator.generate(
            GenerationRequest(
                conversation_id=conversation,
                prompt_ids=trajectory(renderer, turn.reference, turn.results),
                max_tokens=MAX_TOKENS,
                stop_ids=STOP_IDS,
                temperature=temperature,
                seed=number,
            )
        )
        await generator.release(conversation)
        return written(renderer, generation.token_ids)

    texts = await asyncio.gather(*(describe(n, turn) for n, (_, turn) in enumerate(turns)))
    judged = [
        (
            skill,
            text in paraphrases(skill, turn.reference),
            mentions_its_slots(text, turn.reference, turn.results),
        )
        for (skill, turn), text in zip(turns, texts, strict=True)
    ]
    valid = sum(is_valid for _, is_valid, _ in judged)
    kept = sum(is_kept for _, _, is_kept in judged)
    both = sum(is_valid and is_kept for _, is_valid, is_kept in judged)
    return SynthesizerScore(
        valid=_by_group([(SKILLS[skill].group, is_valid) for skill, is_valid, _ in judged]),
        kept=Share(kept, len(judged)),
        precision=Share(both, kept),
        recall=Share(both, valid),
    )


def _turns_by_skill(per_skill: int) -> list[tuple[str, ToolTurn]]:
    explored: list[tuple[str, ToolTurn]] = []
    for skill in SKILLS.values():
        rng = np.random.default_rng((_EXPLORATION_SEED, len(explored)))
        turns = 2 if skill.after else 1
        for _ in range(per_skill):
            task = draw_task(rng, {skill.name: 1.0}, turns)
            explored.append((skill.name, tool_task(task).turns[-1]))
    return explored


def _by_group(passed: Sequence[tuple[str, bool]]) -> dict[str, Share]:
    groups = dict.fromkeys(group for group, _ in passed)
    shares = {
        group: Share(
            sum(success for name, success in passed if name == group),
            sum(name == group for name, _ in passed),
        )
        for group in groups
    }
    return {"all": Share(sum(success for _, success in passed), len(passed))} | shares
