import pytest

from coevolve.attach.arguments import COMMANDS, parse


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_can_answer_in_json(command: str):
    further = {
        "lineage": ["made-1"],
        "tail": ["signal"],
        "swap-synthesizer": ["--policy"],
    }
    assert parse([command, *further.get(command, ()), "--json"]).json


def test_the_argument_before_the_command_names_the_run():
    assert parse(["status"]).run is None
    arguments = parse(["runs/a", "signals", "--kind", "rare", "-n", "3"])
    assert (arguments.run, arguments.kind, arguments.last) == ("runs/a", "rare", 3)
    arguments = parse(["--address", "10.0.0.1:6379", "a", "pause", "--runs", "elsewhere"])
    assert (arguments.run, arguments.address) == ("a", "10.0.0.1:6379")
    assert arguments.runs.name == "elsewhere"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["singals"], "'singals' is no command, and no command follows it; did you mean 'signals'"),
        (["x"], "'x' is no command, and no command follows it; commands: status, signals"),
        (["signals", "-n", "-1"], "needs a count of records, found '-1'"),
        (["signals", "--kind", "odd"], "invalid choice: 'odd'"),
        (["tasks", "--origin", "odd"], "invalid choice: 'odd'"),
        (["swap-synthesizer"], "one of the arguments --policy --base-url is required"),
        (["swap-synthesizer", "--policy", "--base-url", "u"], "not allowed with argument --policy"),
    ],
)
def test_an_invalid_command_line_is_refused(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as left:
        parse(argv)
    assert left.value.code == 2
    assert words in capsys.readouterr().err
