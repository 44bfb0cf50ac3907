"""The program of the interpreter, which runs a policy's code: standard library, and clock packages.

`coevolve.environments.appworld.interpreter` sends this file as text to a plain Python in the
sandbox; it knows nothing of coevolve, of AppWorld, or of a task. Frames come and go over the
descriptors that were its standard streams: four bytes with a length, little-endian, and that much
JSON.

Before the first block it imports what blocks may import, and then seals itself
(`coevolve.environments.sandbox.seccomp.seal`): from then on nothing here can open a file, make a
process or a thread, or signal anybody, however the policy's code goes about it. What the code
changes in this process harms only its own later blocks, because the owner believes nothing that
comes from here: a call is checked there, and an output is text that the code could have printed.

The texts of outputs and errors are those of AppWorld's own engine (`AppWorld.execute`), whose
rules are written again here.
"""

import ast
import builtins
import contextlib
import ctypes
import gc
import importlib
import io
import json
import linecache
import os
import pkgutil
import re
import signal
import struct
import sys
import traceback
from typing import Any, NoReturn

FILE = "<python-input>"
LENGTH = struct.Struct("<I")
STATUS = "422: "
STACK = 991
"""Limit on frames that lets a block recurse as deep as in the engine's shell."""

FAILED = "Execution failed. Traceback:\n"
CUT = "\n[The rest of the output was cut.]"
NO_NEW_PRIVS, SET_SECCOMP, MODE_FILTER = 38, 22, 2
MOST_FILES = 1024
CHUNK = 1 << 16
ERRORS = (Exception, TypeError, ValueError, KeyError, AttributeError, AssertionError, IndexError)
"""The errors of a call that keep their class."""

_read, _write, _exit = os.read, os.write, os._exit
"""Held, because blocks find these functions disabled."""


class Channel:
    """Frames to and from the owner."""

    def __init__(self) -> None:
        """Take the standard streams over, and close every other descriptor."""
        self.read_fd, self.write_fd = 100, 101
        os.dup2(0, self.read_fd)
        os.dup2(1, self.write_fd)
        os.closerange(3, self.read_fd)
        os.closerange(self.write_fd + 1, MOST_FILES)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        self.turn = 0
        self._held = bytearray()
        self._owed = 0
        """Answers that a block did not wait for, because its time was over."""

    def receive(self) -> dict[str, Any]:
        """Return the next message. The process ends if there is none.

        If a block's time ends meanwhile, what has come of the message is kept.
        """
        self._hold(LENGTH.size)
        end = LENGTH.size + LENGTH.unpack_from(self._held)[0]
        self._hold(end)
        content = bytes(self._held[LENGTH.size : end])
        del self._held[:end]
        return json.loads(content)

    def order(self) -> dict[str, Any]:
        """Return the next message that is no late answer. The process ends if there is none."""
        while self._owed:
            self.receive()
            self._owed -= 1
        return self.receive()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises what JSON raises on values that it does not know."""
        content = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
        left = LENGTH.pack(len(content)) + content
        while left:
            left = left[_write(self.write_fd, left) :]

    def call(self, app: str, api: str, arguments: dict[str, Any]) -> Any:
        """Return an API's answer. Raises Exception with the engine's text."""
        self.send(
            {"type": "call", "turn": self.turn, "app": app, "api": api, "arguments": arguments}
        )
        self._owed += 1
        while self._owed > 1:
            self.receive()
            self._owed -= 1
        answer = self.receive()
        self._owed = 0
        if "error" in answer:
            kind = getattr(builtins, answer["kind"], Exception)
            raise (kind if kind in ERRORS else Exception)(answer["error"])
        return answer["value"]

    def _hold(self, size: int) -> None:
        while len(self._held) < size:
            chunk = _read(self.read_fd, CHUNK)
            if not chunk:
                _exit(0)
            self._held += chunk


class UnknownNameError(Exception):
    """The engine's error for an app or API that does not exist; it has a status code."""

    def __str__(self) -> str:
        return f"{STATUS}{self.args[0]}"


UnknownNameError.__module__, UnknownNameError.__qualname__ = "builtins", "Exception"


