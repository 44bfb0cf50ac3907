"""The command line of attach: choice run is meant, and what is refused."""

import pytest

from coevolve.cli.attach import command
from coevolve.cli.attach_views import run_choice as opening
from coevolve.cli.attach_views.run_choice import RunChoice
from tests.commands import answered


def meant(monkeypatch: pytest.MonkeyPatch, *words: str) -> RunChoice:
    """Return choice run a command line is about."""
    found: list[RunChoice] = []

    def carry_out(choice: RunChoice, act: object, *, join: bool) -> None:
        found.append(choice)

    monkeypatch.setattr(opening, "carry_out", carry_out)
    answer = answered("attach", *words)
    assert answer.returncode == 0, answer.stderr
    (choice,) = found
    return choice


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_command_has_an_answer_for_programs(name: str, monkeypatch: pytest.MonkeyPatch):
    further = {
        "lineage": ["made-1"],
        "tail": ["signal"],
        "swap-synthesizer": ["--policy"],
        "scale": ["rollout=3"],
    }
    assert meant(monkeypatch, name, *further.get(name, ()), "--json").run is None


def test_the_word_before_the_command_is_the_run(monkeypatch: pytest.MonkeyPatch):
    assert meant(monkeypatch, "status").run is None
    assert meant(monkeypatch, "runs/a", "signals", "--kind", "rare", "-n", "3").run == "runs/a"
    choice = meant(
        monkeypatch, "--address", "10.0.0.1:6379", "a", "pause", "--json", "--runs=elsewhere"
    )
    assert (choice.run, choice.address, choice.runs.name) == ("a", "10.0.0.1:6379", "elsewhere")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["statu"], "there is no command 'statu'; did you mean 'status'?"),
        (["x"], "a command has to follow the run 'x', one of status, watch, signals, "),
        (["a", "singals"], "no such command 'singals'; did you mean 'signals'"),
        (["signals", "-n", "-1"], "-1 is not in the range x>=0"),
        (["signals", "--kind", "odd"], "'odd' is not one of"),
        (["tasks", "--origin", "odd"], "'odd' is not one of"),
        (["scale", "simulator=2"], "needs rollout=N with a whole number of at least 1, found"),
        (["scale", "rollout=0"], "needs rollout=N with a whole number of at least 1, found"),
        (["swap-synthesizer"], "give either --policy or --base-url URL"),
        (["swap-synthesizer", "--policy", "--base-url", "http://u"], "give either --policy or"),
        (["swap-synthesizer", "--base-url", "ftp://u"], "needs a URL such as http://127.0.0.1"),
        (["swap-synthesizer", "--policy", "--weights", "old"], "'old' is not one of 'start'"),
    ],
)
def test_a_command_line_without_meaning_is_refused(words: list[str], said: str):
    answer = answered("attach", *words)
    assert answer.returncode == 2
    assert said in answer.stderr
