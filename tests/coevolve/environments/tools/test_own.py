"""Faults of users' classes and task files are reported and affect nothing else."""

import asyncio
import importlib
import itertools
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.findings import Finding
from coevolve.environments.registry import environment_named, environment_type
from coevolve.environments.tools.own import OwnTools
from coevolve.environments.tools.references import played_apart
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.task_files import read_tasks
from coevolve.environments.tools.task_rows import MOST_BYTES, MOST_VALUES
from coevolve.environments.tools.wire import ToolClient
from coevolve.environments.tools.worker import ToolWorker
from protocols.config import SimulatorConfig
from protocols.errors import ConfigError
from protocols.tasks import Task
from tests.commands import answered

NUMBERS = itertools.count()

STORE = '''
class Store:
    """A store."""
    def reset(self, world):
        self.data = dict(world)
    def put(self, key: str, value: str) -> str:
        """Set a key to a value."""
        self.data[key] = value
        return "ok"
'''

TOOL = (
    STORE
    + '''
    def go(self, a: str) -> str:
        """Go."""
'''
)


def lines(calls: str = "put(key='k', value='{n}')", **fields: object) -> list[dict[str, Any]]:
    return [
        {
            "id": f"t{n}",
            "world": {"a": str(n)},
            "turns": [{"instruction": f"do {n}", "reference": [calls.format(n=n)]}],
            "split": "train" if n < 4 else "held_out",
        }
        | fields
        for n in range(6)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def module(folder: Path, source: str) -> str:
    """Write a module with a new name, because processes cache modules; return its name."""
    name = f"own_{next(NUMBERS)}"
    (folder / f"{name}.py").write_text(source)
    return name


def made(folder: Path, source: str, tasks: list[dict[str, Any]] | None = None) -> OwnTools:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(t) + "\n" for t in tasks or lines()))
    use = f"{module(folder, source)}:Store"
    found = environment_named(use, tasks=str(folder / "tasks.jsonl"))
    assert isinstance(found, OwnTools)
    return found


def checked(environment: OwnTools) -> dict[str, Finding]:
    return {each.check: each for each in asyncio.run(environment.conformance(9))}


def failing(environment: OwnTools) -> set[str]:
    return {name for name, each in checked(environment).items() if each.state == "fails"}


COPY = "    def state(self):\n        return dict(self.data)\n"


@pytest.mark.parametrize(
    "source",
    [
        STORE + COPY,
        STORE.replace("self.data", "self._data"),
        STORE.replace('"""A store."""', '__slots__ = ("data",)'),
        "import datetime\n"
        + STORE.replace("= dict(world)", "= dict(world); self.d = datetime.date(2020, 1, 1)"),
    ],
    ids=["copy", "private", "slots", "date"],
)
def test_state_is_what_it_is_after_each_call(folder: Path, source: str) -> None:
    assert failing(made(folder, source)) == set()
    source += '    def no(self) -> str:\n        """Do nothing."""\n        return "ok"\n'
    other = made(folder, source)
    (task, *_) = other.source().pool()
    session = asyncio.run(verdict(other, task, "no()"))
    assert "instance_state_mismatch" in session


async def verdict(environment: OwnTools, task: Task, call: str) -> str:
    service = environment.simulator()
    pool = SimulatorPool([ToolClient(service)])
    try:
        await pool.reset("s", tool_task(task))
        await pool.act("s", call)
        return repr(await pool.grade("s"))
    finally:
        await service.close()


def test_sessions_that_share_a_state_are_found_out(folder: Path) -> None:
    shared = STORE.replace("= dict(world)", "= D; D.clear(); D.update(world)")
    found = checked(made(folder, f"D = {{}}\n{shared}"))["sessions are separate"]
    assert found.state == "fails"
    assert "a session sees what another one did" in found.found


