"""Messages of the learner and the evaluator."""

import re
from typing import Annotated, Literal

import msgspec

from protocols.columns import FLOAT32_BYTES, INT32_BYTES

WeightsFormat = Literal["full", "lora"]


_INSIDE = re.compile(r"[A-Za-z0-9_-][\w.-]*(/[A-Za-z0-9_-][\w.-]*)*", re.ASCII)
"""A relative path without a step up, and without hidden names."""


def require_inside(path: str, kind: str) -> None:
    """Refuse a recorded path that could lead out of the run's folder. Raises ValueError."""
    if path and not _INSIDE.fullmatch(path):
        raise ValueError(
            f"a {kind} needs the path of a folder inside the run's, such as versions/v_1, found "
            f"{path[:100]!r}, which coevolve never writes"
        )


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A token sequence with the learner's logprobs, against which an engine proves its weights."""

    token_ids: bytes = b""
    """int32, T entries."""

    logprobs: bytes = b""
    """float32, T - 1 entries: natural-log probability of each token after the first, given the
    tokens before it. The learner computes it at temperature 1, in its own precision."""

    def __post_init__(self) -> None:
        """Refuse columns whose lengths do not match."""
        tokens = len(self.token_ids) // INT32_BYTES
        if len(self.logprobs) // FLOAT32_BYTES != max(0, tokens - 1):
            raise ValueError(
                f"a probe of {tokens} tokens needs {max(0, tokens - 1)} logprobs, "
                f"got {len(self.logprobs) // FLOAT32_BYTES}"
            )


class PolicyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="policy_version"):
    """New weights, complete and on disk. Version 0 is the policy that the run started from."""

    version: Annotated[int, msgspec.Meta(ge=0)]

    path: str
    """Folder of the weights, relative to the run directory."""

    format: WeightsFormat

    digest: str
    """SHA-256 over weights and settings (`coevolve.models.weight_files.version_digest`)."""

    size_bytes: int
    """Size of the weights file."""

    kept: bool
    """Whether the version is scored. If it is scored on held-out tasks, its weights stay on disk.
    If it is scored on canaries only, they are deleted when another version becomes the best."""

    base: str = ""
    """SHA-256 over config and weights of the run's initial model; empty in old journals."""

    scale: float = 0.0
    """Scale of an adapter's product, as the learner applies it; 0 for full weights."""

    probe: Probe = Probe()
    """Every engine must reproduce this probe once it serves the version; empty in old journals."""

    is_milestone: bool = False
    """Whether it is scored on held-out tasks whatever its number: the warm start ended with it, or
    the run was stopped at it. In the second case the version has another record before this one."""


class Computed(msgspec.Struct, frozen=True, kw_only=True):
    """Tables and settings that an engine recomputes from the model's config."""

    rows: dict[str, bytes]
    """Table -> int64 sums of its rows."""

    settings: dict[str, str]


class ServedWeights(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's measurements of its own weights after it loaded a policy version."""

    version: int

    digest: str
    """Digest of the files that it read, as in the version's record."""

    logprobs: bytes
    """float32, T - 1 entries: the engine's logprobs for the tokens of the version's probe; empty if
    the version has no probe."""

    precision: str
    """Precision of the weights that sample: ``float32``, ``bfloat16`` or ``float16``."""

    form: Literal["whole", "adapter"]
    """``whole``: an adapter, if any, is merged. ``adapter``: it is separate from the model's
    weights, with its scale in B."""

    rows: dict[str, bytes]
    """Tensor name -> int64 sums of its rows (`coevolve.weights.row_sums`), for every tensor that
    samples. The engine computes them on the tensor's device after the change. Parameters have the
    names of the published files and the engine's precision. Tensors that are in no file are summed
    unchanged. Empty if an engine cannot compute sums; then digest and probe are the only proof."""

    settings: dict[str, str] = {}
    """Sampling settings other than tensors, as text (`coevolve.weights.settings`): numbers such as
    the attention scale, switches, and the classes of its layers."""

    anew: Computed | None = None
    """Tables and settings, recomputed by an engine whose layout is not that of transformers; None
    for other engines."""

    wall_s: float
    """Seconds from the request to serve the version to the end of the probe."""

    pause_s: float
    """Longest delay, in seconds, that the change alone caused to the next token of requests in
    flight."""


class WeightsVerified(msgspec.Struct, frozen=True, kw_only=True, tag="weights_verified"):
    """An engine serves a policy version and has proven it."""

    engine: str
    """The part that the engine belongs to, for example ``rollout-0``."""

    version: int
    digest: str
    """Digest of the files that the engine read, as in the version's record."""

    rows: int = 0
    """Number of tensor rows compared with the files; 0 if the engine reports none."""

    max_abs_difference: float
    """Largest difference between engine and learner over the version's probe, in nats; 0 if the
    version has no probe."""

    wall_s: float
    """Seconds from the request to serve the version to the end of the probe."""

    pause_s: float
    """Longest delay, in seconds, that the change caused to the next token of requests in flight."""

    proven_ns: int
    """Unix time of the proof, by the clock of the engine's machine."""


class WeightsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="weights_differ"):
    """The engine's weights differ from the published ones."""

    expected_digest: str
    found_digest: str
    """Digest of the files on the engine's machine. If it differs from the expected one, the files
    are wrong. Otherwise the engine loaded correct files incorrectly."""

    max_abs_difference: float
    """Largest difference over the probe, in nats; 0 if the files are wrong, which the engine then
    does not serve."""

    tolerance: float

    position: int
    """Probe token with the largest difference, counted from 0. Token 0 has no prediction; the value
    0 means that the files are wrong."""


