"""The interpreter: what it shows, and what blocks of code cannot do in it."""

import contextlib
import dataclasses
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from coevolve.environments.appworld.frames import Answered, Called, Refused
from coevolve.environments.appworld.interpreter import Interpreter, Settings
from coevolve.environments.appworld.place import plain_python
from coevolve.environments.appworld.program import CUT
from coevolve.environments.sandbox.levels import SandboxLevel
from coevolve.environments.sandbox.runner import Sandbox
from protocols.errors import DependencyError, SimulatorError
from tests.coevolve.environments.appworld.hostile_blocks import BREAKS, HEAD, LEAVES, MODULES

APPS = {"notes": ("show", "login"), "phone": ("call",)}
SECRET_WORD = f"secret-{secrets.token_hex(8)}"
TALL = 20_000 + len(CUT)
READABLE_BY_ALL = (plain_python(), Path("/usr/bin/python3"))
Run = Callable[[str], str]


class Apps:
    """Answers calls and keeps them."""

    def __init__(self) -> None:
        self.calls: list[Called] = []

    def answer(self, call: Called) -> Answered | Refused:
        self.calls.append(call)
        arguments = bytes(call.arguments)
        if b"fail" in arguments:
            return Refused(error="Response status code is 422:\n{}")
        return Answered(value=msgspec.Raw(b'{"echo": %s}' % arguments))


def readable(path: Path) -> bool:
    asked = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    command = [*asked, "env", str(path), "-c", ""]
    done = subprocess.run(command, check=False, capture_output=True)
    return os.geteuid() != 0 or not done.returncode


def python_for(level: SandboxLevel) -> Path:
    """Return a Python that the sandbox's user can read; skip where there is none."""
    if level == "namespaces":
        return plain_python()
    for path in READABLE_BY_ALL:
        if path.exists() and readable(path):
            return path
    pytest.skip("only root can read the Python of this machine")


@pytest.fixture(scope="module", params=("namespaces", "seccomp"))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return Sandbox([Path(sys.base_prefix)], request.param)
    except DependencyError as error:
        pytest.skip(f"this machine lacks the level {request.param}: {error}")


@pytest.fixture(scope="module")
def strongest() -> Sandbox:
    found = Sandbox([Path(sys.base_prefix)])
    if found.level == "limits":
        pytest.skip("this machine lacks the levels namespaces and seccomp")
    return found


@pytest.fixture
def apps() -> Apps:
    return Apps()


@pytest.fixture
def interpreter(sandbox: Sandbox) -> Iterator[Interpreter]:
    opened = Interpreter(sandbox, settings(sandbox))
    yield opened
    opened.close()


def settings(sandbox: Sandbox) -> Settings:
    return Settings(
        apps=APPS,
        modules=MODULES,
        block_s=1.0,
        memory_mb=300,
        calls=20,
        python=python_for(sandbox.level),
    )


