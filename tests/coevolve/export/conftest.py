from collections.abc import Callable

import pytest

from coevolve.export.__main__ import main

Export = Callable[..., str]
"""Runs the command and returns what it printed; raises AssertionError where it is refused."""

Refusal = Callable[..., str]
"""Runs the command and returns why it is refused."""


@pytest.fixture
def export(capsys: pytest.CaptureFixture[str]) -> Export:
    def run(*words: object) -> str:
        status = main([str(word) for word in words])
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Refusal:
    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 1
        return capsys.readouterr().err

    return run
