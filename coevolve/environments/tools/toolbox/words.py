"""The words of a toolbox, one token each, and the sizes of the policy that speaks them."""

import hashlib

from coevolve.models.architecture import word_config

TOOLBOX = "toolbox"
"""Name of the policy in a run file; its model folder is made in the run's folder at the start."""

MAX_TOOLS = 64
MODES = tuple(f"mode{number}" for number in range(8))
THINGS = tuple(f"thing{number:02}" for number in range(100))
TOOLS = tuple(f"tool{number:02}" for number in range(MAX_TOOLS))
VERBS = tuple(f"do{number:02}" for number in range(MAX_TOOLS))
"""How requests name the tools; that ``do07`` asks for ``tool07`` has to be learned."""

PAD, USER, CALL, OBSERVED, END = range(5)
"""Tokens: padding; start of a request; the policy writes from here; start of what the tools
answered; end of a message of the policy."""

THEN, OK, ERROR = "then", "ok", "error"
WORDS = ("<pad>", "<u>", "<a>", "<o>", "<e>", THEN, OK, ERROR, *MODES, *THINGS, *VERBS, *TOOLS)
IDS = {word: number for number, word in enumerate(WORDS)}

POSITIONS = 32
"""Maximum tokens of a conversation; the longest that succeeds has 19."""

MODEL = word_config(len(WORDS), END, hidden=96, layers=3, positions=POSITIONS)


def mode_of(domain: int, first: str, second: str) -> str:
    """Return the mode in which ``second`` takes over from ``first``; of this pair alone."""
    return MODES[number_of(f"{domain}/{first}/{second}") % len(MODES)]


def number_of(text: str) -> int:
    """Return a number that looks random, the same for a text on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
