"""Data for pages of the report, and a check of their markup."""

from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from typing import ClassVar

import msgspec

from coevolve.environments.tools.task import tool_task
from coevolve.history.annotated_source import AnnotatedSource
from coevolve.history.run_history import RunHistory, nothing_yet
from coevolve.validation.wordings import Wording
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.control import (
    PartFailed,
    RunContinued,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    Stalled,
    StopRequested,
)
from protocols.evolution import Candidate, Gate, GroupSummary, SwapRefused
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import Evaluation, GroupDiscarded, StepReport, TaskScore, TrainedGroup
from protocols.tasks import NOTHING, Seeded, Task, TaskText, TurnText
from tests import evolving

CONFIG = RunConfig(name="trial", arm="full", seed=7)
LABELS = {"h1": ("one turn",), "h2": ("several turns",)}
SKILLS = {"h1": ("ls",), "h2": ("ls", "cd", "rm")}
HOSTILE = "</code></style><script>alert(1)</script><img src=x onerror='alert(2)'>\"&\x00\u202e"
SECOND_NS = 1_000_000_000
EMPTY = {"meta", "input", "!doctype"}


class Reported:
    """An environment with two held-out tasks that describes the tasks of `evolving`."""

    capabilities: ClassVar[Capabilities] = Capabilities()
    gate_order: ClassVar[Sequence[Gate]] = ("malformed", "no_effect")
    withheld: ClassVar[str] = ""

    def __init__(self, text: TaskText | None = None) -> None:
        self._text = text

    def scored_tasks(self) -> list[Task]:
        origin = Seeded(source="held out")
        return [
            Task(task_id=task_id, split="held_out", origin=origin, skills=skills, body=NOTHING)
            for task_id, skills in SKILLS.items()
        ]

    def labels(self) -> dict[str, tuple[str, ...]]:
        return LABELS

    def describe(self, task: Task) -> TaskText:
        if task.split == "held_out":
            return TaskText(headline=task.task_id, skills=task.skills)
        turns = tool_task(task).turns
        return self._text or TaskText(
            headline=turns[0].instruction,
            turns=tuple(
                TurnText(instruction=turn.instruction, calls=turn.reference) for turn in turns
            ),
            tools=tuple(call.partition("(")[0] for turn in turns for call in turn.reference),
        )

    async def sources(
        self, reader: Reader, visits: Iterable[GroupSummary]
    ) -> Sequence[AnnotatedSource]:
        return ()

    def describe_candidate(self, candidate: Candidate) -> str:
        return self._text.headline if self._text else f"the candidate {candidate.candidate_id}"

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        return ()


class Elements(HTMLParser):
    """Checks that every element is closed in order, and records names, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.extend((tag, name, value or "") for name, value in attrs)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


def parsed(html: str) -> Elements:
    elements = Elements()
    elements.feed(html)
    elements.close()
    assert not elements.open
    return elements


def scored(version: int, first: int, second: int) -> Evaluation:
    return Evaluation(
        version=version,
        scores=(
            TaskScore(task_id="h1", turns_passed=first, turns_total=1),
            TaskScore(task_id="h2", turns_passed=second, turns_total=3),
        ),
        errors=0,
        wall_s=1.0,
    )


def stepped(step: int, *tasks: tuple[str, int]) -> StepReport:
    return StepReport(
        step=step,
        groups=tuple(
            TrainedGroup(
                group_id=f"{step}-{task}",
                group=step,
                task_id=task,
                sequences=tuple(range(8)),
                successes=successes,
                use="policy_gradient",
            )
            for task, successes in tasks
        ),
        weights_digest="",
        groups_consumed=0,
        metrics={
            "training/off_policy/version_lag_mean": 0.5 * step,
            "training/off_policy/version_lag_max": 2.0,
            "perf/throughput": 9000.0 + step,
            "timing_s/wait": 0.1,
            "timing_s/update_actor": 0.2,
        },
    )


def whole_story() -> list[Message]:
    return [
        RunStarted(run_id="r", config="{}"),
        scored(0, 0, 1),
        *evolving.story(),
        stepped(9, ("seed-1", 4), ("made-1", 6), ("made-1", 2)),
        evolving.swapped(),
        SwapRefused(request_id="r2", reason="it does not answer"),
        GroupDiscarded(
            group_id="g",
            group=0,
            task_id="seed-1",
            reason="stale",
            successes=0,
            rollouts=8,
            groups_consumed=3,
        ),
        PartFailed(part="rollout-0", reason="its process ended"),
        Stalled(quiet_s=60.0, waiting=("learner waits for complete groups (5 of 8)",)),
        RunPaused(run_id="r"),
        RunContinued(run_id="r"),
        StopRequested(run_id="r"),
        evolving.measured(8.0),
        RunResumed(run_id="r", config="{}"),
        scored(9, 1, 2),
        evolving.measured(2.0),
        RunFinished(steps=9),
    ]


def data(
    messages: Sequence[Message], config: RunConfig = CONFIG, text: TaskText | None = None
) -> RunHistory:
    found = nothing_yet(config, Reported(text))
    for number, message in enumerate(messages):
        found.fold(message, 1_790_000_000 * SECOND_NS + number * SECOND_NS)
        found.progress.fold(message)
        found.totals.fold(message)
        found.costs.fold(message)
    return found
