"""Walks through a simulator to see what its tools do there, guided by their documents alone.

A walk is a sequence of errands: one to three calls, each of which may use what the ones before it
left behind: a folder just made, a path that a search answered, a text that was shown. Which tools
an errand uses is the synthesizer's choice (`filesystem.focus`); what to write for their
parameters is drawn (`filesystem.arguments`) from what was seen, what was answered, or fresh
words. A call that fails is tried again with other arguments, within the walk's number of calls.

Knows the tools' documents and what was observed on this walk; no task, no instruction. Whole
folders are not moved, copied or removed with ``rm``: the simulator has defects there
(`tools.session`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from coevolve.environments.tools.filesystem.arguments import (
    Arguments,
    NothingFitsError,
    can_be_copied,
)
from coevolve.environments.tools.filesystem.manual import Tool
from coevolve.environments.tools.filesystem.slots import pick
from coevolve.environments.tools.filesystem.steps import LOOKING, Argument, Step, written_call
from coevolve.environments.tools.filesystem.surroundings import PARENT, Path, Surroundings, texts
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask

_TRIES = 3
"""Attempts at one call, each with other arguments."""

Chain = tuple[str, ...]
"""The tools of one errand, in order."""


class Walk:
    """One walk through one world."""

    def __init__(
        self,
        simulator: Simulator,
        session: str,
        tools: Mapping[str, Tool],
        rng: np.random.Generator,
        most_calls: int,
    ) -> None:
        self._simulator = simulator
        self._session = session
        self._tools = tools
        self._rng = rng
        self._most_calls = most_calls
        self.steps: list[Step] = []
        self._made: set[tuple[Path, str]] = set()
        """Calls by the folder in which they were made."""

        self._around = Surroundings()
        self._arguments = Arguments(tools, rng, self._around, self.steps)
        self._errand = 0
        self._begin = 0
        """The errand's first step."""

    async def run(self, world: ToolTask, chains: Sequence[Chain]) -> Sequence[Step]:
        """Look around and run the errands, as far as the calls reach. Raises SimulatorError."""
        await self._simulator.reset(self._session, world)
        try:
            await self._look_around()
            for chain in chains:
                await self._go(chain)
        finally:
            await self._simulator.release(self._session)
        return self.steps

    async def _look_around(self) -> None:
        for tool in self._tools.values():
            if tool.locates:
                given = [
                    Argument(each.name, each.options[0]) for each in tool.parameters if each.options
                ]
                step = await self._look(tool, tuple(given))
                self._around.add(texts(step.observed.result))

    async def _go(self, chain: Chain) -> None:
        """Run one errand; calls that cannot be made are left out."""
        tools = [self._tools[name] for name in chain]
        stranded = self._around.here and tools[0].wants("file") and not self._around.files()
        if stranded and not await self._leave():
            return
        self._begin_errand()
        for number, tool in enumerate(tools):
            await self._attempt(tool, tools[number + 1 :])

    async def _leave(self) -> bool:
        """Go back up, as an errand of its own."""
        self._begin_errand()
        for tool in self._tools.values():
            if tool.moves and len(self.steps) < self._most_calls:
                step = await self._call(tool.name, (Argument(tool.parameters[0].name, PARENT),))
                self._learn(tool, step)
                return not step.observed.failed
        return False

    def _begin_errand(self) -> None:
        self._errand += 1
        self._begin = len(self.steps)

    async def _attempt(self, tool: Tool, ahead: Sequence[Tool]) -> None:
        """Make a call that succeeds and is of use, if tries and calls reach."""
        for _ in range(_TRIES):
            try:
                arguments = self._arguments.draw(tool, ahead, self._begin)
            except NothingFitsError:
                return
            if tool.wants("word"):
                arguments = await self._with_a_word_of_it(arguments)
            made = (self._around.here, written_call(tool.name, arguments))
            if made in self._made and not tool.moves:
                continue
            if len(self.steps) >= self._most_calls:
                return
            self._made.add(made)
            step = await self._call(tool.name, arguments)
            self._learn(tool, step)
            if not step.observed.failed and await self._is_of_use(tool, step, ahead):
                return

    async def _is_of_use(self, tool: Tool, step: Step, ahead: Sequence[Tool]) -> bool:
        """Whether a shown text can be copied, if that is next, and a number makes a difference.

        What is of no use was made for a look.
        """
        at = len(self.steps) - 1
        of_use = True
        if tool.shows and any(after.wants("text") for after in ahead[:1]):
            of_use = any(map(can_be_copied, texts(step.observed.result)))
        if tool.shows and tool.wants("number") and len(self.steps) < self._most_calls:
            other = await self._look(tool, tuple(map(_one_more, step.arguments)))
            of_use = of_use and other.observed.result != step.observed.result
        if not of_use:
            self.steps[at] = replace(step, errand=LOOKING)
        return of_use

    async def _look(self, tool: Tool, arguments: tuple[Argument, ...]) -> Step:
        """Make a call that is part of no errand."""
        step = replace(await self._call(tool.name, arguments), errand=LOOKING)
        self.steps[-1] = step
        return step

    async def _call(self, tool: str, arguments: tuple[Argument, ...]) -> Step:
        observed = await self._simulator.act(self._session, written_call(tool, arguments))
        step = Step(errand=self._errand, tool=tool, arguments=arguments, observed=observed)
        self.steps.append(step)
        return step

    async def _with_a_word_of_it(self, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
        """Look into the file that the first argument names, and take the last one from there."""
        reading = (tool for tool in self._tools.values() if tool.shows and not tool.parameters[1:])
        for tool in reading:
            if len(self.steps) < self._most_calls:
                step = await self._look(
                    tool, (Argument(tool.parameters[0].name, arguments[0].value),)
                )
                words = [word for text in texts(step.observed.result) for word in text.split()]
                if words and not step.observed.failed:
                    return (*arguments[:-1], Argument(arguments[-1].name, pick(self._rng, words)))
        return arguments

    def _learn(self, tool: Tool, step: Step) -> None:
        if not step.observed.failed:
            self._around.learn(tool, {each.name: str(each.value) for each in step.arguments})


def _one_more(argument: Argument) -> Argument:
    value = argument.value
    return replace(argument, value=value + 1) if isinstance(value, int) else argument