def test_an_object_that_holds_itself_is_compared(folder: Path) -> None:
    assert not failing(
        made(folder, f"{TOOL}        self.me = self; return a\n", lines("go(a='{n}')"))
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "os._exit(0)",
            r"task 't0' needs .* the child ended in the call go\(a='0'\) with status 0",
        ),
        ("raise SystemExit(3)", "the first one t0: turn 1 answers with an error: .*SystemExit: 3"),
        ("while True: pass", "the first one t0: turn 1 answers with an error: .*CPU seconds"),
        (
            "self.me = [(each for each in a)]",
            r"the first one t0: self\.me\[0\]: the tools hold a builtins.generator, which",
        ),
        ("os.fork()", "the first one t0: the simulator reached for the host: os.fork"),
        (
            f"open({os.devnull!r}, 'w')",
            "the first one t0: the simulator reached for the host: open null; .* top of the module",
        ),
        ("import this", "the simulator reached for the host: import this; that leaves"),
        ("return object()", "has to return a text or a JSON value, found object"),
        ("raise ValueError('\\ud800')", r"the first one t0: .*ValueError: \?"),
    ],
)
def test_what_a_reference_does_happens_in_a_child(folder: Path, body: str, words: str) -> None:
    source = f"import os\n{TOOL}        {body}\n"
    with pytest.raises(ConfigError, match=words):
        made(folder, source, lines("go(a='{n}')")).source()


def test_a_tool_that_hangs_is_reported_with_its_task(folder: Path) -> None:
    environment = made(folder, f"import time\n{TOOL}        time.sleep(1000)\n")
    (folder / "tasks.jsonl").write_text(
        "".join(json.dumps(t) + "\n" for t in lines("go(a='{n}')")[3:5])
    )
    tasks = read_tasks(folder / "tasks.jsonl", environment.name, split_seed=0, held_out_share=0.3)
    worker = ToolWorker(SimulatorConfig(timeout_s=0.2), environment.tool_sets(), folders=(folder,))
    with pytest.raises(
        ConfigError,
        match=r"task 't3' needs .* no answer from the child within .* in the call go\(a='3'\)",
    ):
        played_apart(worker)(tasks)
    assert worker.pid == 0


def test_recorded_answers_are_those_of_the_simulators(folder: Path) -> None:
    source = STORE.replace('return "ok"', 'return ",".join({"aa", "bb", "cc", "dd", "ee", "ff"})')
    environment = made(folder, source)
    for task in environment.source().pool():
        (turn,) = tool_task(task).turns
        (answer,) = turn.results
        assert sorted(answer.split(",")) == ["aa", "bb", "cc", "dd", "ee", "ff"]
    assert failing(environment) == set()


def test_tasks_that_are_left_out_fail_the_check(folder: Path) -> None:
    picky = STORE.replace("dict(world)", "dict(world); 1 / (world['a'] != '1')")
    environment = made(
        folder, "print('hello')\n" + picky.replace("self.data[", "print(1); self.data[")
    )
    words = f"tasks={folder / 'tasks.jsonl'}"
    answer = answered("environment", "check", environment.name, words, "--json")
    findings = {each["check"]: each for each in json.loads(answer.stdout)}
    assert findings["references"]["state"] == "fails"
    found = findings["references"]["found"]
    assert "1 task was left out, t1: the task's world does not load: Zero" in found
    assert found.endswith("; correct its reference, its world or the tool")


def test_a_tool_that_opens_a_file_is_told_when_it_may(folder: Path) -> None:
    opening = TOOL + "        open('x') if a == '1' else self.put('k', a)\n"
    found = checked(made(folder, opening, lines("go(a='{n}')")))["references"]
    assert found.state == "fails"
    assert found.found.endswith("read files at the top of the module, outside the class")


def test_tasks_without_names_need_no_instances_but_those_with_names_do(folder: Path) -> None:
    for word, state in (("", "holds"), ("same", "fails")):
        said = [
            {
                "id": f"t{n}",
                "world": {"a": str(n)},
                "turns": [
                    {
                        "instruction": f"Set '{word or n}' to {n}.",
                        "reference": [f"put(key='{word or n}', value='{n}')"],
                    }
                ],
                "split": "train" if n < 8 else "held_out",
            }
            for n in range(12)
        ]
        found = checked(made(folder, STORE, said))["fresh_instances"]
        assert found.state == state, found
        assert "0 of 10 tasks have an instance" in found.found
        assert ("such as 'same'; none plays alike" in found.found) == bool(word)


