"""What the learner and the evaluator say."""

from typing import Annotated, Literal

import msgspec

from protocols.columns import FLOAT32_BYTES, INT32_BYTES

WeightsFormat = Literal["full", "lora"]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A token sequence, and what a policy version thinks of it: proof of what an engine serves."""

    token_ids: bytes = b""
    """int32, T entries."""

    logprobs: bytes = b""
    """float32, T - 1 entries: natural-log probability of each token but the first, given those
    before it, at temperature 1, in the learner's arithmetic."""

    def __post_init__(self) -> None:
        """Refuse columns that do not line up."""
        tokens = len(self.token_ids) // INT32_BYTES
        if len(self.logprobs) // FLOAT32_BYTES != max(0, tokens - 1):
            raise ValueError(
                f"a probe of {tokens} tokens needs {max(0, tokens - 1)} logprobs, "
                f"got {len(self.logprobs) // FLOAT32_BYTES}"
            )


class PolicyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="policy_version"):
    """New weights exist, whole and on disk. Version 0 is the policy that the run started from."""

    version: Annotated[int, msgspec.Meta(ge=0)]

    path: str
    """Folder of the weights, relative to the run directory."""

    format: WeightsFormat

    digest: str
    """SHA-256 over weights and settings (`coevolve.models.weight_files.version_digest`)."""

    size_bytes: int
    """Of the weights file."""

    kept: bool
    """Whether the version is scored. Weights of versions that are scored on held-out tasks stay on
    disk; those scored on canaries alone go when another version is the best."""

    base: str = ""
    """SHA-256 over config and weights of the model that the run started from; empty in old
    journals."""

    scale: float = 0.0
    """What the learner multiplies an adapter's product with; 0 for full weights."""

    probe: Probe = Probe()
    """What every engine has to agree with once it serves this version; empty in old journals."""


class Computed(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine computes from the model's config, apart from what it samples with."""

    rows: dict[str, bytes]
    """Table -> int64 sums of its rows."""

    settings: dict[str, str]


class ServedWeights(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine found out about itself after it took over a policy version."""

    version: int

    digest: str
    """Of the files that it read, as in the version's record."""

    logprobs: bytes
    """float32, T - 1 entries: what it now gives to the tokens of the version's probe; empty where
    there is none."""

    precision: str
    """Of the weights that sample: ``float32``, ``bfloat16`` or ``float16``."""

    form: Literal["whole", "adapter"]
    """Whether an adapter, if there is one, is merged, or stands beside the model's weights with its
    scale in B."""

    rows: dict[str, bytes]
    """Tensor -> int64 sums of its rows (`coevolve.weights.row_sums`), taken where it lies and after
    the change, of everything that samples. Parameters have the names of the published files, and
    are in the engine's precision; what is in no file, as it is. Empty where an engine cannot say;
    then digest and probe are all the proof."""

    settings: dict[str, str] = {}
    """What it samples with besides tensors, in words (`coevolve.weights.settings`): numbers such as
    the scale of attention, switches, and the classes of its layers."""

    anew: Computed | None = None
    """Tables and settings as an engine with a layout of its own computes them once more; None for
    one that has the layout of transformers."""

    wall_s: float
    """From the order to serve the version to the end of the probe."""

    pause_s: float
    """Longest time for which the change alone kept requests in flight from their next token."""


class WeightsVerified(msgspec.Struct, frozen=True, kw_only=True, tag="weights_verified"):
    """An engine serves a policy version, and has proven it."""

    engine: str
    """The part that the engine belongs to, for example ``rollout-0``."""

    version: int
    digest: str
    """Of the files that the engine read, as in the version's record."""

    rows: int = 0
    """Rows of tensors that were compared with the files; 0 where the engine states none."""

    max_abs_difference: float
    """Largest difference between engine and learner over the version's probe, in nats; 0 where
    the version has no probe."""

    wall_s: float
    """From the order to serve the version to the end of the probe."""

    pause_s: float
    """Longest time for which the change kept requests in flight from their next token."""

    proven_ns: int
    """Unix time of the proof, by the engine's machine."""


class WeightsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="weights_differ"):
    """The engine has other weights than those that were published."""

    expected_digest: str
    found_digest: str
    """Of the files where the engine is. With another digest than the expected one the files
    themselves are at fault, otherwise what the engine made of them."""

    max_abs_difference: float
    """Over the probe, in nats; 0 where the file is at fault, which is then not served."""

    tolerance: float

    position: int
    """Token of the probe with the largest difference, counted from 0; nothing predicts token 0,
    which stands here where the file is at fault."""


TensorFault = Literal["served", "merged", "base", "precision"]
"""What is not as published: the tensors that sample; the weights with their adapter; the model that
the run started from; the precision."""


class TensorsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="tensors_differ"):
    """The tensors that the engine samples with are not what the published files give."""

    cause: TensorFault
    tensors: tuple[str, ...]
    """Names of some that differ."""

    rows_differ: int
    rows: int
    """That were compared."""

    precision: str
    """That was served."""


class SettingsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="settings_differ"):
    """The engine samples with other settings than the model's config gives."""

    where: Literal["engine", "files"]
    """Whether the engine's differ, or those of the version's own config from the first model's."""

    settings: tuple[str, ...]
    """Some that differ, each with what was found and what was expected."""

    count: int
    """Of all that differ."""


