"""The commands that stay with a run: of one that is detached, and of one that is kept going."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.cli import detached, keeping
from coevolve.runs import starting
from protocols.config import RunConfig
from tests.commands import answered

OVERRIDE = "learner.steps=3"


@pytest.fixture
def staying(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that would be started, in place of starting them."""
    commands: list[Sequence[str]] = []

    def detach(
        config: RunConfig, runs: Path, words: Sequence[str], screen: object, *, resume: bool
    ) -> None:
        commands.append(words)

    def keep(
        config: RunConfig, path: Path, words: Callable[[bool], Sequence[str]], **options: Any
    ) -> int:
        commands.extend((words(False), words(True)))
        return 75

    monkeypatch.setattr(detached, "detach", detach)
    monkeypatch.setattr(keeping, "keep", keep)
    return commands


@pytest.mark.parametrize("keep", [True, False])
def test_a_detached_run_is_kept_going_by_its_own_process(
    staying: list[Sequence[str]], tmp_path: Path, keep: bool
):
    words = ("launch", "quickstart", OVERRIDE, "--runs", str(tmp_path))
    answer = answered(*words, "--detach", *["--keep"] * keep)
    assert answer.returncode == 0, answer.stderr
    assert staying == [(*words, "--resume", *["--keep"] * keep)]


def test_a_run_that_is_kept_going_resumes_with_the_same_settings(
    staying: list[Sequence[str]], tmp_path: Path
):
    words = ("launch", "quickstart", OVERRIDE, "--runs", str(tmp_path))
    assert answered(*words, "--keep").returncode == 75
    assert staying == [words, (*words, "--resume")]


@pytest.mark.parametrize("keep", [True, False])
def test_a_run_that_is_resumed_without_a_terminal_is_kept_going_there(
    staying: list[Sequence[str]], tmp_path: Path, keep: bool, quickstart: RunConfig
):
    starting.create(tmp_path / quickstart.name, quickstart)
    words = ("resume", quickstart.name, OVERRIDE, "--runs", str(tmp_path))
    answer = answered(*words, "--detach", *["--keep"] * keep)
    assert answer.returncode == 0, answer.stderr
    assert staying == [(*words, *["--keep"] * keep)]
