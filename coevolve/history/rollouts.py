"""Rollouts of some groups, token by token, in a bounded amount."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from coevolve.history.lineage import LineageIndex
from coevolve.journal.codec import ROLLOUTS_BY_GROUP, decode
from coevolve.models.model_folder import model_folder
from coevolve.models.tokenizer_file import TOKENIZER, read_tokenizer
from protocols import columns
from protocols.config import RunConfig
from protocols.errors import CoevolveError
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader
from protocols.rollouts import FailedRollout, Rollout, Tokens

TASKS = 12
"""Number of tasks, of those with the most groups, whose first, middle and newest group is taken."""

NEWEST = 12
"""Number of newest groups, of any task, that are taken as well."""

MOST_TOKENS = 120_000
"""Maximum number of tokens of all groups together. Groups that would exceed it are left out."""

LISTED = 2000
"""Maximum number of groups of which a board offers the rollouts; the newest ones."""

SEARCHED = 6
"""Maximum number of older or newer groups that stand in for one whose rollouts were dropped."""


KINDS = (Rollout, FailedRollout)


@dataclass(frozen=True)
class Group:
    """A finished group and its rollouts, by index."""

    summary: GroupSummary
    rollouts: Sequence[Rollout | FailedRollout]


@dataclass(frozen=True)
class Sample:
    """The chosen groups, in the order of their numbers."""

    groups: Sequence[Group]
    finished: int
    """All finished groups whose summaries the journal still has."""

    pieces: "Pieces"
    on_demand: bool = False
    """Whether a board reads the rollouts of a group when it is chosen; ``groups`` then has none."""


async def sample_of(
    reader: Reader,
    evolution: LineageIndex,
    config: RunConfig,
    first: Iterable[str] = (),
) -> Sample:
    """Return some groups of the run: of the tasks with most groups, and the newest ones.

    Before these comes the newest group of each of the tasks ``first``. ``config`` are the settings
    of the run's parts.
    """
    visits = {task: [v for v in each if v.rollouts] for task, each in evolution.visits.items()}
    found: dict[str, Group] = {}
    tokens = 0
    for wanted in _wanted(visits, first):
        group = await _first_kept(reader, wanted[:SEARCHED])
        if group is None or group.summary.group_id in found:
            continue
        tokens += tokens_of(group)
        if tokens > MOST_TOKENS:
            break
        found[group.summary.group_id] = group
    groups = sorted(found.values(), key=lambda group: group.summary.group)
    finished = sum(map(len, visits.values()))
    return Sample(groups=groups, finished=finished, pieces=pieces_of(config))


def every_group(evolution: LineageIndex, config: RunConfig) -> Sample:
    """Return the newest `LISTED` groups, whose rollouts are read on demand."""
    every = [v for each in evolution.visits.values() for v in each if v.rollouts]
    every.sort(key=lambda summary: summary.group)
    groups = [Group(summary, ()) for summary in every[-LISTED:]]
    return Sample(groups, len(every), pieces_of(config), on_demand=True)


async def _first_kept(reader: Reader, summaries: Sequence[GroupSummary]) -> Group | None:
    for summary in summaries:
        group = await group_of(reader, summary)
        if group.rollouts:
            return group
    return None


async def group_of(reader: Reader, summary: GroupSummary) -> Group:
    """Return a group; it has no rollouts if the journal dropped them."""
    records = await reader.find(ROLLOUTS_BY_GROUP, summary.group_id)
    rollouts = [message for each in records if isinstance(message := decode(each), KINDS)]
    return Group(summary, sorted(rollouts, key=lambda each: each.index))


def tokens_of(group: Group) -> int:
    return sum(each.token_count for each in group.rollouts if isinstance(each, Rollout))


def _wanted(
    visits: Mapping[str, Sequence[GroupSummary]], first: Iterable[str]
) -> list[Sequence[GroupSummary]]:
    """Return the wanted groups, each with those that stand in for it, the most wanted first."""
    every = sorted((v for each in visits.values() for v in each), key=lambda v: -v.group)
    newest: list[Sequence[GroupSummary]] = [[each] for each in every[:NEWEST]]
    wanted = newest[:1] + [visits[task][::-1] for task in first if task in visits]
    for each in sorted(visits.values(), key=len, reverse=True)[:TASKS]:
        middle = len(each) // 2
        wanted += [each[::-1], each[middle:], each]
    return [*wanted, *newest[1:]]


class Pieces:
    """Decodes tokens one by one; without a tokenizer, the text of a token is its number."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    def of(self, tokens: Tokens) -> list[str]:
        """Return the text of each token; together they are the whole text."""
        ids = columns.from_int32(tokens.token_ids)
        if self._tokenizer is None:
            return [f"{number} " for number in ids]
        stream = DecodeStream(skip_special_tokens=False)
        return [stream.step(self._tokenizer, number) or "" for number in ids]

    def of_all(self, rollout: Rollout) -> tuple[list[str], list[int]]:
        """Return the text and the share (`shares`) of each token of a rollout.

        A heading, with share -1, stands before each further conversation.
        """
        texts, found = self.of(rollout.tokens), shares(rollout.tokens)
        for number, tokens in enumerate(rollout.further, 2):
            texts += [f"\n\n[conversation {number}]\n", *self.of(tokens)]
            found += [-1, *shares(tokens)]
        return texts, found


def shares(tokens: Tokens) -> list[int]:
    """Return the probability of each token that the policy sampled, in thousandths; else -1."""
    logprobs = columns.from_float32(tokens.logprobs)
    return [
        round(1000 * math.exp(min(logprob, 0.0))) if sampled else -1
        for logprob, sampled in zip(logprobs, tokens.mask, strict=True)
    ]


NO_SAMPLE = Sample(groups=(), finished=0, pieces=Pieces(None))


def pieces_of(config: RunConfig) -> Pieces:
    """Return a decoder with the policy's tokenizer, if this machine has it."""
    try:
        folder = model_folder(config.policy.model)
        return Pieces(read_tokenizer(folder) if (folder / TOKENIZER).is_file() else None)
    except CoevolveError:
        return Pieces(None)
