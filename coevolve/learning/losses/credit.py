"""Credit assignment: advantages from the rewards of whole rollouts, or of single turns.

    rollout:  A_it = A(r_i; r_1 .. r_G)                     GRPO: equal for all tokens of a rollout
    turn:     A_it = A(s_ij; s_kj of the rollouts k that began turn j)    for the tokens of turn j

with r_i the reward of rollout i, s_ij 1 if it passed turn j and 0 if it failed it, and A the
objective's own comparison (`Surrogate.advantages`). A conversation ends at the first failed turn,
and a turn passes only if its end state is that of the reference. The turns before the last one are
therefore correct: blaming them for the end is noise. And in a group whose rollouts all fail, turn
credit still distinguishes those that got further. Turn-level credit for multi-turn agents: MT-GRPO
(arXiv 2505.11821); here the turns' rewards are the verdicts of the simulator, and the baseline of a
turn is the mean over the rollouts that began it.

In both cases ``learner.negative_weight`` w scales negative advantages: A' = A if A >= 0 else w A.
Weighting successes above failures keeps an unsure policy from unlearning (Asymmetric REINFORCE,
arXiv 2506.20520; tapered off-policy REINFORCE, arXiv 2503.14286). Deviation from both: it is
applied on-policy, after GRPO's comparison.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from protocols.rollouts import Rollout

Compare = Callable[[Sequence[float]], list[float]]
"""A function that returns the advantage of each of several rewards."""


def turn_rewards(rollouts: Sequence[Rollout]) -> list[dict[int, float]]:
    """Return, for every turn that any rollout began, rollout position -> 1 passed or 0 failed."""
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
    """Whether one rollout passed a turn that another one failed."""
    return any(len(set(rewards.values())) > 1 for rewards in turn_rewards(rollouts))


def by_turn(rollouts: Sequence[Rollout], compare: Compare) -> list[list[float]]:
    """Return the advantage of every written token except at position 0, rollout by rollout."""
    advantages: list[list[float]] = [[] for _ in rollouts]
    for rewards in turn_rewards(rollouts):
        compared = compare(list(rewards.values()))
        for position, advantage in zip(rewards, compared, strict=True):
            advantages[position].append(advantage)
    return [
        [of_turns[turn] for turn in _turns(rollout)]
        for rollout, of_turns in zip(rollouts, advantages, strict=True)
    ]


def _turns(rollout: Rollout) -> list[int]:
    """Return the turn of each written token, conversation by conversation."""
    first = written_positions(rollout.tokens.mask)
    turns = [bisect_right(rollout.turn_starts, position) - 1 for position in first]
    return turns + [len(rollout.turn_starts) - 1] * (written(rollout) - len(turns))


def by_rollout(rollouts: Sequence[Rollout], advantages: Sequence[float]) -> list[list[float]]:
    """Return the advantage of each rollout for every written token except at position 0.

    The tokens follow one another conversation by conversation, as in `by_turn`.
    """
    return [
        [advantage] * written(rollout)
        for rollout, advantage in zip(rollouts, advantages, strict=True)
    ]


def written(rollout: Rollout) -> int:
    """Return the number of tokens that the policy wrote, except at position 0 of a conversation."""
    return sum(sum(tokens.mask[1:]) for tokens in rollout.conversations)


def written_positions(mask: Sequence[int]) -> list[int]:
    """Return the positions that the policy wrote, except 0, which no token predicts."""
    return [position for position in range(1, len(mask)) if mask[position]]
