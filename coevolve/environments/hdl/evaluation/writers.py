"""The writers of testbenches in an evaluation: a policy, or a model behind an endpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy import prompts
from coevolve.environments.hdl.policy.frontier import continued
from coevolve.environments.hdl.policy.steps import written_by
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.teacher import Teacher
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.sdk import Agent, ModelUsage

DESIGN_SHOWN = 2
"""Messages of a prompt that show the design."""


@dataclass(frozen=True)
class PlayingWriter:
    """A policy as a `hdl.evaluation.attempts.Writer`."""

    agent: Agent

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        return await written_by(self.agent, task, session, seed=seed)


@dataclass(frozen=True, kw_only=True)
class ChatWriter:
    """A chat model as a `hdl.evaluation.attempts.Writer`.

    It gets the same prompt as a policy with a chat template, in the form of
    ``environment.form``, and with ``rules`` also rules of syntax.
    """

    model: Teacher
    simulator: TestbenchSimulator
    designs: Mapping[str, Design]
    hdl: HdlConfig
    rules: bool = False
    usage: ModelUsage = field(default_factory=ModelUsage)

    async def write(
        self, task: CoverageTask, session: str, seed: int, earlier: Sequence[Graded] = ()
    ) -> Graded | None:
        """Return the model's testbench. Raises EndpointError if there is no answer.

        The prompt has the ``earlier`` testbenches and their results before that of the task.
        """
        del session
        design = self.designs[task.design]
        points = await self.simulator.points(design.unit)
        limit = self.hdl.feedback_characters
        chain = [*(continued(task, state, "") for state in earlier), task]
        begun, *later = (
            prompts.step_prompt(each, design, points, limit=limit, rules=self.rules)
            for each in chain
        )
        messages = (*begun, *(message for each in later for message in each[DESIGN_SHOWN:]))
        answer = await self.model.answer(messages, seed=seed)
        tokens = answer.prompt_tokens, answer.answer_tokens
        self.usage.add(*tokens, self.model.cost_usd(*tokens))
        base = task.state.testbench if isinstance(task.state, Graded) else ""
        try:
            submission = prompts.extract(answer.text, task.form, base)
        except prompts.UnreadableAnswerError:
            return None
        request = grading(
            design,
            submission,
            self.hdl.limits,
            instance=task.instance,
            trial=self.hdl.reward.tries,
        )
        return graded(submission, await self.simulator.evaluate(request))