class Members(dict[str, Any]):
    """Names that are attributes and keys, with the engine's error for an unknown one."""

    _unknown: str

    def __getattr__(self, name: str) -> Any:
        """Return a member. Raises Exception."""
        if name in self:
            return self[name]
        raise UnknownNameError(self._unknown.format(name=name))


def members(unknown: str, held: dict[str, Any]) -> Members:
    """Return names, each kind with its own error text."""
    kind = type("Members", (Members,), {"_unknown": unknown})
    return kind(held)


def proxy(channel: Channel, apps: dict[str, list[str]]) -> Members:
    """Return ``apis``: app -> API -> a function that calls it."""

    def wrapped(app: str, api: str) -> Any:
        def request(**arguments: Any) -> Any:
            return channel.call(app, api, arguments)

        request.__name__ = "_api_request"
        request.__qualname__ = "_wrap_api_request.<locals>._api_request"
        return request

    return members(
        "No app named '{name}' found.",
        {
            app: members(
                f"No API named '{{name}}' found in the {app} app.",
                {api: wrapped(app, api) for api in apis},
            )
            for app, apis in apps.items()
        },
    )


class Output(io.TextIOBase):
    """Standard output of one block, of which a bounded part is kept."""

    def __init__(self, most_chars: int) -> None:
        self.parts: list[str] = []
        self.left = most_chars
        self.cut = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Keep the text as far as there is room for it."""
        if self.left:
            self.parts.append(text[: self.left])
        self.cut = self.cut or len(text) > self.left
        self.left = max(0, self.left - len(text))
        return len(text)

    def text(self) -> str:
        """Return what was written."""
        return "".join(self.parts) + CUT * self.cut


PRELUDE = """
import builtins, calendar, datetime, itertools, json, math, random, re
from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
"""
SHELL = (
    "\n" * 25
    + """def print(*args, **kwargs):
    if len(args) == 1 and not kwargs and isinstance(args[0], (dict, list, tuple)):
        indent = 1 if len(json.dumps(args[0])) >= 100 else None
        builtins.print(json.dumps(args[0], indent=indent))
    else:
        builtins.print(*args, **kwargs)

def input(*args, **kwargs):
    raise Exception("input(..) is not allowed. All decisions must be made autonomously.")
"""
)
"""Functions of the engine's shell that differ from Python's. Tracebacks show their lines, so the
lines are numbered as there."""

CLOCK_PRELUDE = """
import pendulum
from pendulum import MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY
from pendulum import Date, DateTime, Time
pendulum.now().format("dddd, MMMM Do")
"""
"""The last line lets pendulum read the files of time zone and language that it needs later."""


class Shell:
    """Runs blocks of code, one after another, over the same variables."""

    def __init__(self, channel: Channel, hello: dict[str, Any]) -> None:
        self.channel = channel
        self.modules: list[str] = hello["modules"]
        self.functions: list[str] = hello["functions"]
        self.guard: dict[str, Any] = {}
        exec(hello["guard"], self.guard)  # noqa: S102, a file of the owner's
        self.output_chars: int = hello["output_chars"]
        self.block_s: float = hello["block_s"]
        self.number = 0
        self.names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
        sys.path[:0] = hello["folders"]
        for module in self.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        exec(PRELUDE + CLOCK_PRELUDE * bool(hello["now"]), self.names)  # noqa: S102
        if hello["now"]:
            load_whole("pendulum")
        exec(compile(SHELL, named(SHELL, 0), "exec"), self.names)  # noqa: S102
        self.names["apis"] = proxy(channel, hello["apps"])
        freeze(hello["now"])
        for path in self.functions:
            disable(path)
        builtins.SystemExit = Exception  # pyright: ignore[reportAttributeAccessIssue]
        sys.setrecursionlimit(STACK)

    def run(self, code: str) -> str:
        """Return the observation of a block."""
        code = code.strip()
        if not code:
            return "No code available to execute."
        try:
            tree = ast.parse(code)
        except SyntaxError as error:
            line = (error.text or "").rstrip()
            return f"{FAILED}Syntax error in line:\n{line}\nMessage: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f"{FAILED}{type(error).__name__}: {error}"
        if refusal := self.guard["refusal"](tree, self.modules, self.functions):
            return f"{FAILED}{refusal}"
        self.number += 1
        return self._executed(tree, named(code, self.number))

    def _executed(self, tree: ast.Module, name: str) -> str:
        output = Output(self.output_chars)
        kept = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = output, Output(0)
        signal.signal(signal.SIGALRM, self._out_of_time)
        signal.setitimer(signal.ITIMER_REAL, self.block_s, 1.0)
        try:
            for node in tree.body:
                exec(compile(ast.Module([node], []), name, "exec"), self.names)  # noqa: S102
        except BaseException as error:  # noqa: BLE001, whatever the policy's code raises
            signal.setitimer(signal.ITIMER_REAL, 0)
            return (FAILED + told(error))[: self.output_chars]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.stdout, sys.stderr = kept
        text = output.text()
        return text if text.strip() else "Execution successful."

    def _out_of_time(self, *_: object) -> NoReturn:
        raise Exception(  # noqa: TRY002, the engine's own
            f"Execution timed out after {self.block_s:g} seconds."
        )


def load_whole(package: str) -> None:
    """Import a package's modules, which it would import when it needs them."""
    folders = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folders, f"{package}."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)


