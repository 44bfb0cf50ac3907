"""Tests that the pages agree with the project's files, and that what they say to type works."""

import __future__

import ast
import asyncio
import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest

from coevolve.cli.main import coevolve as root
from coevolve.commands.intervals import interval
from coevolve.config.load import conflicts, load_config
from coevolve.environments.cache_folder import CACHE_VARIABLE
from coevolve.environments.registry import environment_named, environment_of
from coevolve.environments.sandbox import work_folders
from coevolve.environments.tools.gates.order import ORDER
from coevolve.estimate.estimate import estimate
from coevolve.history.progress import SCENARIOS
from coevolve.learning.attribution import TEACHERS
from coevolve.learning.metrics import LOSSES
from coevolve.learning.rows import SOURCES
from coevolve.models import scratch_folder
from protocols.errors import CoevolveError
from protocols.evolution import Label, SignalKind, SignalSettled
from protocols.tasks import Task
from tests.bench.__main__ import BENCHES
from tests.commands import answered, as_it_was, called
from tests.documented import (
    FOLDER,
    PAGES,
    README,
    ROOT,
    TEXTS,
    Block,
    Command,
    block_of,
    blocks,
    commands,
    write_files,
)
from tests.launched import SMALL

NAMED = re.compile(r"`((?:coevolve|actors|protocols|tests|configs|designs)[/.][\w./]*\w/?)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
SETTING = re.compile(
    r"`((?:policy|environment|rollout|simulator|signals|synthesizer|validator|pool|learner|delivery"
    r"|evaluator|store|watchdog|cluster)\.[a-z_.]+)(?:[=:][^`]*)?`"
)
LONGEST_README = 150

COMMANDS = [command for file in TEXTS for command in commands(file)]
BLOCKS = [block for file in PAGES for block in blocks(file)]
PYTHON = [block for block in BLOCKS if block.is_python]
RUN_FILES = [block for block in BLOCKS if block.is_run_file]


def is_there(name: str) -> bool:
    """Return whether ``name`` is a file, a folder, a module, or an object in a module."""
    if (ROOT / name).exists():
        return True
    parts = name.split(".")
    homes = (ROOT.joinpath(*parts[:count]) for count in (len(parts), len(parts) - 1))
    return any(home.is_dir() or home.with_suffix(".py").is_file() for home in homes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_by_a_page_exists(page: Path):
    names = set(NAMED.findall(page.read_text()))
    assert not [name for name in sorted(names) if not is_there(name)]


def test_a_missing_file_is_found():
    assert is_there("coevolve/journal/journal.py")
    assert is_there("protocols.journal.Append")
    assert not is_there("coevolve/rollouts/gone.py")
    assert not is_there("coevolve.rollouts.gone.Thing")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    for target, anchor in LINK.findall(page.read_text()):
        led = (page.parent / target) if target else page
        assert led.exists(), target
        assert not anchor or anchor in anchors(led), f"{target}#{anchor}"


def test_the_readme_is_short_and_has_every_page():
    text = README.read_text()
    assert len(text.splitlines()) <= LONGEST_README
    table = text.partition("\n## Pages\n")[2].partition("\n## ")[0]
    linked = {target for target, _ in LINK.findall(table)}
    assert linked == {str(page.relative_to(ROOT)) for page in FOLDER.glob("*.md")}


def test_the_numbers_of_the_readme_are_those_of_the_quickstart():
    text = " ".join(README.read_text().split())
    config = load_config("quickstart")
    found = re.search(
        r"The quickstart trains a ([\d.]+)M-parameter Qwen3 for (\d+) steps\. It starts with (\d+) "
        r"tasks, .*? scores the policy on (\d+) held-out tasks every (\d+) steps\.",
        text,
    )
    assert found is not None
    millions, *numbers = found.groups()
    assert float(millions) == round((estimate(config).parameters or 0) / 1e6, 1)
    environment, settings = environment_of(config), config.evaluator
    scored = len(environment.scored_tasks())
    seeds = sum(isinstance(each, Task) for each in environment.sampler().opening())
    assert [*map(int, numbers)] == [config.learner.steps, seeds, scored, settings.every]
    assert f"step {settings.every} step {2 * settings.every}" in text


def test_every_extra_that_a_page_names_can_be_installed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = {
        name
        for file in TEXTS
        for names in re.findall(r"coevolve\[([\w,-]+)\]", file.read_text())
        for name in names.split(",")
    }
    assert named <= extras.keys()


def test_every_setting_that_a_page_names_exists():
    pages = [page for page in PAGES if page.stem != "configuration"]
    named = {name for page in pages for name in SETTING.findall(page.read_text())}
    uses = ((), ("--environment", "hdl"), ("--environment", "bfcl"))
    assert len(named) > 50
    assert not [
        name
        for name in sorted(named)
        if all(
            answered("config", "explain", name.removesuffix(".kind"), *use).returncode
            for use in uses
        )
    ]


# Commands.


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a reader types: with the files that the pages tell to write."""
    folder = tmp_path_factory.mktemp("typed") / "mine"
    assert answered("environment", "init", str(folder)).returncode == 0
    write_files(folder)
    return folder


@pytest.fixture
def typed(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(workplace)
    monkeypatch.syspath_prepend(str(workplace))
    with as_it_was():
        yield workplace


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_every_command_of_a_page_can_be_typed(command: Command, typed: Path):
    refuse_unreadable(command.words)


@pytest.mark.parametrize(
    "words",
    [
        "coevolve lunch quickstart",
        "coevolve attach stats",
        "coevolve launch quickstart --dryrun",
        "coevolve launch quickstar",
        "coevolve launch quickstart learner.step=2",
        "coevolve launch quickstart learner.steps=none",
        "coevolve config explain learner.object",
        "coevolve replay RUN --from-checkpoint last",
        "coevolve export RUN weights --to DIR",
        "python -m coevolve.report runs/quickstart",
        "python -m tests.configuration_pages",
        "python -m tests.bench learn",
        "python -m tests.bench learning sources --seed-range 0-7",
        "make quickstar",
        "pytest tests/test_nothing.py",
    ],
)
def test_a_wrong_command_is_found(words: str, typed: Path):
    with pytest.raises((AssertionError, click.ClickException, CoevolveError)):
        refuse_unreadable(tuple(words.split()))


def refuse_unreadable(words: Sequence[str]) -> None:
    """Fail if the command line names a command, an option, a file or a setting that is not."""
    program, *rest = words
    match (program.removeprefix(".venv/bin/"), *rest):
        case ("make", *targets):
            done = subprocess.run(
                ["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, done.stderr
        case ("python", "-m", "coevolve" | "coevolve.launch" | "coevolve.attach" as module, *more):
            _, _, name = module.partition(".")
            refuse_unknown([*([name] if name else ()), *more])
        case ("python", "-m", "tests.bench", bench, *more):
            refuse_bench(bench, more)
        case ("pytest", *more) | ("python", "-m", "pytest", *more):
            assert all((ROOT / word).exists() for word in more if word.startswith("tests"))
        case ("python", "-m", module, *_):
            found = find_spec(module)
            assert found is not None, module
            assert found.origin is not None, module
            assert '__name__ == "__main__"' in Path(found.origin).read_text(), module
        case ("coevolve", *more):
            refuse_unknown(more)
        case _:
            pytest.fail(f"nobody knows how to check {words}")


def refuse_bench(bench: str, words: Sequence[str]) -> None:
    """Fail if a benchmark does not know its arguments."""
    assert bench in BENCHES, bench
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as ended:
        importlib.import_module(BENCHES[bench]).main([*words, "--help"])
    assert ended.value.code == 0
    assert all(word in said.getvalue() for word in words if word.startswith("--"))


def refuse_unknown(words: Sequence[str]) -> None:
    """Fail if `coevolve WORDS...` cannot be read; placeholders in capitals stand for anything."""
    if not words or is_placeholder(words[0]):
        return
    answer = answered(*words, "--help")
    assert answer.returncode == 0, answer.stderr
    path, rest = declared([word for word in words if word != "--help"])
    assert len(path) > 1, words
    assert not isinstance(path[-1], click.Group) or words[-1] in (path[-1].name, "--help"), words
    if rest:
        refuse_wrong_values(path[-1].make_context(words[0], list(rest)).params)
    if words[:2] == ["config", "explain"]:
        assert is_placeholder(words[-1]) or answered(*words).returncode == 0


def declared(words: Sequence[str]) -> tuple[list[click.Command], Sequence[str]]:
    """Return the commands that the first words name, and the words behind them."""
    path: list[click.Command] = [root]
    rest = list(words)
    while rest and isinstance(path[-1], click.Group):
        command = path[-1].get_command(click.Context(path[-1]), rest.pop(0))
        path.extend([command] if command else [])  # `attach` and `export` have words before it
    return path, rest


def refuse_wrong_values(params: dict[str, Any]) -> None:
    """Fail if a run file cannot be loaded with the overrides, or does not exist."""
    if params.get("gates") or params.get("planted"):
        return  # settings of an environment, or runs, stand in the place of a run file
    run_file = params.get("run_file") or params.get("config")
    overrides = [
        each for each in params.get("overrides") or () if not is_placeholder(each.partition("=")[2])
    ]
    if run_file is None and overrides:
        run_file = params["run"]
    if run_file is not None:
        assert not conflicts(load_config(run_file, overrides))


def is_placeholder(word: str) -> bool:
    """Return whether a word stands for the reader's own."""
    return re.fullmatch(r"[A-Z]+(?:\.\.\.)?", word) is not None


def test_the_page_names_every_folder_that_a_run_leaves():
    text = (FOLDER / "operations.md").read_text().partition("\n## What it leaves")[2]
    left = (CACHE_VARIABLE, "XDG_CACHE_HOME", scratch_folder.PREFIX, work_folders.PREFIX, "runs/")
    assert not [name for name in left if name not in text]


def test_every_statement_about_security_says_what_checks_it():
    text = (FOLDER / "security.md").read_text()
    opened, _, rest = text.partition("\n## What a run leaves open")[2].partition("\n## ")
    rows = [line for line in opened.splitlines() if line.startswith("|")][2:]
    attackers = rest.partition("\n## What each attacker")[2].partition("\n## ")[0]
    paragraphs = [each for each in attackers.split("\n\n") if each.startswith("**")]
    assert len(rows) > 8
    assert len(paragraphs) > 6
    checked = re.compile(r"`tests/[\w/]+\.py`|by hand|[Nn]ot checked|\(#")
    assert not [each for each in (*rows, *paragraphs) if not checked.search(each)]
    assert re.search(r"ran last on \d{4}-\d\d-\d\d, at [0-9a-f]{7,}", text)


# Blocks.


@pytest.mark.parametrize("block", RUN_FILES, ids=str)
def test_every_run_file_of_a_page_can_be_loaded(block: Block, typed: Path):
    tree = msgspec.yaml.decode(block.text)
    if "name" in tree:
        (typed / "page.yaml").write_text(block.text)
        config = load_config(typed / "page.yaml", ["policy.tiny_random=true"])
    else:
        use = tree.get("environment", {}).get("use", "")
        base = {"hdl": "hdl_qwen3_4b", "keyvalue:KeyValue": "run.yaml"}.get(use, "quickstart")
        extra = ["learner.objective={kind: sft}"] if use == "hdl" else []
        config = load_config(base, [*flat(tree), *extra])
    assert not conflicts(config)


def flat(tree: dict[str, Any]) -> Iterator[str]:
    """Yield the settings of a piece of a run file as overrides."""
    for name, value in tree.items():
        if isinstance(value, dict) and "kind" not in value:
            for inner, leaf in value.items():
                yield f"{name}.{inner}={json.dumps(leaf)}"
        else:
            yield f"{name}={json.dumps(value)}"


def compiled(block: Block) -> Any:
    flags = __future__.annotations.compiler_flag
    return compile(block.text, str(block), "exec", flags=flags, dont_inherit=True)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_every_piece_of_python_can_be_read(block: Block):
    assert compiled(block).co_names


@pytest.mark.parametrize(
    "block", [each for each in PYTHON if each.file.stem == "environments"], ids=str
)
def test_every_class_of_the_page_on_environments_can_be_made(block: Block):
    before: dict[str, Any] = {}
    exec(compiled(block), before)
    assert [name for name, thing in before.items() if callable(thing)]


def test_the_grader_of_the_page_grades():
    made: dict[str, Any] = {}
    page = FOLDER / "environments.md"
    exec(compiled(block_of(page, "class Letters")), made)
    task = json.loads(block_of(page, '{"id": "after-a"').text.splitlines()[0])
    assert made["Letters"]().reward(task, " B. ") == 1.0


def test_the_graded_class_of_the_page_is_complete_with_its_tasks_and_run_file(typed: Path):
    tree = msgspec.yaml.decode((typed / "letters.yaml").read_bytes())
    assert tree == msgspec.yaml.decode((ROOT / "tests" / "own" / "letters.yaml").read_bytes())
    config = load_config(typed / "letters.yaml")
    assert not conflicts(config)
    found = asyncio.run(environment_of(config).conformance(10))
    assert not [each for each in found if each.state == "fails"]


def test_the_python_of_the_page_compares_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for arm, gain in (("full", 0.2), ("static", 0.1)):
        for seed in range(5):
            lines = (
                {"step": 0, "val/success/all": 0.5},
                {"step": 1, "actor/lr": 0.1},
                {"step": 1, "val/success/all": 0.5 + gain + 0.01 * seed * (arm == "full")},
            )
            folder = tmp_path / "runs" / f"{arm}-{seed}"
            folder.mkdir(parents=True)
            (folder / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compiled(block_of(FOLDER / "operations.md", "import json\nfrom pathlib")), {})
    first, second = said.getvalue().splitlines()
    assert first.endswith("= +0.0 [+0.0, +0.0]")
    assert second.startswith("step 1: ['70.0', '71.0', '72.0', '73.0', '74.0'] - ['60.0', ")
    mean, low, high = interval([10.0, 11.0, 12.0, 13.0, 14.0])
    assert second.endswith(f"= {mean:+.1f} [{low:+.1f}, {high:+.1f}]")


def test_the_run_file_of_the_readme_can_be_tried(typed: Path):
    config = load_config(typed / "mine.yaml", ["policy.tiny_random=true"])
    assert not conflicts(config)
    assert config.uses == "bfcl"


def test_the_environment_of_the_readme_keeps_its_promises(typed: Path):
    page = FOLDER / "environments.md"
    for beginning in ("class KeyValue", '{"id": "put-1"'):
        assert block_of(page, beginning).text == block_of(README, beginning).text
    environment = environment_named("keyvalue:KeyValue", tasks=str(typed / "keyvalue.jsonl"))
    found = asyncio.run(environment.conformance(10))
    assert not [each for each in found if each.state == "fails"]


# Errors.


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node, with a mark in place of what is filled in."""
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            parts = (x.value if isinstance(x, ast.Constant) else "\0" for x in each.values)
            yield "".join(map(str, parts))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_the_errors_that_the_page_quotes_are_those_of_the_code():
    files = (ROOT / "coevolve").rglob("*.py")
    code = "\n".join(text for file in files for text in texts_of(ast.parse(file.read_text())))
    page = (FOLDER / "troubleshooting.md").read_text()
    quoted = re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE)))
    pieces = [piece.strip(" ,;:().") for text in quoted for piece in text.split("...")]
    told = [piece for piece in pieces if len(piece.split()) > 2]
    assert len(told) > 30
    assert not [piece for piece in told if piece not in code]


# Metrics.

WRITERS = (
    "coevolve/delivery/sampler.py",
    "coevolve/learning/attribution.py",
    "coevolve/learning/batch.py",
    "coevolve/learning/learner_run.py",
    "coevolve/learning/losses/policy_gradient.py",
    "coevolve/learning/metrics.py",
    "coevolve/learning/objectives/dpo.py",
    "coevolve/learning/step_loss.py",
    "coevolve/learning/trainer.py",
    "coevolve/learning/warm_start.py",
    "coevolve/learning/weight_sync_monitor.py",
    "coevolve/history/metrics_file.py",
    "coevolve/history/progress.py",
)
"""The modules that name metrics."""

METRIC = re.compile(
    r"(?:actor|critic|delivery|gradient_noise|groups|guard|num_turns|perf|prompt_length"
    r"|response_length|rewards|rollout_corr|sampling|signal|source|stage|synth|tasks|timing_s|training|val"
    r"|validator)(?:/[\w{}]+)+"
)


def written() -> set[str]:
    """Return the names that the code can write; those of an open set with a word in capitals."""
    found = {"step", "frac_reward_zero_std"}
    for module in WRITERS:
        for node in ast.walk(ast.parse((ROOT / module).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if METRIC.fullmatch(node.value) else set()
    found |= {f"actor/{name}" for name in LOSSES}
    found |= {f"source/{source}/{what}" for source in SOURCES for what in ("rows", "tokens")}
    found |= {f"source/{teacher}/movement_share" for teacher in TEACHERS}
    found |= {f"signal/{kind}" for kind in get_args(SignalKind)}
    outcome = next(x for x in msgspec.structs.fields(SignalSettled) if x.name == "outcome")
    found |= {f"synth/{each}" for each in get_args(outcome.type)}
    found |= {f"validator/admit/{label}" for label in get_args(Label)}
    return found | {
        "validator/reject/GATE",
        "val/success/all",
        "val/success/LABEL",
        "val/MEASURE/LABEL",
        "val/success_std_error/LABEL",
        "val/MEASURE_std_error/LABEL",
        *(f"val/{name}/LABEL" for name in (SCENARIOS, f"{SCENARIOS}_std_error")),
    }


def explained() -> set[str]:
    """Return the names in the first column of the page's tables, without those of `status`."""
    text = (FOLDER / "metrics.md").read_text().partition("\n## attach status\n")[0]
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_page_explains_every_metric_and_no_other():
    assert written() == explained()


def test_a_metric_is_found_in_the_code():
    assert {"timing_s/wait", "rollout_corr/on_policy_tokens", "guard/canaries"} <= written()


def test_every_gate_is_explained():
    text = (FOLDER / "synthesis.md").read_text()
    for gate in (*ORDER, "duplicate", "contaminated"):
        assert f"`{gate}`" in text, gate


def closed(name: str) -> str:
    """Return the name under which the page explains a metric of an open set."""
    for pattern, told in (
        (r"val/success/(?!all$).+", "val/success/LABEL"),
        (r"val/success_std_error/.+", "val/success_std_error/LABEL"),
        (rf"val/({SCENARIOS}(?:_std_error)?)/.+", r"val/\1/LABEL"),
        (r"val/(?!success/).+", "val/MEASURE/LABEL"),
        (r"validator/reject/.+", "validator/reject/GATE"),
    ):
        if found := re.fullmatch(pattern, name):
            return found.expand(told)
    return name


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_the_python_of_the_readme_runs_and_writes_only_metrics_that_are_explained(tmp_path: Path):
    few = [*SMALL, "learner.steps=2", "environment.held_out=8"]
    code = block_of(README, "import coevolve").text
    assert '["learner.steps=20"]' in code
    read = block_of(FOLDER / "metrics.md", "import json").text
    cut = code.replace('["learner.steps=20"]', repr(few))
    told = (
        "print(result.finished, result.steps, sorted(result.held_out), result.report.is_file())\n"
        "print(result.directory)\nprint(sorted(scores))\n"
    )
    text = f"{cut}\n{read}\n{told}"
    (tmp_path / "typed.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "typed.py"], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "quickstart"
    ended, directory, scored = done.stdout.splitlines()[-3:]
    assert (ended, scored) == ("True 2 [0, 2] True", "[0, 2]")
    assert (tmp_path / directory).samefile(run)
    assert re.findall(r"^(\d+)$", done.stdout, re.MULTILINE) == ["1", "2"]
    lines = (run / "metrics.jsonl").read_text().splitlines()
    names = {closed(name) for line in lines for name in json.loads(line)}
    assert len(names) > 60
    assert names <= explained()
    status = msgspec.json.decode(
        called("attach", "--runs", str(tmp_path / "runs"), "status", "--json").stdout
    )
    fields = (FOLDER / "metrics.md").read_text().partition("\n## attach status\n")[2]
    assert not [name for name in status if f"`{name}`" not in fields]