@pytest.mark.parametrize(
    ("body", "failing_check", "words"),
    [
        ("return str(next(N))", "replayable", "calls go, which returned different answers for the"),
        ("self.data[a] = next(N)", "state_digest", "led to different states of the same world"),
    ],
)
def test_a_tool_that_varies_is_named_and_no_capability_is_blamed(
    folder: Path, body: str, failing_check: str, words: str
) -> None:
    source = f"import itertools\nN = itertools.count()\n{TOOL}        {body}\n"
    tasks = lines()
    tasks[1]["turns"][0]["reference"] = ["go(a='1')"]
    found = checked(made(folder, source, tasks))
    assert {name for name, each in found.items() if each.state == "fails"} == {
        "references",
        failing_check,
    }
    for name in ("references", failing_check):
        assert f"t1: turn 1 {'makes' if 'state' in words else ''}" in found[name].found
        assert words in found[name].found
        assert found[name].found.endswith(
            "make the tools deterministic: take what varies from the world"
        )


def test_a_wrong_reference_is_named_beside_a_tool_that_varies(folder: Path) -> None:
    source = f"import itertools\nN = itertools.count()\n{TOOL}        return str(next(N))\n"
    tasks = lines()
    tasks[1]["turns"][0]["reference"] = ["go(a='1')"]
    tasks[2]["turns"][0]["reference"] = ["put(key='k')"]
    found = checked(made(folder, source, tasks))
    assert (
        "2 tasks were left out (t2, t1), the first one t2: turn 1 answers"
        in found["references"].found
    )
    assert found["references"].found.endswith("correct its reference, its world or the tool")
    assert found["replayable"].found.startswith("t1: turn 1 calls go, which returned different")


def test_the_numbers_of_tasks_add_up(folder: Path) -> None:
    environment = made(folder, STORE)
    words = f"tasks={folder / 'tasks.jsonl'}"
    answer = answered("environment", "check", environment.name, words, "--json")
    findings = {each["check"]: each for each in json.loads(answer.stdout)}
    assert findings["there are tasks"]["found"] == (
        "6 tasks: 3 training tasks at first, 2 scored tasks, 1 canaries, which only the guard uses "
        "(learner.guard)"
    )


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize(
    "source",
    ["import os\nos._exit({})", "from os import _exit\n_exit({})", "import sys\nsys.exit({})"],
)
@pytest.mark.parametrize("command", ["check", "launch"])
def test_a_module_that_ends_the_process_at_its_import_is_refused_in_words(
    folder: Path, source: str, code: int, command: str
) -> None:
    use = f"{module(folder, source.format(code))}:Store"
    if command == "check":
        answer = answered("environment", "check", use, "tasks=tasks.jsonl")
    else:
        answer = answered("launch", "quickstart", "--dry-run", f"environment={{use: '{use}'}}")
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert f"'{use}' cannot be imported: SystemExit: " in answer.stderr
    assert f"{code}" in answer.stderr.partition("SystemExit: ")[2]


@pytest.mark.parametrize("base", ["BaseException", "asyncio.CancelledError", "BaseExceptionGroup"])
def test_a_module_that_raises_what_nobody_catches_is_refused_in_words(
    folder: Path, base: str
) -> None:
    given = "'x', [KeyboardInterrupt()]" if base == "BaseExceptionGroup" else ""
    name = module(folder, f"import asyncio\nclass Odd({base}): pass\nraise Odd({given})\n")
    with pytest.raises(ConfigError, match=f"'{name}:Store' cannot be imported: Odd: "):
        environment_type(f"{name}:Store")


