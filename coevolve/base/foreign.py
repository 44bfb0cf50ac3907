"""The boundary between input that somebody else wrote and the code that reads it.

Each reader of foreign input (a run file, a model's folder, a reply of a model, a patch) has one
`boundary`: whatever its code raises, its caller gets the reader's own error, with one sentence.
What the sentence quotes of the input is escaped, short and without credentials (`shown`).
"""

import contextlib
import errno
import os
import re
import reprlib
import select
import stat
import sys
import threading
import warnings
from collections.abc import Generator
from io import BufferedReader
from pathlib import Path
from typing import IO

from coevolve.base.similar import file_meant
from protocols.errors import CoevolveError

SHOWN_CHARS = 80
"""Maximum characters quoted of a value."""

DESCRIBED_CHARS = 400
"""Maximum characters quoted of an error's message, which may contain a whole file."""

SEARCHED_CHARS = 2_000
"""Credentials are searched for in this many characters; further ones are never shown."""

MOST_BITS = 256
"""Numbers above 2 to this power are not written out; Python refuses those of 4,300 digits."""

PIPE_BYTES = 1 << 16
"""Bytes that are read from a pipe at a time."""

PIPE_S = 30.0
"""Seconds without a byte after which a pipe counts as one without a writer."""

_STDOUT, _STDERR = 1, 2
_PRINTING = threading.Lock()

CODE = "<foreign code>"
"""Name of the file under which code that others wrote is parsed: its warnings go nowhere. Python
writes one for each ``1if x`` and the like, so that a block of code could fill a log."""

warnings.filterwarnings("ignore", module=re.escape(CODE))

_USER = re.compile(r"(//|(?<=\w):(?!//))[^\s'\"@]+@")
_WORD = re.compile(r"(?<![^\s'\"])[^\s'\"@*]+@(?=[\w\[])")
"""What is left of a user in a URL that somebody broke: the word before ``@`` and a host."""

_KEY = re.compile(r"\b(sk-|sk_|gsk_|xai-|hf_|ghp_|AKIA|AIza)[\w-]{8,}")
"""How keys of model servers and of code hosts begin."""

_QUERY = re.compile(r"([?&][\w.-]{1,40}=)[^\s'\"&]+")
_CUT_USER = re.compile(r"(://)(?=[^\s/'\"]*:[^\s/'\"]*\Z).*")
"""A URL whose end was cut off, so that no ``@`` shows whether it names a user."""


@contextlib.contextmanager
def boundary(
    error_type: type[Exception],
    what: str,
    remedy: str = "",
    *,
    named: Path | None = None,
    passes: tuple[type[Exception], ...] = (),
) -> Generator[None]:
    """Raise ``error_type`` for any exception of the block.

    ``what`` says what is required and where; ``remedy`` begins with a semicolon. A CoevolveError,
    an ``error_type`` itself, and those in ``passes`` pass unchanged. ``named`` is the file that a
    user named, and that may be misspelt.
    """
    try:
        yield
    except (CoevolveError, error_type, *passes):
        raise
    except Exception as error:
        meant = file_meant(named) if named else ""
        raise error_type(f"{what}: {described(error)}{meant}{remedy}") from error


def described(error: BaseException) -> str:
    """Return the type of an error and its message in one line."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 -- a stranger's class of errors may raise any
        said = "its message cannot be read"
    return f"{type(error).__name__}: {plain(said, DESCRIBED_CHARS)}"


def shown(value: object, most: int = SHOWN_CHARS) -> str:
    """Return a value as in Python's code, for a message: escaped, masked and cut."""
    said = _SHORT.repr(value)
    return said if len(said) <= most else f"{said[: most - 3]}..."


def plain(text: str, most: int = SHOWN_CHARS) -> str:
    """Return a text in one line, without quotes around it: escaped, masked and cut."""
    words = " ".join(masked(text[:SEARCHED_CHARS]).split())
    said = "".join(each if each.isprintable() else repr(each)[1:-1] for each in words[: most + 1])
    return said if len(said) <= most else f"{said[: most - 3]}..."


