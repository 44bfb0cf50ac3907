"""`attach scale`: changes the number of rollout engines of a live run."""

import asyncio
import time
import uuid
from collections.abc import Collection, Sequence

from coevolve.cli.attach_views.output import print_json, say
from coevolve.cli.attach_views.subject import Subject
from coevolve.journal.codec import decode, topics_of
from coevolve.journal.lookups import all_of, newest_of
from protocols.control import RolloutScaled, ScaleRefused, ScaleRequested
from protocols.errors import RunError
from protocols.journal import StoredRecord
from protocols.learning import WeightsVerified

ANSWERS = topics_of(RolloutScaled, ScaleRefused)

ANSWER_S = 120.0
"""Seconds for the run to see a request; it may have to let engines of an earlier one go first."""

LOOK_S = 0.2


async def scale(subject: Subject, actors: int, *, wait: bool, as_json: bool) -> None:
    """Ask for ``actors`` rollout engines; with ``wait``, until the new ones serve the policy.

    Raises RunError if the run refuses or does not answer, or if an engine does not start in time.
    """
    live = subject.actors()
    before = await newest_of(subject.reader, RolloutScaled)
    known = before.engines if before else ()
    request = ScaleRequested(request_id=uuid.uuid4().hex, actors=actors)
    await live.append(request)
    answer = await subject.answer(request.request_id, ANSWERS, ANSWER_S)
    scaled = _accepted(subject, request, answer)
    joining = [name for name in scaled.engines if name not in known]
    leaving = [name for name in known if name not in scaled.engines]
    if not as_json:
        say(f"{subject.name}: {_told(scaled)}")
    if wait and answer is not None:
        if joining and not as_json:
            patience_s = subject.config.delivery.timeout_s
            say(f"waits up to {patience_s:.0f} s for {', '.join(joining)} to serve the policy")
        await _until_served(subject, joining, answer.sequence)
        await _until_ended(subject, leaving)
    if as_json:
        tree = {"run": subject.name, "actors": actors, "engines": scaled.engines, "waited": wait}
        print_json(tree | {"joined": joining, "left": leaving})
    elif wait:
        say(f"{subject.name}: {_counted(len(scaled.engines))} the policy")


def _accepted(
    subject: Subject, request: ScaleRequested, answer: StoredRecord | None
) -> RolloutScaled:
    """Return the answer. Raises RunError if it is a refusal, or if there is none."""
    match answer and decode(answer):
        case RolloutScaled() as scaled:
            return scaled
        case ScaleRefused(reason=reason):
            raise RunError(f"{subject.name}: keeps its rollout engines: {reason}")
        case _:
            raise RunError(
                f"{subject.name}: did not answer within {ANSWER_S:.0f} s; the request "
                f"{request.request_id} stands, and `tail rollout_scaled` or `tail scale_refused` "
                "will show what came of it"
            )


def _told(scaled: RolloutScaled) -> str:
    engines = f"rollout engines: {', '.join(scaled.engines)}"
    if len(scaled.engines) < scaled.actors:
        engines += f"; up to {scaled.actors} when nodes with room for them join the cluster"
    return engines


async def _until_served(subject: Subject, joining: Sequence[str], after: int) -> None:
    """Wait until the engines have proven that they serve the policy. Raises RunError."""
    patience_s = subject.config.delivery.timeout_s
    deadline = time.monotonic() + patience_s
    waiting = set(joining)
    while waiting:
        proofs = all_of(subject.reader, WeightsVerified, after)
        waiting.difference_update([each.engine async for each in proofs])
        newest = await newest_of(subject.reader, RolloutScaled)
        assert newest is not None
        names = ", ".join(sorted(waiting))
        if gone := _gone(waiting, newest):
            raise RunError(f"{subject.name}: {gone}")
        if waiting and time.monotonic() > deadline:
            raise RunError(
                f"{subject.name}: no proof from {names} within {patience_s:.0f} s "
                "(delivery.timeout_s); the engines are still starting, or the cluster has no room "
                "for them at present. They join when they are ready; `status` shows them"
            )
        await asyncio.sleep(LOOK_S if waiting else 0.0)


def _counted(engines: int) -> str:
    return "1 rollout engine serves" if engines == 1 else f"{engines} rollout engines serve"


def _gone(waiting: Collection[str], newest: RolloutScaled) -> str:
    """Return in words which of the engines the run has let go since, and why; empty if none."""
    gone = ", ".join(sorted(set(waiting).difference(newest.engines)))
    if not gone:
        return ""
    match newest.cause:
        case "request":
            return f"let {gone} go again, because a later request asked for {newest.actors} engines"
        case "nodes":
            return f"let {gone} go again, because the node left the cluster"
        case "start" | "failure":
            return f"let {gone} go again, because the engine cannot work; see logs/ for its error"


async def _until_ended(subject: Subject, leaving: Sequence[str]) -> None:
    """Wait until the processes of the engines have ended."""
    parts = [part for part in subject.actors().parts if part.name in leaving]
    deadline = time.monotonic() + subject.config.delivery.timeout_s
    while any([(await part.status()).pid for part in parts]):
        if time.monotonic() > deadline:
            raise RunError(f"{subject.name}: {', '.join(leaving)} did not end; see `status`")
        await asyncio.sleep(LOOK_S)
