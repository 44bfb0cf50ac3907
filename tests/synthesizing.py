"""Requests and an in-memory call log for tests of an endpoint's synthesizer."""

import msgspec

from coevolve.environments.tools.synthesis.brief import Start, ToolContext, tool_context
from coevolve.environments.tools.task import ToolTask
from protocols.errors import OverBudgetError
from protocols.evolution import CallFailed, ModelCall, OnTask, SignalKind
from protocols.rollouts import Action
from protocols.synthesis import Anything, Attempt, Brief
from protocols.synthesizers import EndpointModel
from protocols.tasks import body_of


class MemoryCalls:
    """A `protocols.interfaces.CallLog` with an allowance of tokens."""

    def __init__(self, most_tokens: int = 10_000_000) -> None:
        self.calls: dict[int, ModelCall] = {}
        self.failures: list[CallFailed] = []
        self.reserved: list[tuple[int, int, float]] = []
        self._left = most_tokens

    async def recorded(self, ordinal: int) -> ModelCall | None:
        return self.calls.get(ordinal)

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        if prompt_tokens + answer_tokens > self._left:
            raise OverBudgetError(f"{self._left} tokens are left")
        self.reserved.append((prompt_tokens, answer_tokens, cost_usd))

    async def note(self, call: ModelCall) -> None:
        assert call.ordinal not in self.calls
        self.calls[call.ordinal] = call
        self._left -= call.prompt_tokens + call.answer_tokens

    async def failed(self, call: CallFailed) -> None:
        self.failures.append(call)


def model_at(base_url: str, **changes: object) -> EndpointModel:
    """Return a model that is patient enough for a loaded machine and gives up within seconds."""
    settings = {"timeout_s": 10.0, "tries": 2} | changes
    return EndpointModel(base_url=base_url, model="scripted", **settings)  # type: ignore[arg-type]


def brief_about(
    body: ToolTask,
    *,
    kind: SignalKind = "boundary",
    about: OnTask | Anything | None = None,
    rounds: int = 2,
    steps: int = 6,
) -> Brief:
    """Return a request about a flagged task, with exploration from the task's start."""
    start = Start(
        origin="grammar:world:1",
        classes=body.classes,
        world=body.world,
        checks_directory=body.checks_directory,
    )
    missed = Action(turn=0, text="cat(file_name='x')", result='{"error": "no"}', failed=True)
    return Brief(
        signal_id="signal-7",
        kind=kind,
        about=about or OnTask(task_id="task"),
        attempts=(Attempt(actions=(missed,), succeeded=False, turns_passed=0, ended="wrong"),),
        steps=steps,
        context=body_of(
            ToolContext(
                instructions=tuple(turn.instruction for turn in body.turns),
                starts=(start,) * rounds,
            )
        ),
        seed=1,
        policy_version=3,
    )


def with_context(brief: Brief, **changes: object) -> Brief:
    """Return a request with another tool part."""
    context = msgspec.structs.replace(tool_context(brief), **changes)
    return msgspec.structs.replace(brief, context=body_of(context))
