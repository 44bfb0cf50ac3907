"""What a BFCL worker and its child process say to each other, over the child's standard streams.

A batch is its number of commands, and a frame for each; the child answers each by a frame of its
own. A frame is a length, and as many bytes of msgpack. Numbers have four bytes, little-endian. Once
it can work, the child sends a first `Answer`, which answers nothing.
"""

import msgspec

from coevolve.environments.tools.commands import Command, Reply

NUMBER_BYTES = 4

MAX_BYTES = 64 * 2**20
"""Of a frame. No call and no answer has a tenth."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The reply to one command."""

    reply: Reply

    cpu_s: float
    """CPU seconds of the child so far."""


command_decoder = msgspec.msgpack.Decoder(Command)
answer_decoder = msgspec.msgpack.Decoder(Answer)
_encoder = msgspec.msgpack.Encoder()


def number(value: int) -> bytes:
    """Return the bytes of a number."""
    return value.to_bytes(NUMBER_BYTES, "little")


def number_in(content: bytes) -> int:
    """Return the number that has these bytes."""
    return int.from_bytes(content, "little")


def frame(content: Command | Answer) -> bytes:
    """Return the bytes to send. Raises UnicodeEncodeError on text with unpaired surrogates."""
    payload = _encoder.encode(content)
    return number(len(payload)) + payload


def frame_bytes(prefix: bytes) -> int:
    """Return how many bytes follow. Raises ValueError where it cannot be a frame."""
    size = number_in(prefix)
    if size > MAX_BYTES:
        raise ValueError(f"a frame has at most {MAX_BYTES} bytes, this one has {size}")
    return size
