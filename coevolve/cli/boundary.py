"""Runs every command; turns errors into one message and an exit code, never a traceback."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from coevolve.base.foreign import DESCRIBED_CHARS, plain
from coevolve.base.import_guard import guard_imports
from coevolve.base.visible import visible_output
from coevolve.environments.cache_folder import compiled_kernels
from coevolve.launcher.interrupts import INTERRUPTED, LOST, raise_when_interrupted
from protocols.errors import CoevolveError, LostError

HELP = ("-h", "--help")

MOST_CHARS = 8_000
"""Maximum characters of a message, which may quote an argument of any length."""


def carried_out(command: click.Command, words: Sequence[str], name: str) -> int:
    """Execute a command line; return the exit code.

    If the command returns a number, that is the exit code. Whatever it prints is made visible. Log
    lines go to standard error, unless the command sends them elsewhere.
    """
    _open_closed_streams()
    with visible_output():
        return _carried_out(command, words, name)


def _carried_out(command: click.Command, words: Sequence[str], name: str) -> int:
    try:
        raise_when_interrupted()
        _guard_imports()
        if not set(HELP) & set(words):  # help is shown without loading what logs
            from coevolve.parts import logs

            logs.to_errors()
        for variable, value in compiled_kernels().items():
            os.environ.setdefault(variable, value)
        answer = _answer(command, words, name)
        sys.stdout.flush()
    except click.NoSuchOption as error:
        told = click.UsageError(
            f"{error.format_message().rstrip('.')}{_place_of(error)}", error.ctx
        )
        told.show()
        return told.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {_cut(str(error))}\n")
        return LOST if isinstance(error, LostError) else 1
    except BrokenPipeError:
        _close_output()
        return INTERRUPTED
    except (OSError, UnicodeEncodeError) as error:  # for example, the output is on a full disk
        _close_output()
        sys.stderr.write(f"coevolve: the machine refused: {_refusal(error)}\n")
        return 1
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("coevolve: interrupted\n")
        return INTERRUPTED
    return answer if isinstance(answer, int) else 0


def _answer(command: click.Command, words: Sequence[str], name: str) -> object:
    """Return what the command returns. Raises what it raises."""
    output = sys.stdout
    try:
        return command.main(
            list(words), prog_name=name, standalone_mode=False, help_option_names=list(HELP)
        )
    except SystemExit as error:
        if sys.stdout is output:
            raise
        raise BrokenPipeError from error  # click replaces the output and exits with 1


def _open_closed_streams() -> None:
    """Open each standard stream that this process was started without; it leads nowhere.

    The lowest number that is free is the stream's. Otherwise the next file that is opened would
    get it, and what native code prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _guard_imports() -> None:
    """Import nothing from the working folder. Raises CoevolveError if that folder was removed."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise CoevolveError("the working folder was removed; cd into one that exists") from error
    guard_imports()


def _place_of(error: click.NoSuchOption) -> str:
    """Return a hint for an option in the wrong place; empty if there is none."""
    command = error.ctx.command if error.ctx else None
    if isinstance(command, click.Group) and not error.possibilities:
        return "; the options of a command stand behind its name"
    takes_settings = command and any(each.name == "overrides" for each in command.params)
    if takes_settings and "." in error.option_name:
        return f"; a setting is given without dashes: {error.option_name.lstrip('-')}=VALUE"
    return ""


def _close_output() -> None:
    """Discard buffered output, because nothing can take it any more."""
    with contextlib.suppress(io.UnsupportedOperation):  # a caller in Python may take the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refusal(error: OSError | UnicodeEncodeError) -> str:
    """Return what the machine refused, and the remedy."""
    if isinstance(error, UnicodeEncodeError):  # of a library that is given a path
        return f"{plain(repr(error.object))} is not text in UTF-8; give a path that is"
    return f"{plain(str(error), DESCRIBED_CHARS)}; free space or grant access"


def _cut(message: str) -> str:
    """Return a message without the end of what it quotes."""
    return message if len(message) <= MOST_CHARS else f"{message[:MOST_CHARS]}..."