def test_a_tool_that_raises_what_nobody_catches_ends_its_session_alone(folder: Path) -> None:
    odd = "    def odd(self, a: str) -> str:\n        'Raise.'\n        raise GeneratorExit('x')\n"
    tasks = lines("odd(a='{n}')")[:1] + lines()[1:]
    left_out = made(folder, STORE + odd, tasks).source().left_out
    assert len(left_out) == 1
    assert "the simulator raised GeneratorExit: x" in next(iter(left_out.values()))


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("putt(key='k', value='{n}')", "; did you mean 'put'?"),
        ("put(kye='k', value='{n}')", "; put has no argument 'kye'; did you mean 'key'?"),
    ],
)
def test_a_misspelt_name_in_a_reference_is_left_out_with_what_it_means(
    folder: Path, call: str, meant: str
):
    tasks = lines(call)[:1] + lines()[1:]
    assert made(folder, STORE, tasks).source().left_out["t0"].endswith(meant)


def test_a_module_may_end_processes_that_it_forks_or_starts_later(folder: Path) -> None:
    source = "import os\nchild = os.fork()\nif not child:\n    os._exit(7)\n"
    name = module(folder, f"{source}ended = os.waitpid(child, 0)[1]\nend = os._exit\n{STORE}")
    environment_type(f"{name}:Store")
    found = importlib.import_module(name)
    assert os.waitstatus_to_exitcode(found.ended) == 7
    if not (child := os.fork()):
        found.end(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


@pytest.mark.parametrize("use", ["calendar:Desk", "queue:Queue", "email.desk:Desk"])
def test_a_module_with_a_name_of_pythons_own_is_refused_with_another_name(use: str) -> None:
    taken = use.partition(":")[0]
    with pytest.raises(ConfigError) as refusal:
        environment_type(use)
    assert f"the name {taken.partition('.')[0]!r} is taken by Python's own" in str(refusal.value)
    assert str(refusal.value).endswith(f"for example my_{taken}")


def test_a_check_tells_of_left_out_tasks_in_its_table_alone(folder: Path) -> None:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(t) + "\n" for t in lines()))
    picky = STORE.replace("dict(world)", "dict(world); 1 / (world['a'] != '1')")
    use = f"{module(folder, picky)}:Store"
    words = ("environment", "check", use, f"tasks={folder / 'tasks.jsonl'}")
    for form in ((), ("--json",)):
        answer = answered(*words, *form)
        assert "tasks_left_out" not in answer.stderr
        assert "left out" in " ".join(answer.stdout.split())


HELD = {
    "a connection": ("sqlite3", "sqlite3.connect(':memory:')", "sqlite3.Connection"),
    "a lock": ("threading", "threading.Lock()", "_thread.lock"),
    "a generator": ("itertools", "(each for each in itertools.count())", "builtins.generator"),
    "a view": ("array", "memoryview(array.array('i'))", "builtins.memoryview"),
}


@pytest.mark.parametrize(
    "name",
    [
        "a connection",
        "a lock",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("a generator", "a view")),
    ],
)
def test_what_cannot_be_compared_is_named_once_with_the_remedy(folder: Path, name: str) -> None:
    package, made_by, kind = HELD[name]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(t) + "\n" for t in lines()))
    source = STORE.replace("dict(world)", f"dict(world); self.held = {made_by}")
    use = f"{module(folder, f'import {package}{source}')}:Store"
    answer = answered("environment", "check", use, f"tasks={folder / 'tasks.jsonl'}")
    said = answer.stdout + answer.stderr
    assert answer.returncode == 1
    assert f"the tools hold a {kind}, which cannot be compared" in said
    assert said.count("state()") == 1


def test_a_connection_beside_a_state_is_fine(folder: Path) -> None:
    source = STORE.replace("dict(world)", "dict(world); self.db = sqlite3.connect(':memory:')")
    state = "    def state(self):\n        return self.data\n"
    assert not failing(made(folder, f"import sqlite3{source}{state}", lines()))


def test_too_large_a_world_is_told_with_its_limit(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"the first one t0: .* weighs more than 600,000"):
        made(folder, STORE, lines(world={"a": "x" * 700_000})).source()