TensorFault = Literal["served", "merged", "base", "precision"]
"""What differs from the published state: ``served``, the tensors that sample; ``merged``, the
weights with their adapter; ``base``, the run's initial model; ``precision``."""


class TensorsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="tensors_differ"):
    """The tensors that the engine samples with do not match the published files."""

    cause: TensorFault
    tensors: tuple[str, ...]
    """Names of some tensors that differ."""

    rows_differ: int
    rows: int
    """Number of compared rows."""

    precision: str
    """Precision of the served weights."""


class SettingsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="settings_differ"):
    """The engine's sampling settings do not match the model's config."""

    where: Literal["engine", "files"]
    """``engine``: the engine's settings differ. ``files``: the version's config differs from the
    initial model's."""

    settings: tuple[str, ...]
    """Some settings that differ, each with the found and the expected value."""

    count: int
    """Number of all settings that differ."""


class SamplerDiffers(msgspec.Struct, frozen=True, kw_only=True, tag="sampler_differs"):
    """The learner's logprobs of sampled tokens differ from the engine's, under the same weights."""

    mean_abs_difference: float
    """Mean difference in nats, over the tokens compared in the last step."""

    tolerance: float
    tokens: int
    """Number of tokens compared since the run was opened."""


class OldVersionServed(msgspec.Struct, frozen=True, kw_only=True, tag="old_version_served"):
    """The engine serves an earlier version instead of the published one."""

    served: int
    evidence: Literal["digest", "logprobs", "statement", "tensors", "unchanged answer"]
    """How this was detected. ``digest``: of the files. ``logprobs``: of the probe. ``statement``:
    the engine reported it. ``tensors``: of the engine. ``unchanged answer``: the probe's logprobs
    stayed identical in every bit although the weights changed."""


class NothingDelivered(msgspec.Struct, frozen=True, kw_only=True, tag="nothing_delivered"):
    """The engine proved neither the version nor a newer one in time."""

    waited_s: float
    """Seconds since the publication, or since the learner restarted."""

    newest: int
    """Newest version that the engine has proven since the run was opened; -1 if none."""


class WeightSyncAlarm(msgspec.Struct, frozen=True, kw_only=True, tag="weight_sync_alarm"):
    """An engine does not serve the published weights; the learner trains no further version."""

    engine: str
    version: int
    """The version that the engine should serve."""

    reason: (
        WeightsDiffer
        | TensorsDiffer
        | SettingsDiffer
        | SamplerDiffers
        | OldVersionServed
        | NothingDelivered
    )


class TurnBegan(msgspec.Struct, frozen=True, kw_only=True, tag="turn_began"):
    """The learner needs the device now: engines must sleep, and say so."""

    step: Annotated[int, msgspec.Meta(ge=0)]
    """The step that the learner will compute; 0 if it recovers."""


class EngineAsleep(msgspec.Struct, frozen=True, kw_only=True, tag="engine_asleep"):
    """An engine has freed the device, and samples nothing until the turn has ended."""

    engine: str
    turn: int
    """Sequence of the `TurnBegan` that it answers."""


class TurnEnded(msgspec.Struct, frozen=True, kw_only=True, tag="turn_ended"):
    """The learner has left the device: engines may wake."""


Stage = Literal["warm_start", "loop"]
"""A stage of a run. ``warm_start``: steps only imitate references (`WarmStartConfig`)."""


class WarmStartEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Why the warm start ended."""

    reason: Literal["skills", "steps"]
    """``skills``: more than half of the skills are ready. ``steps``: the maximum is reached."""

    ready: int
    """Number of skills that are ready: their newest rollouts succeed often enough."""

    skills: int
    """Number of skills of the trained tasks."""


DiscardReason = Literal["stale", "failed", "zero_variance", "abandoned"]
"""``abandoned``: a version that the guard has abandoned sampled at least part of the group."""


class GroupDiscarded(msgspec.Struct, frozen=True, kw_only=True, tag="group_discarded"):
    """A complete group that no step will train on; the curriculum requests another."""

    group_id: str
    group: int
    task_id: str
    reason: DiscardReason
    successes: int
    rollouts: int
    """Number of rollouts of the group that did not fail."""

    groups_consumed: int
    """Number of groups trained on or discarded since the start of the run, including this one."""


Use = Literal["policy_gradient", "imitation", "nothing"]
"""How a step used a group. ``imitation``: all or most failed, or the step is one of the warm start,
and the step imitated the reference. ``nothing``: zero variance, or no reference in the warm
start."""


class TrainedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a step's batch, in batch order."""

    group_id: str
    group: int
    task_id: str
    sequences: tuple[int, ...]
    """Journal sequences of the group's rollouts, by index; failed rollouts are left out."""

    successes: int
    use: Use

    instance: int = 0
    """As in `protocols.rollouts.RolloutRequest`."""


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """A step's return to the weights of an earlier version."""

    to_version: Annotated[int, msgspec.Meta(ge=0)]
    rate_factor: float
    """Factor on all learning rates from this step on, 0..1."""


