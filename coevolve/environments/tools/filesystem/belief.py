"""Which of the tiny policy's instructions to believe.

The policy also writes something about calls that no instruction asks for together, and it looks
right. What gives it away is that the wording varies: where the policy knows how such a request is
said, it has few ways to say it, and each is probable. So an instruction is believed where

- the words around the names are probable, in this sample and in most others for the same calls;
- the slot filter finds the same names in it and in the calls (`mentions_its_slots`);
- it names nothing twice, and the files of a single call in the order in which that takes them;
- an instruction for several calls is not worded like one for a single one of them.

The numbers below were measured with the shipped weights on 600 walks. Joint slices: 93 were such as
the grammar asks for, and 73 of these had a right instruction among six or eight samples; believed
are 81, all 73 among them. Single calls: 452 believed, 449 right. The mean log probability of all
tokens, or a lower temperature, tells right from wrong far worse.
"""

import re
from collections.abc import Sequence

import msgspec

from coevolve.environments.tools.filesystem.abstraction import mentions_its_slots
from coevolve.environments.tools.filesystem.walk import Slice

PROBABLE_LOGPROB = -1.9
"""Least natural-log probability of a wording to be called probable: about one in seven."""

IMPROBABLE_SHARE = 0.2
"""Of the samples for the same calls, the most that may be worded improbably."""

_NAMES_SLACK = 0.5
"""How much less probable than the best sample's the names may be."""


class Description(msgspec.Struct, frozen=True, array_like=True):
    """An instruction that the policy wrote."""

    text: str

    wording: float
    """Natural-log probability of the words around the names."""

    names: float
    """Natural-log probability of the quoted names and of numbers."""

    @property
    def is_probable(self) -> bool:
        """Whether the policy would often word it like this."""
        return self.wording >= PROBABLE_LOGPROB


def believed(each: Slice, samples: Sequence[Description], parts: frozenset[str]) -> str | None:
    """Return the instruction to believe, None where there is none.

    Args:
        each: What was carried out.
        samples: What the policy wrote about it.
        parts: How it words the single calls of several.
    """
    if not is_sure(samples):
        return None
    sound = [
        sample
        for sample in samples
        if sample.is_probable
        and wording(sample.text) not in parts
        and mentions_its_slots(sample.text, each.calls, each.results)
        and _names_in_order(sample.text, each)
    ]
    if not sound:
        return None
    best = max(sample.names for sample in sound)
    return next(sample.text for sample in sound if sample.names >= best - _NAMES_SLACK)


def is_sure(samples: Sequence[Description]) -> bool:
    """Whether the policy knows how to word it."""
    return improbable(samples) <= IMPROBABLE_SHARE * len(samples)


def improbable(samples: Sequence[Description]) -> int:
    """Return how many samples are worded improbably."""
    return sum(not sample.is_probable for sample in samples)


def wording(text: str) -> str:
    """Return an instruction without its names and numbers."""
    return re.sub(r"'[^']*'|\d+", "#", text)


def _names_in_order(text: str, each: Slice) -> bool:
    said = re.findall(r"'([^']*)'", text)
    if len(set(said)) < len(said):
        return False
    if len(each.calls) > 1:
        return True
    taken = re.findall(r"'([^']*)'", "".join(each.calls))
    return list(filter(_looks_like_a_file, said)) == list(filter(_looks_like_a_file, taken))


def _looks_like_a_file(name: str) -> bool:
    return "." in name.strip(".")
