from collections.abc import Callable

import pytest

from tests.commands import answered

Export = Callable[..., str]
"""Runs the command and returns its output; raises AssertionError if the command fails."""

Refusal = Callable[..., str]
"""Runs the command, which must fail, and returns its error message."""


@pytest.fixture
def export() -> Export:
    def run(*words: object) -> str:
        answer = answered("export", *map(str, words))
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


@pytest.fixture
def refusal() -> Refusal:
    def run(*words: object) -> str:
        answer = answered("export", *map(str, words))
        assert answer.returncode == 1
        return answer.stderr

    return run
