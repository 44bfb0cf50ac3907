"""The loop on one page: its parts, what each takes from the journal and gives to it, and a run.

- ``curriculum`` draws tasks from the pool, and requests rollouts of them, a group at a time.
- ``signals`` reads each finished group, and says where the policy is weak.
- ``synthesizer`` explores around a weakness, and makes candidates: tasks that may teach it.
- ``validator`` judges candidates, has the policy attempt them, and admits tasks to the pool.
- ``rollout`` lets the policy attempt tasks, those of an evaluation included. There may be several.
- ``learner`` trains the policy on groups of rollouts, and publishes versions of it.
- ``evaluator`` asks for the scores of a version on held-out tasks, and records them.

A `protocols.interfaces.Part` *takes* a record once, under a lease, *reads* others, knows no part.
`coevolve.launcher` gives each part of `LOOP` a process; here all are in one:

    python -m coevolve.loop quickstart learner.steps=4
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from coevolve.environments import open_parts
from coevolve.environments.open_parts import OpenPart, PartSpec, Party
from coevolve.environments.registry import environment_of
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols import journal as m
from protocols.config import RunConfig

PAUSES = (m.RunPaused, m.RunContinued)
RESTS = (m.ModelRests, m.ModelAnswers, m.ReaderRests, m.ReaderAnswers)
ROLLOUTS = (m.Rollout, m.FailedRollout)
CALLS = (m.ModelCall, m.CallFailed)  # of parts that may call endpoints
PROOFS = (m.WeightsVerified, m.WeightSyncAlarm)  # of engines, about versions
UNITS = (m.UnitsBegan, m.DeadLetter, m.LetterAnswered)  # of parts that retry, and give up

LOOP = (
    PartSpec(
        "curriculum",
        open_parts.curriculum,
        takes=(m.RunStarted, m.RunResumed, *PAUSES, m.StepReport, m.GroupDiscarded),
        reads=(
            *(*ROLLOUTS, m.GroupSummary, m.Signal, m.SignalSettled, m.Candidate, *RESTS),
            *(m.CandidateVerdict, m.Task, m.DeadLetter, m.PartsRest, m.SynthesizerSwapped),
        ),
        gives=(m.Task, m.RolloutRequest, m.StateSnapshot),
    ),
    PartSpec(
        "signals",
        open_parts.signals,
        takes=(*ROLLOUTS, m.LetterRetried),
        reads=(m.Task,),
        gives=(m.GroupSummary, m.Signal, m.EnvironmentRecord, m.StateSnapshot, *UNITS),
        is_optional=True,
    ),
    PartSpec(
        "synthesizer",
        open_parts.synthesizer,
        takes=(m.Signal, m.SwapRequested, *PAUSES, m.LetterRetried),
        reads=(*ROLLOUTS, m.Task, m.GroupSummary, m.PolicyVersion, m.Evaluation),
        gives=(
            *(m.Exploration, m.Candidate, m.SignalSettled, m.SynthesizerSwapped, m.SwapRefused),
            *(m.ModelRests, m.ModelAnswers, *CALLS, *PROOFS, *UNITS),
        ),
        exists=lambda config: config.synthesizes,
        has_model=True,
        is_optional=True,
    ),
    PartSpec(
        "validator",
        open_parts.validator,
        takes=(m.Candidate, m.ProbeReport, m.PolicyVersion, m.LetterRetried),
        reads=(m.Task, m.GroupSummary, m.Signal, m.SynthesizerSwapped),
        gives=(
            *(m.CandidateVerdict, m.ProbeRequest, m.Task, m.EnvironmentRecord, m.StateSnapshot),
            *(m.ReaderRests, m.ReaderAnswers, *CALLS, *UNITS),
        ),
        exists=lambda config: config.synthesizes,
        is_optional=True,
    ),
    PartSpec(
        "rollout",
        open_parts.rollout_worker,
        takes=(m.RolloutRequest, m.ProbeRequest, m.ScoreRequest, m.LetterRetried),
        reads=(
            *(m.Task, m.Candidate, m.PolicyVersion, m.Evaluation, m.CanaryScores, m.PartsRest),
            *(m.TurnBegan, m.TurnEnded),
        ),
        gives=(*ROLLOUTS, m.ProbeReport, m.ScoreReport, m.EngineAsleep, *CALLS, *PROOFS, *UNITS),
        conversations=lambda config: config.conversations,
        is_pooled=True,
    ),
    PartSpec(
        "learner",
        open_parts.learner,
        takes=ROLLOUTS,
        reads=(
            *(m.Task, m.RolloutRequest, m.CanaryScores, m.WeightsVerified, m.EngineAsleep),
            *(m.RunStarted, m.RunResumed, m.RolloutScaled),
        ),
        gives=(
            *(m.StepReport, m.PolicyVersion, m.GroupDiscarded, m.Checkpoint, m.PolicyRegressed),
            *(m.WeightSyncAlarm, m.TurnBegan, m.TurnEnded, m.StateSnapshot),
        ),
        has_model=True,
        is_sharded=True,
    ),
    PartSpec(
        "evaluator",
        open_parts.evaluator,
        takes=(m.PolicyVersion,),
        reads=(m.Task, m.StepReport, m.ScoreReport),
        gives=(m.ScoreRequest, m.Evaluation, m.CanaryScores, *PROOFS),
        conversations=lambda config: config.evaluator.conversations,
        is_optional=True,
    ),
)
PARTS = {spec.name: spec for spec in LOOP}
AROUND = (
    Party(
        "launch",
        takes=(m.ScaleRequested, m.StopRequested),
        reads=(*ROLLOUTS, m.StepReport, m.Evaluation, *PAUSES),
        gives=(
            *(m.RunStarted, m.RunResumed, m.RunFinished, m.StartMeasured, m.StateSnapshot),
            *(m.PartFailed, m.PartsRest, m.Stalled, m.FollowersFail, m.RunCopied, m.CopyFailed),
            *(m.RolloutScaled, m.ScaleRefused, m.NodesTooSmall),
        ),
    ),
    Party(
        "attach",
        gives=(m.StopRequested, *PAUSES, m.ScaleRequested, m.SwapRequested, m.LetterRetried),
    ),
)
"""Who else writes to the journal."""

KEPT = (
    *(m.UnitsBegan, m.LetterAnswered, m.StateSnapshot, m.Checkpoint, m.PolicyRegressed, *CALLS),
    *(m.EnvironmentRecord, m.Exploration, m.SwapRefused, m.WeightSyncAlarm, m.RunFinished),
    *(m.StartMeasured, m.Stalled, m.PartFailed, m.FollowersFail, m.RunCopied, m.CopyFailed),
    *(m.ScaleRefused, m.NodesTooSmall),
)
"""Kinds for the giver itself, when it starts again, and for commands, report and trackers alone."""

Until = Callable[[RunConfig, LocalStore], Awaitable[None]]


async def until_scored(config: RunConfig, store: LocalStore) -> None:
    """Return when the last version is scored."""
    topic, seen = topic_of(m.Evaluation), 0
    while True:
        seen = await store.wait((topic,), seen, IDLE_WAIT_S)
        newest = await store.last(topic)
        if newest is not None and decode_as(newest, m.Evaluation).version == config.learner.steps:
            return


async def run_here(
    config: RunConfig,
    folder: Path,
    run_id: str = "here",
    until: Until = until_scored,
    specs: Sequence[PartSpec] = LOOP,
) -> LocalStore:
    """Run the parts as tasks of this event loop ``until`` returns; then stop them.

    Returns the journal, open; it is in ``folder``. An error of a part ends the run.
    """
    store = LocalStore(Journal.open(folder / "store"))
    context = PartContext(config=config, files=LocalFiles(folder), store=store, reader=store)
    settings = msgspec.json.encode(config).decode()
    append = context.appender("launch", "launch")
    await append([m.RunStarted(run_id=run_id, config=settings)])
    async with AsyncExitStack() as opened, asyncio.TaskGroup() as working:
        simulators = [environment_of(config).simulator() for _ in range(config.simulator.workers)]
        for each in simulators:
            opened.push_async_callback(each.close)
        parts: list[OpenPart] = []
        for spec in (each for each in specs if each.exists(config)):
            parts.append(OpenPart(spec, context, simulators))
            opened.push_async_callback(parts[-1].close)
        for each in parts:
            working.create_task(each.part.run())
        await until(config, store)
        for each in parts:
            await each.part.stop()
    await append([m.RunFinished(steps=config.learner.steps)])
    return store


if __name__ == "__main__":
    from coevolve.one_process import main

    main(run_here)
