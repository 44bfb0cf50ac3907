"""Where every command ends: one message and an exit code, never a traceback."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from coevolve.launcher.interrupts import INTERRUPTED, end_within
from protocols.errors import CoevolveError

PATIENCE_S = 8.0
"""How long an interrupted command may take to end by itself."""


def carried_out(command: click.Command, words: Sequence[str], name: str) -> int:
    """Carry out a command line; return the exit code.

    What a command returns, if it returns a number, is its exit code.
    """
    _end_when_interrupted()
    if str(Path.cwd()) not in sys.path:  # environments of one's own, as `python -m` finds them
        sys.path.insert(0, str(Path.cwd()))
    try:
        answer = command.main(
            list(words), prog_name=name, standalone_mode=False, help_option_names=["-h", "--help"]
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return 1
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("coevolve: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _close_output()
        return INTERRUPTED
    return answer if isinstance(answer, int) else 0


def _end_when_interrupted() -> None:
    """Let the first SIGINT or SIGTERM raise, and end the process if that does not end it."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        end_within(PATIENCE_S, "interrupted")
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)


def _close_output() -> None:
    """Send what is still buffered to nobody: the reader of this process's output has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