def named(code: str, number: int) -> str:
    """Return the file name of a block, under which tracebacks find its lines."""
    name = f"<python-input-{number}>"
    linecache.cache[name] = (len(code), None, [f"{line}\n" for line in code.splitlines()], name)
    return name


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def disable(path: str) -> None:
    """Let a function do nothing, as in the engine; but opening a file is an error."""
    *parts, name = path.split(".")
    with contextlib.suppress(ImportError, AttributeError):
        module: Any = importlib.import_module(parts[0])
        for part in parts[1:]:
            module = getattr(module, part)
        getattr(module, name)
        if name != "open":
            setattr(module, name, nothing)


def told(error: BaseException) -> str:
    """Return the traceback as the engine shows it: from the first line of a block, blocks alone."""
    try:
        whole = "".join(traceback.TracebackException.from_exception(error).format())
        return shortened(whole.splitlines())
    except BaseException as second:  # noqa: BLE001, an error that cannot be told, or no memory
        return f"{type(error).__name__} ({type(second).__name__} while it was shown)"


def shortened(lines: list[str]) -> str:
    """Return the lines without the frames of other files than blocks."""
    kept: list[str] = []
    own = False
    for line in lines:
        if line.startswith("  "):
            if place := re.match(r' +File "(.*?)", line \d+, in .+', line):
                own = place[1].startswith("<python-input-")
            if not own:
                continue
        kept.append(line)
    first = next((index for index, line in enumerate(kept) if "<python-input-" in line), 0)
    text = re.sub(r'File "<python-input-\d+>"', f'File "{FILE}"', "\n".join(kept[first:]))
    return text.replace(f"Exception: {STATUS}", "Exception: ")


def freeze(now: str) -> None:
    """Stop the clock at ``now``, if given."""
    if now:
        freezegun: Any = importlib.import_module("freezegun")
        freezegun.freeze_time(now).start()


def seal(program: bytes) -> None:
    """Let this process compute, and nothing else. The process ends if that is impossible."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.c_char_p))

    filters = Program(len(program) // 8, program)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    if prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(
        SET_SECCOMP, MODE_FILTER, ctypes.addressof(filters), 0, 0
    ):
        _exit(1)


def main() -> NoReturn:
    """Run blocks until the owner closes the channel."""
    channel = Channel()
    hello = channel.receive()
    shell = Shell(channel, hello)
    gc.collect()
    seal(bytes.fromhex(hello["seal"]))
    channel.send({"type": "ready"})
    while True:
        order = channel.order()
        channel.turn = order["turn"]
        output = shell.run(order["code"]).encode(errors="replace").decode()
        channel.send({"type": "done", "turn": channel.turn, "output": output})


if __name__ == "__main__":
    main()