@pytest.fixture
def run(interpreter: Interpreter, apps: Apps) -> Run:
    return lambda code: interpreter.run(code, apps.answer)


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that everybody may read and write, with a secret."""
    folder = Path(tempfile.mkdtemp(prefix="outside_"))
    (folder / "secret.txt").write_text(SECRET_WORD)
    (folder / "secret_module.py").write_text(f"print({SECRET_WORD!r})")
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_variables_stay_and_outputs_are_the_engines(run: Run) -> None:
    assert run("x = [1, 2]\ndef double(y):\n    return 2 * y") == "Execution successful."
    assert run("print(x); print(double(21), 'and', sep='-')") == "[1, 2]\n42-and\n"
    assert run("print({'a': [1, None, True]})") == '{"a": [1, null, true]}\n'
    assert run(f"print([{'1, ' * 40}])").startswith("[\n 1,\n 1,\n")
    assert run("x") == run("print('  ')") == "Execution successful."
    assert run(" \n ") == "No code available to execute."
    assert run("import sys; print('seen'); print('unseen', file=sys.stderr)") == "seen\n"


def test_errors_show_the_lines_of_blocks_alone(run: Run) -> None:
    assert run("def f(x):\n    return 1 / x") == "Execution successful."
    assert run("print('lost')\nimport json\njson.loads('{')").endswith(
        "File \"<python-input>\", line 3, in <module>\n    json.loads('{')\n"
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)"
    )
    assert run("f(0)") == (
        'Execution failed. Traceback:\n  File "<python-input>", line 1, in <module>\n    f(0)\n'
        '  File "<python-input>", line 2, in f\n    return 1 / x\n           ~~^~~\n'
        "ZeroDivisionError: division by zero"
    )
    assert run("x = = 1") == (
        "Execution failed. Traceback:\nSyntax error in line:\nx = = 1\nMessage: invalid syntax"
    )
    assert run("import nowhere, elsewhere.x").endswith(
        "Usage of the following modules is not allowed: elsewhere and nowhere."
    )


def test_calls_are_answered_refused_and_counted(run: Run, apps: Apps) -> None:
    assert run("print(apis.notes.show(a=[1, 'x'], b=None))") == (
        '{"echo": {"a": [1, "x"], "b": null}}\n'
    )
    failed = run("apis.notes.show(fail=1)")
    assert failed.endswith("Exception: Response status code is 422:\n{}")
    assert "apis.notes.show(fail=1)" in failed
    assert run("apis.mail").endswith("Exception: No app named 'mail' found.")
    assert run("apis.notes.send()").endswith(
        "Exception: No API named 'send' found in the notes app."
    )
    assert len(apps.calls) == 2
    counted = run("for n in range(30):\n    apis.notes.show(n=n)")
    assert "Exception: Number of requests exceeded the limit of 20." in counted
    assert len(apps.calls) == 22


def test_a_late_answer_is_no_answer_to_a_later_call_or_block(
    strongest: Sandbox, apps: Apps
) -> None:
    def late(call: Called) -> Answered | Refused:
        if b"late" in bytes(call.arguments):
            time.sleep(0.6)
        return apps.answer(call)

    limits = Settings(python=plain_python(), apps=APPS, modules=("time",), block_s=0.5)
    interpreter = Interpreter(strongest, limits)
    caught = "kept = 1\ntry:\n    apis.notes.show(a='late')\nexcept Exception as error:\n"
    assert "timed out" in interpreter.run(f"{caught}    print(error)", late)
    assert interpreter.run("print(kept, apis.notes.show(a='next'))", late) == (
        "1 {'echo': {'a': 'next'}}\n"
    )
    shown = interpreter.run(f"{caught}    print(apis.notes.show(a='same'))", late)
    assert shown == '{"echo": {"a": "same"}}\n'
    interpreter.close()


def test_a_process_that_ends_is_replaced_and_its_variables_are_lost(run: Run) -> None:
    assert run("x = 1") == "Execution successful."
    assert run("import os; os._exit(0)").endswith("All variables are lost.")
    assert run("x").endswith("NameError: name 'x' is not defined")


def test_a_process_that_others_kill_is_a_failure_of_the_machine(sandbox: Sandbox) -> None:
    opened = Interpreter(sandbox, settings(sandbox))
    opened.run("x = 1", Apps().answer)
    assert opened._process
    outermost = psutil.Process(opened._process.pid)
    for process in (*outermost.children(recursive=True), outermost):
        # An inner one may end with the one before it.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    with pytest.raises(SimulatorError, match="the interpreter was killed"):
        opened.run("x", Apps().answer)
    assert "NameError" in opened.run("x", Apps().answer)
    opened.close()


def test_closing_ends_the_process_and_removes_its_folder(sandbox: Sandbox, apps: Apps) -> None:
    opened = Interpreter(sandbox, settings(sandbox))
    opened.run("x = 1", apps.answer)
    assert opened._process
    pid, work = opened._process.pid, opened._work.path
    os.kill(pid, 0)
    opened.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not work.exists()


def test_an_answer_that_fails_ends_the_process_and_is_raised(run: Run, sandbox: Sandbox) -> None:
    def broken(_: Called) -> Answered:
        raise SimulatorError("the engine ended")

    opened = Interpreter(sandbox, settings(sandbox))
    with pytest.raises(SimulatorError, match="the engine ended"):
        opened.run("try:\n    apis.notes.show()\nexcept BaseException:\n    pass", broken)
    assert opened._process is None
    opened.close()


def test_functions_that_are_not_allowed_are_refused_and_do_nothing(
    sandbox: Sandbox, apps: Apps
) -> None:
    functions = ("time.sleep", "os.listdir", "builtins.exit", "pathlib.Path.read_bytes")
    opened = Interpreter(sandbox, dataclasses.replace(settings(sandbox), functions=functions))
    for code, named in (
        ("import time\ntime.sleep(1)", "function is not allowed: time.sleep"),
        ("from time import sleep as s\ns(1)", "function is not allowed: time.sleep"),
        ("import os as o\no.listdir('/')\nexit()", "functions is not allowed: builtins.exit and"),
        ("import pathlib\np = pathlib.Path('x')\np.read_bytes()", "pathlib.Path.read_bytes."),
    ):
        assert named in opened.run(code, apps.answer)
    quiet = "import time, os\nt, o = time, os\nprint(t.sleep(99), o.listdir('/'))"
    assert opened.run(quiet, apps.answer) == "None None\n"
    opened.close()


def test_every_hostile_block_gets_as_far_as_its_attack(run: Run) -> None:
    assert run(HEAD.format(secret="", written="")) == "Execution successful."
    assert len(LEAVES) + len(BREAKS) > 100


@pytest.mark.parametrize("label", LEAVES)
def test_a_hostile_block_reads_writes_and_reaches_nothing(
    run: Run, apps: Apps, outside: Path, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPWORLD_SECRET", SECRET_WORD)
    check_attack(run, apps, outside, LEAVES[label])


@pytest.mark.exhaustive
@pytest.mark.timeout(400)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_is_as_safe() -> None:
    packages = [path for path in sys.path if path.endswith("site-packages")]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-r", __file__], check=False).returncode:
        pytest.skip("this checkout is for root alone")
    told = subprocess.run(
        [*nobody, "/usr/bin/python3", "-m", "tests.coevolve.environments.appworld.ordinary_user"],
        cwd=Path(__file__).parents[4],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "this machine has no sandbox" in told.stderr:
        pytest.skip(told.stderr.splitlines()[-1])
    assert told.stdout.splitlines() == [
        f"{level} {len(LEAVES)} []" for level in ("namespaces", "seccomp")
    ], told.stderr


@pytest.mark.parametrize("label", BREAKS)
def test_a_block_that_breaks_its_process_ends_in_an_observation(
    strongest: Sandbox, apps: Apps, outside: Path, label: str
) -> None:
    opened = Interpreter(strongest, settings(strongest))
    check_attack(lambda code: opened.run(code, apps.answer), apps, outside, BREAKS[label])
    opened.close()


def check_attack(run: Run, apps: Apps, outside: Path, block: str) -> None:
    secret, written = outside / "secret.txt", outside / "written"
    shown = run(HEAD.format(secret=str(secret), written=str(written)) + block)
    after = [run("print(6 * 7)") for _ in range(3)]
    for text in (shown, *after):
        assert len(text) <= TALL
        assert SECRET_WORD not in text
        assert "root:" not in text
        assert "uid=" not in text
    assert "42\n" in after
    assert "Usage of the following" not in shown
    assert {(call.app, call.api) for call in apps.calls} <= {("notes", "show")}
    assert len(apps.calls) <= 60
    assert sorted(path.name for path in outside.iterdir()) == ["secret.txt", "secret_module.py"]
    assert secret.read_text() == SECRET_WORD
