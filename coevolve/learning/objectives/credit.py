"""Which rewards a token's advantage compares: those of whole rollouts, or of single turns.

    rollout:  A_it = A(r_i; r_1 .. r_G)                     GRPO: every token of a rollout alike
    turn:     A_it = A(s_ij; s_kj of the rollouts k that began turn j)    for the tokens of turn j

with r_i the reward of rollout i, s_ij 1 where it passed turn j and 0 where it failed it, and A the
objective's own comparison (`Surrogate.advantages`). A conversation ends at the first turn that
fails, and a turn passes only where the world is as the reference leaves it. So the turns before
the last one did nothing wrong: blaming them for the end is noise, and a group whose rollouts all
fail still tells apart those that came further. Turn-level credit for multi-turn agents: MT-GRPO
(arXiv 2505.11821); here the turns' rewards are the verdicts of the simulator, and the baseline of a
turn is the mean over the rollouts that began it.

With either, ``learner.negative_weight`` w scales what is below the baseline: A' = A if A >= 0 else
w A. Weighing successes above failures keeps a policy that is unsure from unlearning (Asymmetric
REINFORCE, arXiv 2506.20520; tapered off-policy REINFORCE, arXiv 2503.14286). Deviation from both:
applied on-policy, after GRPO's comparison.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from protocols.rollouts import Rollout

Compare = Callable[[Sequence[float]], list[float]]
"""Returns the advantage of each of several rewards over the others."""


def turn_rewards(rollouts: Sequence[Rollout]) -> list[dict[int, float]]:
    """Return, for every turn that some rollout began, rollout position -> 1 passed or 0 failed."""
    begun = max((len(rollout.turn_starts) for rollout in rollouts), default=0)
    return [
        {
            position: float(turn < rollout.turns_passed)
            for position, rollout in enumerate(rollouts)
            if turn < len(rollout.turn_starts)
        }
        for turn in range(begun)
    ]


def is_informative(rollouts: Sequence[Rollout]) -> bool:
    """Whether some turn was passed by one rollout and failed by another."""
    return any(len(set(rewards.values())) > 1 for rewards in turn_rewards(rollouts))


def by_turn(rollouts: Sequence[Rollout], compare: Compare) -> list[list[float]]:
    """Return the advantage of every written token but a first one, rollout by rollout."""
    advantages: list[list[float]] = [[] for _ in rollouts]
    for rewards in turn_rewards(rollouts):
        compared = compare(list(rewards.values()))
        for position, advantage in zip(rewards, compared, strict=True):
            advantages[position].append(advantage)
    return [
        [
            of_turns[bisect_right(rollout.turn_starts, position) - 1]
            for position in written_positions(rollout.tokens.mask)
        ]
        for rollout, of_turns in zip(rollouts, advantages, strict=True)
    ]


def written_positions(mask: Sequence[int]) -> list[int]:
    """Return where the policy wrote; nothing predicts a first token, so that one is left out."""
    return [position for position in range(1, len(mask)) if mask[position]]
