from collections.abc import Callable

import pytest

from coevolve.export.__main__ import main

Export = Callable[..., str]
"""Runs the command and returns its output; raises AssertionError if the command fails."""

Refusal = Callable[..., str]
"""Runs the command, which must fail, and returns its error message."""


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