def test_inherited_methods_are_tools(folder: Path) -> None:
    base = STORE.replace("class Store", "class Base") + "class Store(Base):\n    pass\n"
    assert failing(made(folder, base)) == set()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (STORE + '    def go(self, *a: str):\n        """Go."""\n', "variadic positional"),
        (STORE + '    def go(self, **a: str):\n        """Go."""\n', "variadic keyword"),
        (STORE + '    def go(self, a: str, /):\n        """Go."""\n', "positional-only"),
        (TOOL.replace("def go", "async def go"), "found async def or yield"),
        (TOOL + "        yield 1\n", "found async def or yield"),
        (TOOL.replace("    def go", "    @staticmethod\n    def go"), "found a staticmethod"),
        (TOOL.replace("    def go", "    @classmethod\n    def go"), "found a classmethod"),
        (TOOL.replace("a: str", "a: 'Nonsense'"), "Store.go cannot be read: NameError"),
        (TOOL.replace("a: str", "a: int = object()"), "go: a needs a type and a default of JSON"),
        (STORE.replace("reset(self, world)", "reset(self)"), r"needs reset\(self, world\), found"),
        (STORE.replace("def reset", "async def reset"), "it is async, or yields"),
        (
            STORE + "    def __init__(self, path): ...\n",
            "a constructor without arguments, found Store.path",
        ),
        (STORE + "    def reward(self): ...\n", r"needs reward\(self, task\) or"),
        (STORE + "    def state(self, x): ...\n", r"needs state\(self\), found state\(self, x\)"),
        (STORE + "    lacks = 'references'\n", "needs a tuple of names among"),
        (
            "import abc\n"
            + TOOL.replace("Store:", "Store(abc.ABC):").replace(
                "    def go", "    @abc.abstractmethod\n    def go"
            ),
            "is abstract: write go",
        ),
        ("raise SystemExit(0)", "cannot be imported: SystemExit: 0"),
        ("1 / 0", r"cannot be imported: ZeroDivisionError: .* \(\w+\.py, line 1\); correct"),
        ("import json\njson.loads('x')", r"JSONDecodeError: .* \(own_\w+\.py, line 2\); correct"),
        ("class Store", "SyntaxError: .*; correct the module, or install what it imports"),
        ("import nowhere", r"No module named 'nowhere' \(.*line 1\); correct"),
        ("def Store(): ...", "has to be a class, but is a function"),
        (STORE.replace("Store", "Shop"), r"has no 'Store'; it is .*\.py; name a class at the top"),
        (
            "import functools\n"
            + TOOL.replace("    def go", "    @functools.lru_cache\n    def go"),
            "Store.go needs to be a plain method, found a _lru_cache_wrapper; write a plain def",
        ),
    ],
)
def test_an_unusable_class_is_refused_in_one_sentence(
    folder: Path, source: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        environment_type(f"{module(folder, source)}:Store")


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (
            "    def state(self):\n        return None\n",
            "t0: state.. has to return .* returned None",
        ),
        ("    def state(self):\n        return 1 / 0\n", "t0: state.. raised ZeroDivisionError"),
        (
            "    def reward(self, task):\n        return None\n",
            "t0: Store.reward.. raised TypeError",
        ),
    ],
)
def test_methods_that_raise_are_reported_with_a_task(
    folder: Path, methods: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        made(folder, STORE + methods).source()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(lines()).encode(), "write each task of a JSON array on its own line"),
        (json.dumps(lines()[0]).encode("utf-16"), r"tasks.jsonl:1: .* in UTF-8"),
        (b'{"a": "\xe4"}', r"tasks.jsonl:1: .* in UTF-8"),
        (b'{"id": "x", "world": ' + b"[" * 5000 + b"]" * 5000 + b"}", "RecursionError"),
        (json.dumps(lines(split="test")[0]).encode(), "split: train or held_out.*'test'"),
        (json.dumps(lines()[0]).encode(), "needs tasks of both splits, found 1 train task"),
        (json.dumps(lines()[0] | {"id": " "}).encode(), "task 1: needs an id, found ' '"),
        (json.dumps({"id": "a", "wrold": {}}).encode(), "'wrold'; did you mean 'world'"),
        (json.dumps({"id": "a", "worlds": {}}).encode(), "'worlds'; did you mean 'world'"),
        (
            json.dumps(lines()[0] | {"id": "blank", "turns": [{"instruction": " "}]}).encode(),
            r"task 1 \(blank\): needs an instruction in turn 1, found ' '",
        ),
        (b"{,}\n{}\n{;}", r"(?s)tasks.jsonl:1: .*\n.*tasks.jsonl:3: "),
    ],
)
def test_an_invalid_file_is_refused_in_one_sentence(
    folder: Path, content: bytes, words: str
) -> None:
    environment = made(folder, STORE)
    (folder / "tasks.jsonl").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        environment.source()


