"""Decides which of the tiny policy's instructions to accept.

The policy also writes plausible instructions for calls that no instruction asks for together. Their
wording varies: if the policy knows how such a request is worded, it has few wordings for it, and
each is probable. So an instruction is accepted if

- the words around the names are probable, in this sample and in most others for the same calls;
- the slot filter finds the same names in it and in the calls (`mentions_its_slots`);
- it names nothing twice, and names the files of a single call in the order of its arguments;
- an instruction for several calls is not worded like one for a single one of them.

The numbers below were measured with the shipped weights on 600 walks. Slices of several calls: 93
were such as the grammar asks for, and 73 of these had a right instruction among six or eight
samples; 81 are accepted, including all 73. Single calls: 452 accepted, 449 right. The mean log
probability of all tokens, or a lower temperature, separates right from wrong far worse.
"""

import re
from collections.abc import Sequence

import msgspec

from coevolve.environments.tools.filesystem.abstraction import mentions_its_slots
from coevolve.environments.tools.filesystem.walk import Slice

PROBABLE_LOGPROB = -1.9
"""Minimum natural-log probability of a probable wording: about one in seven."""

IMPROBABLE_SHARE = 0.2
"""Maximum share of improbable wordings among the samples for the same calls."""

_NAMES_SLACK = 0.5
"""Maximum natural-log difference of the names from the best sample."""


class Description(msgspec.Struct, frozen=True, array_like=True):
    """An instruction that the policy wrote."""

    text: str

    wording: float
    """Natural-log probability of the words around the names."""

    names: float
    """Natural-log probability of the quoted names and of numbers."""

    @property
    def is_probable(self) -> bool:
        """Whether the policy would often choose this wording."""
        return self.wording >= PROBABLE_LOGPROB


def believed(each: Slice, samples: Sequence[Description], parts: frozenset[str]) -> str | None:
    """Return the instruction to accept, or None.

    Args:
        each: The executed calls and their results.
        samples: The policy's instructions for them.
        parts: The policy's wordings for the single calls, if there are several.
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
    """Return whether the policy knows a wording."""
    return improbable(samples) <= IMPROBABLE_SHARE * len(samples)


def improbable(samples: Sequence[Description]) -> int:
    """Return the number of samples with an improbable wording."""
    return sum(not sample.is_probable for sample in samples)


def wording(text: str) -> str:
    """Return an instruction without its names and numbers."""
    return re.sub(r"'[^']*'|\d+", "#", text)


def _names_in_order(text: str, each: Slice) -> bool:
    quoted = re.findall(r"'([^']*)'", text)
    if len(set(quoted)) < len(quoted):
        return False
    if len(each.calls) > 1:
        return True
    taken = re.findall(r"'([^']*)'", "".join(each.calls))
    return list(filter(_looks_like_a_file, quoted)) == list(filter(_looks_like_a_file, taken))


def _looks_like_a_file(name: str) -> bool:
    return "." in name.strip(".")
