"""What a BFCL worker and its child process say to each other, over the child's standard streams.

A frame is a length of four bytes, little-endian, and as many bytes of msgpack. The child sends one
`Answers` without replies once it can work, and then one for each frame of commands.
"""

import msgspec

from protocols.simulation import Command, Observed, Reply

LENGTH_BYTES = 4
MAX_BYTES = 256 * 2**20

POSITION_BYTES = 4
"""Of the memory in which the child notes, little-endian, which command of a batch it is at."""

COMMAND_CPU_S = 0.25
"""No honest command of the benchmark takes a tenth of it."""

OUT_OF_TIME = "out_of_time"

OUT_OF_MEMORY = "out_of_memory"

TOO_LONG = Observed(
    result=f"Error during execution: more than {COMMAND_CPU_S} CPU seconds", failed=True
)
TOO_LARGE = Observed(result="Error during execution: out of memory", failed=True)


class Answers(msgspec.Struct, frozen=True, array_like=True):
    """One reply per command, in order."""

    replies: tuple[Reply, ...]

    cpu_s: float
    """CPU seconds of the child so far."""


commands_decoder = msgspec.msgpack.Decoder(tuple[Command, ...])
answers_decoder = msgspec.msgpack.Decoder(Answers)
_encoder = msgspec.msgpack.Encoder()


def frame(content: tuple[Command, ...] | Answers) -> bytes:
    """Return the bytes to send. Raises UnicodeEncodeError on text with unpaired surrogates."""
    payload = _encoder.encode(content)
    return len(payload).to_bytes(LENGTH_BYTES, "little") + payload


def length(prefix: bytes) -> int:
    """Return how many bytes follow. Raises ValueError where it cannot be a frame."""
    size = int.from_bytes(prefix, "little")
    if size > MAX_BYTES:
        raise ValueError(f"a frame has at most {MAX_BYTES} bytes, this one has {size}")
    return size
