"""Settings for making training tasks: signals, synthesis, validation and the pool."""

from typing import Annotated, Literal

import msgspec

from protocols.evolution import PatternKind, RuleKind, SignalKind
from protocols.numbers import (
    AtOnce,
    Count,
    Dollars,
    NonNegative,
    Positive,
    Seconds,
    Share,
    TokenBudget,
    Tries,
)
from protocols.synthesizers import PolicyModel, ReaderModel, SynthesizerModel, SynthesizerReader


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the curriculum's task pool."""

    synthetic_share: Share = 0.75
    """Maximum share of groups so far that may use synthesized tasks. If no synthesized task is
    available, the curriculum draws seed tasks."""

    new_instances: bool = False
    """Whether each group attempts its task under other names, so that the policy cannot memorize
    it. Tasks without names stay as given. Needs an environment that makes instances."""

    capacity: Count = 512
    """Maximum number of live synthesized tasks; above it the least informative one is retired."""

    retire_after: Count = 2
    """A task is retired when every rollout succeeded in this many consecutive groups."""

    retired_share: Share = 0.05
    """Share of groups that probe retired tasks for forgetting; a forgotten task becomes live
    again."""

    retired_capacity: Count = 2048
    """Maximum number of retired synthesized tasks. Above it the one that was retired or mastered
    longest ago leaves the pool for good; it is never drawn again."""

    @property
    def remembered(self) -> int:
        """Number of synthesized tasks that a part remembers at most.

        It is twice what the pool can have, so that those of the pool are among them although others
        joined later, or were visited since.
        """
        return 2 * (self.capacity + self.retired_capacity)


class SignalsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the rules that detect weaknesses of the policy."""

    rules: Literal["posterior", "paper", "skills"] = "posterior"
    """How weaknesses are recognized. ``posterior``: by the posterior of success rates and of
    patterns, with bounded errors. ``paper``: by CoEvolve's thresholds on counts. ``skills``: by a
    model of skills that pools all tasks which share one, and foresees tasks that were not
    visited."""

    kinds: tuple[RuleKind, ...] = ("forgetting", "boundary", "unsolved", "rare")
    """Kinds of signal to emit; leaving one out gives a control experiment. ``rules: paper`` has no
    ``unsolved``."""

    patterns: tuple[PatternKind, ...] = ()
    """Kinds of patterns for the posterior rule for rare patterns; empty means all kinds that the
    environment counts."""

    window: Count = 10
    """Number of earlier groups of a task that the rules look back on."""

    rare_share: Share = 0.05
    """A pattern is rare below this share of all patterns of its kind (CoEvolve's theta)."""

    confidence: Share = 0.95
    """Posterior probability at which the boundary and rare rules fire."""

    forgetting_drop: Share = 0.2
    """Minimum drop in success rate for a task to count as forgotten."""

    false_discovery: Share = 0.05
    """Expected share of false positives among the tasks reported as forgotten."""

    forgetting_evidence: Positive = 5.0
    """Log-likelihood ratio at which ``rules: skills`` reports a part of skills as lost."""

    boundary_low: Share = 0.1
    """A task is at the boundary if its success rate lies above this, below ``boundary_high``. Below
    it, a task or a skill of which every attempt failed is unsolved."""

    boundary_high: Share = 0.9
    """A task is at the boundary if its success rate lies below this, above ``boundary_low``."""

    reward_flip_rate: Annotated[float, msgspec.Meta(ge=0.0, lt=0.5)] = 0.0
    """Share of identical attempts that get the opposite verdict, if the environment's reward is not
    deterministic. `coevolve environment check` measures it. The boundary rule corrects
    for it, because noise in the reward is no boundary."""

    half_life_visits: Positive = 200.0
    """Number of groups after which an observed pattern counts half."""

    cool_down_versions: NonNegative = 8
    """Policy versions during which a rule does not fire again for the same task or pattern."""


class SynthesizerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for making tasks from signals."""

    model: SynthesizerModel = PolicyModel()
    """The model that synthesizes tasks."""

    may_be_missing: bool = False
    """Whether a run starts although an endpoint of ``synthesizer.model`` or ``validator.reader``
    does not answer an example in the form that the work needs. Without it such a run is refused. In
    either case it waits for a model that fails later, or at a resumption."""

    rounds: Tries = 4
    """Explorations per signal, each from a different train-split state."""

    steps: Tries = 12
    """Maximum calls of one exploration."""

    cold_start: NonNegative = 3
    """Free explorations before the first signal, each with ``rounds`` starts, in every arm that
    makes tasks: one after each ``learner.groups_per_step`` groups without any signal, at most this
    many; 0 for none."""

    idle_steps: NonNegative = 4
    """Steps without a signal after which the synthesizer explores again, so that a policy that
    solves all its tasks gets others; 0 for never. A step counts as ``learner.groups_per_step``
    groups."""

    concurrent: AtOnce = 4
    """Number of signals processed concurrently."""

    expire_versions: Count = 20
    """A signal expires if it waits while the policy makes this many versions."""

    waiting_capacity: Count = 1000
    """Maximum number of signals that wait. Above it those of the oldest policy versions expire,
    even while the model does not answer."""

    longest_rest_s: Seconds = 60.0
    """Longest pause before a model that fails is asked again, seconds; the first is 1 s, and each
    further one is twice as long."""

    max_tokens: TokenBudget = 0
    """Maximum prompt and answer tokens of the whole run; 0 for no limit."""

    max_cost_usd: Dollars = 0.0
    """Maximum cost of the whole run at the endpoint's configured prices; 0 for no limit."""

    max_tokens_by_kind: dict[SignalKind, Annotated[int, msgspec.Meta(ge=1, le=10**15)]] = {}
    """Maximum prompt and answer tokens for the signals of each kind."""


class ValidatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for validating candidates."""

    probes: Tries = 4
    """Number of rollouts that label a valid candidate."""

    probe_share: Share = 0.1
    """Maximum share of probes among all rollouts of the policy so far. Above it, candidates join
    the pool unprobed, and their first group shows how hard they are. A candidate that its reader
    could not read is probed in any case, because only a success of the policy admits it."""

    similarity: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.8
    """From this similarity on, a candidate is a near-duplicate of a pool task or of a held-out
    task."""

    not_yet_share: Share = 0.6
    """Maximum share of admitted tasks that no probe solved; further ones are parked. A few probes
    cannot distinguish 'never' from 'seldom', so such tasks can still teach a policy gradient."""

    retry_after_versions: Count = 10
    """Policy versions after which a parked candidate is probed again."""

    parked_capacity: Count = 512
    """Maximum number of parked candidates. When it is reached, the validator refuses a candidate
    that no probe solved as ``unsolved``, in place of parking it."""

    concurrent: AtOnce = 32
    """Number of candidates validated concurrently."""

    judge: bool = False
    """Whether the synthesizer's endpoint gives a second opinion. It is logged beside the verdict
    and does not change it. After a swap of the synthesizer's model, the run file's is still asked,
    so that opinions can be compared."""

    reader: ReaderModel = SynthesizerReader()
    """The model that reads a candidate's instructions. An endpoint picks the calls that they ask
    for, out of the reference and decoys; another pick refuses the candidate. The learner imitates
    the reference of a made task only if a reader or a success of the policy has confirmed it. Its
    calls count towards the budget of ``synthesizer``."""

    rebuilds: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """How often an endpoint also writes the calls itself, without seeing the reference; the
    candidate's verifier says whether they do the same."""

    agreement: Share = 0.0
    """Agreement from which a reader confirms: for an endpoint the share of agreeing answers (pick
    and rebuilds), for the policy the probability of the wording. 0 stands for the reader's own
    limit. Below it, a candidate is admitted only if the policy solves it."""

    positive_reward_clause: bool = False
    """CoEvolve's clause: admit a candidate whose reference fails if the simulator still gives a
    positive reward. Off by default, because it admits invalid tasks."""
