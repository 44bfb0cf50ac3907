"""Which version rollout engines serve if versions are scored on them (``evaluator.engine``).

Engines move to the newest version. But a score must be of one version. So no engine passes a
version that is scored until the evaluator has recorded its scores, and versions are scored in
order. Meanwhile the engines continue with the rollouts that may be that old: a request demands at
least the version that was the newest when it was made (`RolloutRequest.policy_version_at_least`),
so no rollout becomes too old. At most, training waits for the scores, and not for those of an
evaluator that rests.
"""

import time

from coevolve.curriculum.schedule import is_scored
from coevolve.journal.codec import VERSIONS_BY_NUMBER, decode, topics_of
from coevolve.journal.lookups import all_of, newest_of
from protocols.config import RunConfig
from protocols.control import PartsRest
from protocols.interfaces import Reader
from protocols.learning import CanaryScores, Evaluation, PolicyVersion

SCORES = topics_of(Evaluation, CanaryScores)
"""Topics of the scores of a whole version."""


async def version_to_serve(reader: Reader, config: RunConfig) -> PolicyVersion | None:
    """Return the version that rollout engines should serve now; None before the first one."""
    if config.evaluator.engine == "rollout" and not await _evaluator_rests(reader):
        unscored = await unscored_version(reader, config)
        if unscored is not None:
            return unscored
    return await newest_of(reader, PolicyVersion)


async def _evaluator_rests(reader: Reader) -> bool:
    resting = await newest_of(reader, PartsRest)
    return resting is not None and "evaluator" in resting.causes


async def unscored_version(reader: Reader, config: RunConfig) -> PolicyVersion | None:
    """Return the oldest published version that has to be scored and is not; None without one."""
    through, _ = await newest_scores(reader)
    found = await reader.find(VERSIONS_BY_NUMBER, str(through), limit=1)
    after = found[0].sequence if found else 0
    evaluation = await newest_of(reader, Evaluation)  # for a milestone's second record
    evaluated = evaluation.version if evaluation else -1
    async for version in all_of(reader, PolicyVersion, after):
        if has_scores(version, config) and version.version > evaluated:
            return version
    return None


def has_scores(version: PolicyVersion, config: RunConfig) -> bool:
    """Return whether the evaluator scores a version: it is due, and its weights were kept."""
    return version.kept and (version.is_milestone or is_scored(version.version, config))


async def newest_scores(reader: Reader) -> tuple[int, float]:
    """Return the version that was scored last, and how many seconds ago; -1 if none was."""
    newest, since_ns = -1, 0
    for topic in SCORES:
        record = await reader.last(topic)
        if record is None:
            continue
        scores = decode(record)
        assert isinstance(scores, Evaluation | CanaryScores)
        if scores.version > newest:
            newest, since_ns = scores.version, record.time_ns
    return newest, max(0.0, (time.time_ns() - since_ns) / 1e9)