class PolicyRegressed(msgspec.Struct, frozen=True, kw_only=True, tag="policy_regressed"):
    """A policy version lost more of the canary tasks than the guard allows."""

    version: int
    """The version that regressed."""

    score: float
    """Its mean score over the canaries that both versions have scores for, 0..1."""

    best_version: int
    best_score: float
    lost: int
    """Number of canaries that the best version solves better; ``gained`` counts those that this
    version solves better."""

    gained: int
    canaries: int
    chance: float
    """p value of the loss: one-sided exact sign test."""

    action: Literal["return", "warn"]
    """``return``: the learner's next step returns to the best version."""


class StepReport(msgspec.Struct, frozen=True, kw_only=True, tag="step_report"):
    """The learner took one step; the record has everything needed to repeat it."""

    step: Annotated[int, msgspec.Meta(ge=1)]
    """Counted from 1; the step produced policy version ``step``."""

    groups: tuple[TrainedGroup, ...]
    weights_digest: str
    groups_consumed: int
    """Number of groups trained on or discarded since the start of the run, including these."""

    metrics: dict[str, float]
    """Metrics by verl's and TRL's names."""

    returned: Returned | None = None
    """Set if the step returned to an earlier version; it then trained on nothing."""

    devices: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Number of processes that took the step together. As many of them reach the same weights
    again, bit by bit; another number reaches them to rounding. 0 in old journals."""

    arithmetic: str = ""
    """Version of torch, and processor or GPU. Others reach the same weights to rounding only."""

    stage: Stage = "loop"
    """The stage of the step."""

    warm_start_ended: WarmStartEnded | None = None
    """Set if it is the last step of the warm start."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """Weights, optimizer, scheduler and random state on disk, from which a learner can continue."""

    step: int
    path: str
    """Folder, relative to the run directory."""

    digest: str
    """SHA-256 over the folder's files, including their names, in name order."""

    size_bytes: int

    devices: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Number of processes that wrote it, each its part; any number can read it. 0 in old
    journals."""

    kept: bool = True
    """Whether ``learner.keep_checkpoints`` counts it. If not, the next checkpoint replaces it."""

    replaces: tuple[int, ...] = ()
    """Steps of the checkpoints that no longer exist from this record on."""

    def __post_init__(self) -> None:
        """Refuse a path that leads out of the run's folder."""
        require_inside(self.path, "checkpoint")


class TaskScore(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one held-out task."""

    task_id: str
    turns_passed: int
    turns_total: int
    measures: dict[str, float] = {}
    """The environment's measures besides success, 0..1, by name; the first one is the score."""

    scenario: str = ""
    """The task's scenario, if the environment has any: its tasks are variants of one another, and
    it is solved if all of them are."""

    @property
    def score(self) -> float:
        """Return the first measure; without measures, 1 for success and 0 for failure."""
        for value in self.measures.values():
            return value
        return float(self.turns_passed == self.turns_total)


class ScoreRequest(msgspec.Struct, frozen=True, kw_only=True, tag="score_request"):
    """A request to score a policy version on one task, with the engine of a rollout actor."""

    version: int
    task_id: str


class ScoreReport(msgspec.Struct, frozen=True, kw_only=True, tag="score_report"):
    """The answer to a `ScoreRequest`."""

    version: int
    """The only version that sampled a token of the attempt."""

    task_id: str
    score: TaskScore | None
    """None if infrastructure failures ended every attempt."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, tag="evaluation"):
    """Scores of one policy version on the held-out tasks, with greedy sampling."""

    version: int
    scores: tuple[TaskScore, ...]
    errors: int
    """Number of tasks left unscored by infrastructure failures."""

    wall_s: float
    """Seconds to score the version, including the guard's tasks if both are due."""

    trained: tuple[TaskScore, ...] = ()
    """Scores of the same version on tasks that the run has trained on (`evaluator.fresh`)."""

    instances: tuple[TaskScore, ...] = ()
    """Scores of the same version on instances of tasks of `scores` and `trained`."""


class CanaryScores(msgspec.Struct, frozen=True, kw_only=True, tag="canary_scores"):
    """Greedy scores of one policy version on the guard's tasks; no result is reported on these."""

    version: int
    scores: tuple[TaskScore, ...]
    """Also empty if the run has no tasks for the guard."""

    errors: int
    """Number of tasks left unscored by infrastructure failures."""

    @property
    def is_comparable(self) -> bool:
        """Whether at least nine in ten canaries were scored; fewer are not informative enough."""
        return len(self.scores) >= 9 * self.errors and bool(self.scores)
