"""Lets the policy, as a synthesizer, write an instruction for each slice of a walk."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from coevolve.environments.tools.filesystem.abstraction import (
    MAX_TOKENS,
    STOP_IDS,
    mentions_its_slots,
    trajectory,
    written,
)
from coevolve.environments.tools.filesystem.belief import Description, improbable, is_sure
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.walk import Slice
from protocols.evolution import ModelCall
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import CallLog, Generator
from protocols.synthesis import Brief

FEW, ENOUGH, MANY = 3, 6, 16
"""Numbers of instructions written for a slice: at first; if one of them may be right; and if the
wording is sure but no sample has the right names."""

Samples = tuple[Description, ...]


class Describer:
    """The policy as a synthesizer; all its instructions for a request are recorded as one call."""

    def __init__(
        self, generator: Generator, renderer: TinyRenderer, temperature: float, name: str
    ) -> None:
        self._generator = generator
        self._renderer = renderer
        self._temperature = temperature
        self._name = name

    async def describe(
        self, brief: Brief, slices: Sequence[Slice], calls: CallLog
    ) -> tuple[str, list[Samples]]:
        """Return the model's name, and the instructions that it wrote for each slice.

        If the call is recorded already, nothing is generated. Raises GeneratorError or
        OverBudgetError.
        """
        if not slices:
            return self._name, []
        call = await calls.recorded(0)
        if call is None:
            call = await self._ask(brief, slices, calls)
            await calls.note(call)
        return call.model, msgspec.json.decode(call.answer, type=list[Samples])

    async def _ask(self, brief: Brief, slices: Sequence[Slice], calls: CallLog) -> ModelCall:
        prompts = [trajectory(self._renderer, each.calls, each.results) for each in slices]
        await calls.allow(MANY * sum(map(len, prompts)), MANY * MAX_TOKENS * len(prompts), 0.0)
        started = time.monotonic()
        written_by_slice = await asyncio.gather(
            *(
                self._describe(brief, number, each, prompt)
                for number, (each, prompt) in enumerate(zip(slices, prompts, strict=True))
            )
        )
        return ModelCall(
            signal_id=brief.signal_id,
            ordinal=0,
            purpose="abstract",
            kind=brief.kind,
            model=self._name,
            prompt=msgspec.json.encode([self._renderer.decode(ids) for ids in prompts]).decode(),
            answer=msgspec.json.encode([samples for samples, _ in written_by_slice]).decode(),
            prompt_tokens=sum(
                len(prompt) * len(samples)
                for prompt, (samples, _) in zip(prompts, written_by_slice, strict=True)
            ),
            answer_tokens=sum(tokens for _, tokens in written_by_slice),
            cost_usd=0.0,
            wall_s=time.monotonic() - started,
        )

    async def _describe(
        self, brief: Brief, number: int, each: Slice, prompt: tuple[int, ...]
    ) -> tuple[Samples, int]:
        """Return the instructions for one slice, and the number of their tokens."""
        samples: list[Description] = []
        tokens = 0
        for least, most in pairwise((0, FEW, ENOUGH, MANY)):
            if samples and not _needs_more(each, samples):
                break
            for generation in await self._write(brief, number, prompt, range(least, most)):
                samples.append(
                    description(self._renderer, generation.token_ids, generation.logprobs)
                )
                tokens += len(generation.token_ids)
        return tuple(samples), tokens

    async def _write(
        self, brief: Brief, number: int, prompt: tuple[int, ...], draws: range
    ) -> list[Generation]:
        names = [f"{brief.signal_id}-{number}-{draw}" for draw in draws]
        generations = await asyncio.gather(
            *(
                self._generator.generate(
                    GenerationRequest(
                        conversation_id=name,
                        prompt_ids=prompt,
                        max_tokens=MAX_TOKENS,
                        stop_ids=STOP_IDS,
                        temperature=self._temperature,
                        seed=(brief.seed * 1_009 + number) * 1_009 + draw,
                    )
                )
                for name, draw in zip(names, draws, strict=True)
            )
        )
        for name in names:
            await self._generator.release(name)
        return generations


def description(
    renderer: TinyRenderer, token_ids: Sequence[int], logprobs: Sequence[float]
) -> Description:
    """Return an instruction with the probabilities of its words and of its names.

    ``logprobs`` has the natural-log probability of each token.
    """
    words = names = 0.0
    quotes = 0
    for token, logprob in zip(token_ids, logprobs, strict=True):
        piece = renderer.piece(token)
        if quotes % 2 or piece.strip().isdigit():
            names += logprob
        else:
            words += logprob
        quotes += piece.count("'")
    return Description(written(renderer, token_ids), round(words, 4), round(names, 4))


def _needs_more(each: Slice, samples: Sequence[Description]) -> bool:
    right = any(mentions_its_slots(sample.text, each.calls, each.results) for sample in samples)
    if len(samples) >= ENOUGH:
        return is_sure(samples) and not right
    known = len(each.calls) == 1 and is_sure(samples) and right
    return improbable(samples) <= len(samples) // 2 and not known
