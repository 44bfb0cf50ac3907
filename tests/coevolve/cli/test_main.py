"""The one command: help at every level, names that are nearly right, completion, interrupts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import coevolve
from coevolve.cli.main import COMMANDS
from coevolve.cli.main import coevolve as root
from tests.commands import ROOT, answered, called

HEAVY = {"ray", "torch", "transformers", "vllm", "pyslang", "actors"}


def paths(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*before, name)
        if isinstance(command, click.Group):
            yield from paths(command, (*before, name))


def found(path: tuple[str, ...]) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        child = command.get_command(click.Context(command), name)
        assert child is not None
        command = child
    return command


PATHS = sorted(paths(root))


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_explains_itself_and_its_options(path: tuple[str, ...]):
    words = ("export", "RUN", *path[1:]) if path[0] == "export" and path[1:] else path
    answer = answered(*words, "--help")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("Usage: coevolve ")
    assert "\\b" not in answer.stdout
    assert "\b" not in answer.stdout
    command = found(path)
    assert command.help
    assert all(each.help for each in command.params if isinstance(each, click.Option)), path


def test_the_listing_names_every_command_with_its_description():
    listed = " ".join(answered("--help").stdout.split())
    assert {path[0] for path in PATHS} == {*COMMANDS, "hdl"}
    for name, description in COMMANDS.items():
        assert f" {name} {description} " in listed
    assert " hdl adopt, simulate, " in listed


def test_the_program_alone_names_a_first_command():
    answer = answered()
    assert "Begin with: coevolve launch quickstart" in answer.stdout + answer.stderr


def test_help_loads_nothing_heavy():
    levels = [path for path in PATHS if path[0] != "export" or len(path) == 1]
    code = (
        "import sys\n"
        "from coevolve.cli.main import main\n"
        f"for path in {levels!r}:\n"
        "    main([*path, '--help'])\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stderr.split())


def test_the_log_lines_of_a_command_stand_beside_its_results():
    code = (
        "import click, structlog\n"
        "from coevolve.cli.boundary import carried_out\n"
        "log = structlog.get_logger()\n"
        "@click.command()\n"
        "def command():\n"
        "    log.warning('world_made')\n"
        "    log.warning('world_made')\n"
        "    print('result')\n"
        "carried_out(command, [], 'it')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "result\n"
    assert done.stderr.count("world_made") == 1


def test_the_version_is_the_packages():
    assert answered("--version").stdout == f"coevolve {coevolve.__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lauch"], "no such command 'lauch'; did you mean 'launch'?"),
        (["frobnicate"], "no such command 'frobnicate'; commands: start, launch, resume, "),
        (["export", "run", "merge"], "there is no export 'merge'; did you mean 'merged'?"),
        (["docs", "operation"], "there is no page 'operation'; did you mean 'operations'?"),
        (["launch"], "Missing argument 'FILE'"),
        (["launch", "quickstart", "--resum"], "No such option"),
        (["--runs", "r", "launch", "quickstart"], "the options of a command stand behind its name"),
        (
            ["launch", "quickstart", "--learner.steps=2"],
            "a setting is given without dashes: learner.steps=VALUE",
        ),
        (["evaluate", "trial", "--version", "foo"], "needs a number, newest or best, found 'foo'"),
        (["evaluate", "--endpoint", "here", "--model", "m"], "needs a URL such as http://127.0"),
        (["attach", "status", "trial"], "(trial); a run's name stands before 'status'"),
    ],
)
def test_a_command_line_that_is_nearly_right_is_answered_with_what_was_meant(
    words: list[str], said: str
):
    answer = answered(*words)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert not answer.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_runs(shell: str, tmp_path: Path):
    assert "_COEVOLVE_COMPLETE" in answered("completion", shell).stdout
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "run.json").write_text("{}")
    words = f"coevolve report --runs {tmp_path} tri"
    done = subprocess.run(
        [sys.executable, "-c", "from coevolve.cli.main import main; main()"],
        env=os.environ
        | {
            "_COEVOLVE_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": "tri" if shell == "fish" else "4",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "trial" in done.stdout, done.stderr


def test_the_promised_module_is_the_command():
    for words in (("launch", "--help"), ("attach", "--help"), ("attach", "tail", "--help")):
        name, *more = words
        module = subprocess.run(
            [sys.executable, "-m", f"coevolve.{name}", *more],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        command = called(*words)
        assert module.returncode == command.returncode == 0
        usage = f"python -m coevolve.{name}"
        unwrapped = (module.stdout.replace(usage, f"coevolve {name}").split(), command.stdout)
        assert unwrapped[0] == unwrapped[1].replace("python -m coevolve", "coevolve").split()


def test_a_closed_pipe_ends_a_command_quietly():
    done = subprocess.run(
        f"{sys.executable} -m coevolve docs results --raw | head -1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("# ")
    assert not done.stderr


@pytest.mark.parametrize("words", [("--help",), ("config", "list"), ("docs", "results", "--raw")])
def test_a_command_whose_reader_has_gone_is_interrupted(words: tuple[str, ...]):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", *words], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (130, b"")


@pytest.mark.parametrize(
    ("closed", "prints"),
    [(">&-", False), ("2>&-", True), ("<&-", True), ("<&- >&- 2>&-", False)],
)
def test_a_command_works_without_standard_streams(closed: str, *, prints: bool):
    done = subprocess.run(
        f"{sys.executable} -m coevolve config show quickstart --resolved {closed}",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("name: quickstart" in done.stdout) == prints


def catches_termination(pid: int) -> bool:
    """Return whether the command has begun: Python itself does not catch SIGTERM."""
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends_soon_without_a_traceback(number: signal.Signals):
    process = subprocess.Popen(
        [sys.executable, "-m", "coevolve", "calibrate", "--histories", "200000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not catches_termination(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.strip() == "coevolve: interrupted"


def test_an_output_that_cannot_be_written_is_told_in_a_sentence():
    done = subprocess.run(
        f"{sys.executable} -m coevolve docs results --raw > /dev/full",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("coevolve: the machine refused: [Errno 28] No space left on")
    assert done.stderr.count("\n") == 1


def test_a_removed_working_folder_is_named(tmp_path: Path):
    folder = tmp_path / "gone"
    folder.mkdir()
    done = subprocess.run(
        f"rmdir {folder}; {sys.executable} -m coevolve config list",
        shell=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == ("coevolve: the working folder was removed; cd into one that exists\n")


def test_a_module_of_the_working_folder_hides_none_of_the_standard_library(tmp_path: Path):
    (tmp_path / "json.py").write_text("raise SystemExit('not the json that was meant')")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path[:] = sys.path[1:]; from coevolve.cli.main import main; "
            "sys.exit(main(['config', 'check', 'quickstart']))",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_terminal_without_a_character_gets_an_escape_in_its_place():
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", "docs", "figures"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert r"\xb1" in done.stdout
