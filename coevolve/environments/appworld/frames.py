"""The messages between the owner of an interpreter and its program.

A frame is a length in four bytes, little-endian, and that many bytes of JSON: the codec that a
plain Python has. What comes from the program comes from the policy's code.
"""

from typing import Annotated

import msgspec

LENGTH_BYTES = 4

MAX_BYTES = 1 << 20
"""Maximum bytes of a frame from the program."""

Name = Annotated[str, msgspec.Meta(max_length=100)]


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to a program."""

    now: str
    """Time at which its clock stands, in ISO 8601; empty for the machine's clock."""

    apps: dict[str, tuple[str, ...]]
    """App -> its APIs."""

    modules: tuple[str, ...]
    """Modules that blocks may import."""

    functions: tuple[str, ...]
    """Functions that blocks may not call, as dotted paths."""

    guard: str
    """Text of the file that refuses blocks."""

    folders: tuple[str, ...]
    """Folders with packages that stop the clock."""

    seal: str
    """The filter that the program installs on itself, in hexadecimal digits."""

    output_chars: int
    block_s: float


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The order to run a block of code."""

    turn: int
    code: str


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An API's answer."""

    value: msgspec.Raw


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An error that the call raises in the policy's code."""

    error: str
    kind: str = "Exception"
    """Name of the error's class; one that is not Python's own becomes Exception."""


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The program is sealed, and waits for blocks."""


class Called(msgspec.Struct, frozen=True, kw_only=True, tag="call", forbid_unknown_fields=True):
    """A block calls an API."""

    turn: int
    app: Name
    api: Name
    arguments: msgspec.Raw
    """JSON of an object; unchecked beyond its syntax."""


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done", forbid_unknown_fields=True):
    """A block has ended."""

    turn: int
    output: str


FromProgram = Started | Called | Done

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[FromProgram] = msgspec.json.Decoder(FromProgram)


def frame(message: Hello | Run | Answered | Refused) -> bytes:
    """Return the bytes to send. Raises UnicodeEncodeError on text with unpaired surrogates."""
    content = _encoder.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "little") + content


def message_in(content: bytes) -> FromProgram:
    """Return a message of a program. Raises ValueError if it is none."""
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"no message: {error}") from error