def masked(text: str) -> str:
    """Return the text's beginning with asterisks in place of keys, and of credentials in URLs."""
    text = _KEY.sub(r"\1***", text)
    if "://" not in text and "@" not in text:
        return text
    named = _WORD.sub("***@", _USER.sub(r"\1***@", text[:SEARCHED_CHARS]))
    whole = _QUERY.sub(r"\1***", named)
    return _CUT_USER.sub(r"\1***", whole) if len(text) >= SEARCHED_CHARS else whole


def resolved(path: Path) -> Path:
    """Return the absolute path behind symbolic links; of links that end nowhere, the last one.

    `Path.resolve` raises RuntimeError if links lead in a circle.
    """
    return Path(os.path.realpath(path))


def bytes_of(path: Path, most: int, *, pipe_s: float = PIPE_S) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It has more than ``most`` bytes, or no end, as a device, or is a pipe into which
            nobody writes for ``pipe_s`` seconds.
    """
    with open(path, "rb", opener=opened) as file:
        is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        content = _piped(file, most + 1, pipe_s) if is_pipe else file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it needs at most {most} bytes, found more")
    return content


@contextlib.contextmanager
def open_plain(path: Path) -> Generator[BufferedReader]:
    """Yield a plain file, open for reading.

    Raises OSError, also for a pipe, which might never open, and for a device, which may not end.
    """
    with open(path, "rb", opener=opened) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            found = "it needs to be a plain file and is a pipe or a device"
            raise OSError(errno.EINVAL, found, f"{path}")
        yield file


@contextlib.contextmanager
def native_to_errors() -> Generator[None]:
    """Send what native code prints in the block to standard error; Python's own text as well.

    A library that prints while it reads a hostile file would otherwise break a command's JSON.
    """
    with _PRINTING:
        _flush_output()
        direct = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        try:
            yield
        finally:
            _flush_output()
            os.dup2(direct, _STDOUT)
            os.close(direct)


def _flush_output() -> None:
    with contextlib.suppress(OSError, ValueError):  # a full disk or a closed pipe is told later
        sys.stdout.flush()


def check_values(document: bytes, most: int) -> None:
    """Refuse JSON of more than ``most`` values, before it is decoded. Raises ValueError."""
    found = values_in(document)
    if found > most:
        raise ValueError(f"it needs at most {most} values, found up to {found}")


def values_in(document: bytes) -> int:
    """Return at least how many values a JSON document has; each takes up to 100 bytes decoded.

    Commas and brackets in its texts are counted, too.
    """
    return sum(map(document.count, (b",", b"[", b"{")))


def opened(path: str, flags: int) -> int:
    """Open a file for reading. The usual way waits until a pipe has a writer, perhaps for ever."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def _piped(pipe: IO[bytes], most: int, pipe_s: float) -> bytes:
    """Return up to ``most`` bytes of a pipe. Raises ValueError after ``pipe_s`` without any."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    content = bytearray()
    while len(content) < most:
        if not poll.poll(1000 * pipe_s):
            raise ValueError(f"it is a pipe, and nobody wrote into it for {pipe_s:g} s")
        read = os.read(pipe.fileno(), min(most - len(content), PIPE_BYTES))
        if not read:
            break
        content += read
    return bytes(content)


class _Short(reprlib.Repr):
    """Shows any value in a bounded time."""

    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = 20
        self.maxother = SHOWN_CHARS

    def repr_int(self, x: int, level: int) -> str:
        """Return a number's digits if there are few."""
        del level
        size = x.bit_length()
        return str(x) if size <= MOST_BITS else f"a number of {size} bits"

    def repr_str(self, x: str, level: int) -> str:
        """Return a text's beginning, masked and quoted."""
        del level
        return repr(masked(x[:SEARCHED_CHARS])[: SHOWN_CHARS + 1])

    def repr_bytes(self, x: bytes, level: int) -> str:
        """Return the beginning of bytes, quoted."""
        del level
        return repr(x[: SHOWN_CHARS + 1])


_SHORT = _Short()