class SamplerDiffers(msgspec.Struct, frozen=True, kw_only=True, tag="sampler_differs"):
    """The learner, under the same weights, thinks otherwise of what the engine sampled."""

    mean_abs_difference: float
    """Nats, over the tokens that were compared in the last step."""

    tolerance: float
    tokens: int
    """That were compared since the run was opened."""


class OldVersionServed(msgspec.Struct, frozen=True, kw_only=True, tag="old_version_served"):
    """The engine took over an earlier version in place of the one that was published."""

    served: int
    evidence: Literal["digest", "logprobs", "statement", "tensors", "unchanged answer"]
    """What gave it away: the files' digest, the logprobs of the probe, what the engine said, its
    tensors, or that it answered the probe as before, to the last bit, although weights changed."""


class NothingDelivered(msgspec.Struct, frozen=True, kw_only=True, tag="nothing_delivered"):
    """No proof came, neither of the version nor of a newer one."""

    waited_s: float
    """Since publication, or since the learner was started again."""

    newest: int
    """Newest version that the engine has proven since the run was opened; -1 for none."""


class WeightSyncAlarm(msgspec.Struct, frozen=True, kw_only=True, tag="weight_sync_alarm"):
    """An engine does not serve what was published: no further version is trained."""

    engine: str
    version: int
    """That should be served."""

    reason: (
        WeightsDiffer
        | TensorsDiffer
        | SettingsDiffer
        | SamplerDiffers
        | OldVersionServed
        | NothingDelivered
    )


DiscardReason = Literal["stale", "failed", "zero_variance", "abandoned"]
"""``abandoned``: written, in part at least, by a version that the guard has left."""


class GroupDiscarded(msgspec.Struct, frozen=True, kw_only=True, tag="group_discarded"):
    """A complete group that no step will train on; the curriculum asks for another."""

    group_id: str
    group: int
    task_id: str
    reason: DiscardReason
    successes: int
    rollouts: int
    """Rollouts of the group that did not fail."""

    groups_consumed: int
    """Groups trained on or discarded since the start of the run, this one included."""


class TrainedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a step's batch, in batch order."""

    group_id: str
    group: int
    task_id: str
    sequences: tuple[int, ...]
    """Journal sequences of the group's rollouts, by index; failed ones are left out."""

    successes: int
    use: Literal["policy_gradient", "imitation", "nothing"]
    """``imitation`` of the reference where every rollout failed; ``nothing`` for zero variance."""


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step found its weights that went back to an earlier version."""

    to_version: Annotated[int, msgspec.Meta(ge=0)]
    rate_factor: float
    """What all learning rates are multiplied with from this step on, 0..1."""


class PolicyRegressed(msgspec.Struct, frozen=True, kw_only=True, tag="policy_regressed"):
    """A policy version lost more of the canary tasks than the guard allows."""

    version: int
    """That lost."""

    score: float
    """Its mean score over the canaries that both versions have a score of, 0..1."""

    best_version: int
    best_score: float
    lost: int
    """Canaries that the best version does better; and so for ``gained``, the other way round."""

    gained: int
    canaries: int
    chance: float
    """p value of the loss: one-sided exact sign test."""

    action: Literal["return", "warn"]
    """``return``: the learner's next step goes back to the best version."""


class StepReport(msgspec.Struct, frozen=True, kw_only=True, tag="step_report"):
    """The learner took one step: everything needed to take it again."""

    step: Annotated[int, msgspec.Meta(ge=1)]
    """Counted from 1; the step made policy version ``step``."""

    groups: tuple[TrainedGroup, ...]
    weights_digest: str
    groups_consumed: int
    """Groups trained on or discarded since the start of the run, these included."""

    metrics: dict[str, float]
    """Named as verl and TRL name them."""

    returned: Returned | None = None
    """Where the step went back to an earlier version; it then trained on nothing."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """Weights, optimizer, scheduler and random state are on disk: a learner can go on from here."""

    step: int
    path: str
    """Folder, relative to the run directory."""

    digest: str
    """SHA-256 over the folder's files, names included, in name order."""

    size_bytes: int


class TaskScore(msgspec.Struct, frozen=True, kw_only=True):
    """How one held-out task went."""

    task_id: str
    turns_passed: int
    turns_total: int
    measures: dict[str, float] = {}
    """What the environment measures beside success, 0..1, by name; the first one is the score."""

    @property
    def score(self) -> float:
        """Return the first measure, or without any 1 for success and 0 for failure."""
        for value in self.measures.values():
            return value
        return float(self.turns_passed == self.turns_total)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, tag="evaluation"):
    """Greedy score of one policy version on the held-out tasks."""

    version: int
    scores: tuple[TaskScore, ...]
    errors: int
    """Tasks that a machine's failure left unscored."""

    wall_s: float
    """Of scoring the version, on the guard's tasks too where both are due."""


class CanaryScores(msgspec.Struct, frozen=True, kw_only=True, tag="canary_scores"):
    """Greedy scores of one policy version on the guard's tasks, which nothing is reported on."""

    version: int
    scores: tuple[TaskScore, ...]
    """Empty where the run has no tasks for the guard, too."""

    errors: int
    """Tasks that a machine's failure left unscored."""

    @property
    def is_comparable(self) -> bool:
        """Whether at least nine in ten canaries were scored: the others say too little."""
        return len(self.scores) >= 9 * self.errors and bool(self.scores)
