"""How commands end: one exit code and at most one message for whatever happens in them."""

import errno

import click
import pytest

from coevolve.cli.boundary import carried_out
from protocols.errors import CoevolveError, LostError, RunError
from tests.commands import ended


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (3, 3, ""),
        ("a text", 0, ""),
        (RunError("no such run"), 1, "coevolve: no such run\n"),
        (CoevolveError("\x1b[2J"), 1, "coevolve: \\u001b[2J\n"),
        (LostError("the node left"), 75, "coevolve: the node left\n"),
        (KeyboardInterrupt(), 130, "\ncoevolve: interrupted\n"),
        (click.Abort(), 130, "coevolve: interrupted\n"),
        (BrokenPipeError(), 130, ""),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            1,
            "coevolve: the machine refused: [Errno 28] No space left on device; free space or "
            "grant access\n",
        ),
    ],
)
def test_each_end_of_a_command_has_its_exit_code_and_message(ending: object, code: int, said: str):
    @click.command()
    def command() -> object:
        if isinstance(ending, BaseException):
            raise ending
        return ending

    answer = ended(lambda: carried_out(command, (), "coevolve"))
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", said)


def test_a_message_of_any_length_is_cut():
    @click.command()
    def command() -> None:
        raise RunError("x" * 100_000)

    answer = ended(lambda: carried_out(command, (), "coevolve"))
    assert answer.returncode == 1
    assert 5_000 < len(answer.stderr) < 10_000
