from click.testing import CliRunner

from coevolve.cli.setup import command
from coevolve.environments.registry import BUILT_IN
from tests.commands import answered


def test_without_a_name_each_environment_is_listed_with_what_it_needs():
    said = CliRunner().invoke(command, [])
    assert said.exit_code == 0
    lines = said.output.splitlines()
    assert [line.partition(":")[0] for line in lines[: len(BUILT_IN)]] == list(BUILT_IN)
    assert all(": ready" in line or "run `coevolve setup " in line for line in lines)


def test_an_environment_that_is_ready_stays_as_it_is():
    said = CliRunner().invoke(command, ["tests.own.sums:Sums"])
    assert said.output == "tests.own.sums:Sums: ready\n"


def test_an_unknown_environment_is_refused_with_those_there_are():
    said = answered("setup", "filesytem")
    assert said.returncode == 1
    assert "did you mean 'filesystem'?" in said.stderr