def test_a_missing_file_is_refused_with_the_folders_that_were_searched(folder: Path) -> None:
    use = made(folder, STORE).name
    with pytest.raises(ConfigError, match=rf"is in none of .*{folder}; give its path"):
        environment_named(use, tasks="nofile").scored_tasks()
    with pytest.raises(ConfigError, match=f"; did you mean '{folder}/tasks.jsonl'"):
        environment_named(use, tasks=str(folder / "task.jsonl")).scored_tasks()


def test_a_byte_order_mark_is_accepted(folder: Path) -> None:
    environment = made(folder, STORE)
    file = folder / "tasks.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert environment.source().left_out == {}


def test_invalid_folders_and_tables_are_refused(folder: Path) -> None:
    use = made(folder, STORE).name
    (folder / "t.parquet").write_bytes(b"PAR1nonsense")
    (folder / "empty").mkdir()
    for name in ("t.parquet", "empty"):
        with pytest.raises(ConfigError, match=f"{name} has to be a file of JSON lines, a parq"):
            environment_named(use, tasks=str(folder / name)).scored_tasks()


def test_a_table_that_unfolds_to_much_is_refused_before_it_does(folder: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = pyarrow.array(["x" * (1 << 20)] * 600)
    for name, column in (("plain", texts), ("dictionary", texts.dictionary_encode())):
        path = folder / f"{name}.parquet"
        parquet.write_table(
            pyarrow.table({"id": column}), path, compression="zstd", use_dictionary=name != "plain"
        )
        assert path.stat().st_size < 1 << 18
        with pytest.raises(ConfigError, match=rf"it needs at most {MOST_BYTES} bytes"):
            read_tasks(path, "m:KeyValue", split_seed=0, held_out_share=0.3)


def test_a_table_of_values_that_take_no_bytes_is_refused_before_it_is_read(folder: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    world = pyarrow.array([[None] * (MOST_VALUES + 1)])
    path = folder / "t.parquet"
    parquet.write_table(pyarrow.table({"world": world}), path, compression="zstd")
    assert path.stat().st_size < 1 << 16
    with pytest.raises(ConfigError, match=rf"at most {MOST_VALUES} values"):
        read_tasks(path, "m:KeyValue", split_seed=0, held_out_share=0.3)


def test_lines_of_many_small_values_are_refused_before_they_are_decoded(folder: Path) -> None:
    path = folder / "t.jsonl"
    path.write_bytes(b'{"world": [' + b"[]," * MOST_VALUES + b"[]]}")
    tracemalloc.start()
    with pytest.raises(ConfigError, match=rf"at most {MOST_VALUES} values"):
        read_tasks(path, "m:KeyValue", split_seed=0, held_out_share=0.3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * MOST_BYTES


def test_a_path_that_no_folder_can_have_is_refused(folder: Path) -> None:
    use = made(folder, STORE).name
    with pytest.raises(ConfigError, match=r"environment.tasks: 'aaa.* cannot be looked up"):
        environment_named(use, tasks="a" * 5000).scored_tasks()
