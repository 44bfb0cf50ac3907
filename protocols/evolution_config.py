"""The settings of what makes training tasks: signals, synthesis, validation and the pool."""

from typing import Annotated, Literal

import msgspec

from protocols.evolution import PatternKind, SignalKind
from protocols.numbers import Count, NonNegative, Positive, Share
from protocols.synthesizers import PolicyModel, SynthesizerModel


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tasks that the curriculum draws from."""

    synthetic_share: Share = 0.75
    """Most that synthesized tasks may make up of all groups so far. Where none is to be had, seed
    tasks are drawn instead."""

    capacity: Count = 512
    """Live synthesized tasks; beyond it the one that teaches least is retired."""

    retire_after: Count = 2
    """A task is retired when so many visits in a row were mastered by every rollout."""

    retired_share: Share = 0.05
    """Share of groups that probe retired tasks for forgetting; a forgotten one lives again."""


class SignalsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts as a weakness of the policy."""

    rules: Literal["posterior", "paper"] = "posterior"
    """How weaknesses are recognized. ``posterior``: by the posterior of success rates and of
    patterns, with bounded errors. ``paper``: by CoEvolve's thresholds on counts."""

    kinds: tuple[SignalKind, ...] = ("forgetting", "boundary", "rare")
    """Which signals are emitted; leaving one out is a control."""

    patterns: tuple[PatternKind, ...] = ()
    """Kinds of patterns that the posterior rule for rare ones looks at; empty for all that the
    environment counts."""

    window: Count = 10
    """Visits of a task that are looked back on."""

    rare_share: Share = 0.05
    """A pattern below this share of all patterns of its kind is rare. (CoEvolve's theta.)"""

    confidence: Share = 0.95
    """Posterior probability at which boundary and rare fire."""

    forgetting_drop: Share = 0.2
    """Success that has to be lost for a task to count as forgotten."""

    false_discovery: Share = 0.05
    """Expected share of false ones among the tasks that are called forgotten."""

    boundary_low: Share = 0.1
    """A task is at the boundary if its success rate lies above this, below ``boundary_high``."""

    boundary_high: Share = 0.9
    """A task is at the boundary if its success rate lies below this, above ``boundary_low``."""

    reward_flip_rate: Annotated[float, msgspec.Meta(ge=0.0, lt=0.5)] = 0.0
    """How often identical attempts get the other verdict, if the environment's reward is not
    deterministic; `python -m coevolve.environment check` measures it. It is no boundary."""

    half_life_visits: Positive = 200.0
    """After so many visits a pattern that was seen counts half."""

    cool_down_versions: NonNegative = 8
    """Policy versions for which a rule says nothing more about the same task or pattern."""


class SynthesizerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Making tasks out of signals."""

    model: SynthesizerModel = PolicyModel()
    """The model that synthesizes tasks."""

    rounds: Count = 4
    """Explorations of one signal, each from a train-split state of its own."""

    steps: Count = 12
    """Calls of one exploration, at most."""

    concurrent: Count = 4
    """Signals worked on at a time."""

    expire_versions: Count = 20
    """A signal that waited while the policy made so many versions is settled as expired."""

    max_tokens: NonNegative = 0
    """Prompt and answer tokens of the whole run; 0 for no limit."""

    max_cost_usd: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Cost of the whole run at the endpoint's configured prices; 0 for no limit."""

    max_tokens_by_kind: dict[SignalKind, Count] = {}
    """Prompt and answer tokens for the signals of a kind."""


class ValidatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Judging candidates."""

    probes: Count = 4
    """Rollouts that label a sound candidate."""

    similarity: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.8
    """From this on a candidate is a near-duplicate of a task of the pool, or of a held-out one."""

    not_yet_share: Share = 0.6
    """Share of the admitted tasks that none of the probes solved; further ones are parked. A few
    probes cannot tell 'never' from 'seldom', so such tasks teach a policy gradient, too."""

    retry_after_versions: Count = 10
    """Policy versions after which a parked candidate is probed again."""

    concurrent: Count = 32
    """Candidates judged at a time."""

    judge: bool = False
    """Whether the synthesizer's endpoint gives a second opinion; it is logged beside the machine's
    verdict and does not change it."""

    positive_reward_clause: bool = False
    """CoEvolve's clause: admit a candidate whose reference fails where the simulator nevertheless
    gives a positive reward. It admits garbage; off."""
