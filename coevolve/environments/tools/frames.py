"""The messages between a BFCL worker and its child process, over the child's standard streams.

A batch is the number of its commands, and a frame for each; the child answers each with a frame. A
frame is a length, followed by that many bytes of msgpack. Numbers have four bytes, little-endian.
When the child is ready, it sends a first `Answer`, which belongs to no command.
"""

import msgspec

from coevolve.environments.tools.commands import Command, Reply

NUMBER_BYTES = 4

MAX_BYTES = 64 * 2**20
"""Maximum bytes of a frame. No call and no answer has a tenth of this."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The reply to one command."""

    reply: Reply

    cpu_s: float
    """CPU seconds of the child so far."""


command_decoder = msgspec.msgpack.Decoder(Command)
answer_decoder = msgspec.msgpack.Decoder(Answer)
_encoder = msgspec.msgpack.Encoder()


def number(value: int) -> bytes:
    """Return a number as bytes."""
    return value.to_bytes(NUMBER_BYTES, "little")


def number_in(content: bytes) -> int:
    """Return the number in these bytes."""
    return int.from_bytes(content, "little")


def frame(content: Command | Answer) -> bytes:
    """Return the bytes to send. Raises UnicodeEncodeError on text with unpaired surrogates."""
    payload = _encoder.encode(content)
    return number(len(payload)) + payload


def frame_bytes(prefix: bytes) -> int:
    """Return the length of the payload. Raises ValueError if it is above the maximum."""
    size = number_in(prefix)
    if size > MAX_BYTES:
        raise ValueError(f"a frame has at most {MAX_BYTES} bytes, this one has {size}")
    return size
