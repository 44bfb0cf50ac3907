"""Every documented command that trains or evaluates is typed in an empty folder, and works."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from coevolve.config.run_files import carried
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from coevolve.runs.starting import is_launched
from protocols.control import RunResumed
from protocols.learning import StepReport
from tests.commands import answered
from tests.documented import ROOT, SAVED, write_files
from tests.tried import (
    EXAMPLE,
    IN_ONE_PROCESS,
    IN_OTHER_TESTS,
    STEPS,
    UNTRIED,
    continued,
    documented,
    form,
    is_plain,
    marks,
    overrides_of,
    run_file_of,
    settings_of,
    short,
    starts,
    untried,
    write_designs,
    write_policy,
)

pytestmark = pytest.mark.timeout(900)

TYPED_S = 400

LAUNCH = ("coevolve", "launch")

COPIED = "--from"
COPIES = "store.copies=FOLDER"

TRIED = {text: words for text, words in documented().items() if not untried(text)}
LATER = {text: words for text, words in TRIED.items() if not starts(words)}
"""Commands about a run that has taken its steps."""

CLASS_OF_ONES_OWN = re.compile(r"\b[a-z]\w*:[A-Z]\w*")
"""The import path of a class that a page tells to save."""


def run_of(words: Sequence[str]) -> str:
    """Return the run that a later command is about: what it names, or any."""
    names = [word for word in words[2:] if word in carried()]
    return names[0] if names else "quickstart"


def first_of(name: str) -> tuple[str, ...]:
    """Return the command that starts a run: the plain one if it is tried."""
    plain = (*LAUNCH, name)
    named = [each for each in TRIED.values() if starts(each) and run_file_of(each) == name]
    return plain if form(plain) in TRIED else named[0]


FIRST = {name: first_of(name) for name in map(run_of, LATER.values())}
"""Run -> the command that starts it."""

JOINED = [
    words
    for words in TRIED.values()
    if words[:3] == (*LAUNCH, "quickstart")
    and not is_plain(words)
    and not IN_ONE_PROCESS.fullmatch(form(words))
]
"""Commands whose options go together: one run has those of all of them."""

APART = [
    words
    for text, words in TRIED.items()
    if starts(words)
    and words not in JOINED
    and text not in (*map(form, FIRST.values()), *IN_OTHER_TESTS)
]


def suites(words: Sequence[str]) -> list[pytest.MarkDecorator]:
    """Return the marks of a command that starts a run; plain settings are only checked at first."""
    left = is_plain(words) or IN_ONE_PROCESS.fullmatch(form(words))
    names = ["ray", *["exhaustive"] * bool(left), *marks(words)]
    return [getattr(pytest.mark, name) for name in names]


def typed(words: Sequence[str], folder: Path, timeout_s: float = TYPED_S) -> str:
    """Type a command in a folder, and return what it printed; it has to end with code 0."""
    program, *rest = words
    if program == "make":  # of a clone, with what is installed
        venv = sys.prefix
        command = ["make", "-C", str(ROOT), "-o", f"{venv}/.run", "-o", f"{venv}/.vllm"]
        command += [f"VENV={venv}", *rest]
    else:
        command = [str(Path(sys.prefix, "bin", program)), *rest]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def steps_of(run: Path) -> list[int]:
    """Return the steps of a run, in order."""
    with JournalReader(run / STORE_FOLDER).snapshot() as state:
        return [decode_as(each, StepReport).step for each in state.scan("step_report")]


def only_run(folder: Path) -> Path:
    """Return the run of a folder that has one."""
    (identity,) = folder.glob("runs/*/run.json")
    return identity.parent


def wait_for_the_end(run: Path) -> None:
    """Wait until the launcher of a detached run has ended."""
    deadline = time.monotonic() + TYPED_S
    while is_launched(RunDirectory(run)):
        assert time.monotonic() < deadline, (run / "launch.log").read_text()
        time.sleep(0.5)


def started(words: Sequence[str], folder: Path, program: Sequence[str] = ()) -> Path:
    """Type a command that starts a run; return the run, which has taken its steps.

    ``program`` takes the place of `coevolve launch`.
    """
    if run_file_of(words) in SAVED or CLASS_OF_ONES_OWN.search(shlex.join(words)):
        write_files(folder)
    if settings_of(words)["environment"]["use"] == "hdl":
        write_designs(folder)
    write_policy(words, folder)
    if run_file_of(words) == EXAMPLE.name:
        typed(("coevolve", "environment", "init", "mine"), folder)
        folder /= "mine"
    told = short(words, folder)
    typed((*program, *told[len(LAUNCH) :]) if program else told, folder)
    run = only_run(folder)
    if "--detach" in words:
        wait_for_the_end(run)
    assert steps_of(run) == list(range(1, STEPS + 1))
    assert (run / "config.yaml").is_file()
    return run


@pytest.mark.parametrize(
    "words", [pytest.param(each, id=form(each), marks=suites(each)) for each in APART]
)
def test_a_command_that_starts_a_run_takes_two_steps(words: Sequence[str], tmp_path: Path):
    run = started(words, tmp_path)
    assert (run / "report.html").is_file()


@pytest.mark.parametrize(
    "words", [each for each in APART if IN_ONE_PROCESS.fullmatch(form(each))], ids=form
)
def test_a_command_with_a_users_code_takes_two_steps_in_one_process(
    words: Sequence[str], tmp_path: Path
):
    started(words, tmp_path, program=("python", "-m", "coevolve.loop"))


@pytest.mark.parametrize("words", [each for each in APART if is_plain(each)], ids=form)
def test_plain_settings_of_the_quickstart_are_accepted(words: Sequence[str]):
    settings = short(("coevolve", "launch", "quickstart", *overrides_of(words)), ROOT)[3:]
    answer = answered("config", "check", "quickstart", *settings)
    assert answer.returncode == 0, answer.stderr


def joined(commands: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return one command with the options of several that begin with the same three words."""
    every = list(commands)
    options = dict.fromkeys(word for each in every for word in each[3:])
    return (*every[0][:3], *options)


def about(name: str) -> Iterator[tuple[str, ...]]:
    """Yield the later commands about a run, but not those whose words another one has, too."""
    every = [each for each in LATER.values() if run_of(each) == name and "resume" not in each]
    typed = {tuple(continued(each, name, 0)): None for each in every}
    yield from (each for each in typed if not any(set(each) < set(other) for other in typed))


def resumption(name: str) -> tuple[str, ...]:
    """Return the command that resumes a run for one more step, with all documented options."""
    every = [each for each in LATER.values() if run_of(each) == name and "resume" in each]
    plain = ("coevolve", "resume", name)
    typed = joined([plain, *(continued(each, name, 0)[:-1] for each in every)])
    return (*typed, f"learner.steps={STEPS + 1}")


@pytest.mark.ray
@pytest.mark.parametrize("name", FIRST)
def test_what_is_documented_of_a_run_works_after_two_steps(name: str, tmp_path: Path):
    words = resumption(name)
    first = joined([FIRST[name], *(JOINED if name == "quickstart" else [])])
    run = started((*first, *[COPIES] * (COPIED in words and COPIES not in first)), tmp_path)
    for later in about(name):
        assert typed(later, tmp_path)
    assert steps_of(run) == list(range(1, STEPS + 1))
    if COPIED in words:
        shutil.rmtree(run)
    assert typed(words, tmp_path)
    if "--detach" in words:
        wait_for_the_end(run)
    assert steps_of(run) == list(range(1, STEPS + 2))
    with JournalReader(run / STORE_FOLDER).snapshot() as state:
        assert len(state.scan(topic_of(RunResumed))) == 1


# What is not tried.


def test_every_reason_is_one_of_a_documented_command():
    for each in UNTRIED:
        assert [text for text in documented() if untried(text) == each], each.pattern


CHECKED = """
import json, sys
from tests.commands import answered
texts = json.load(sys.stdin)
said = {text: vars(answered("config", "check", *words)) for text, words in texts.items()}
json.dump(said, sys.stdout)
"""
"""Checks the settings of commands, all in one process."""


def test_a_command_that_is_not_tried_lacks_what_is_said(tmp_path: Path):
    write_files(tmp_path)
    reasons = {text: reason for text in documented() if (reason := untried(text))}
    named = {text: words if starts(words) else words[:3] for text, words in documented().items()}
    texts = {text: named[text][2:] for text in reasons if reasons[text].evidence not in text}
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        input=json.dumps(texts),
        cwd=tmp_path,
        env=os.environ | {"HF_HOME": str(tmp_path / "hub"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = json.loads(done.stdout)
    assert answers.keys() == texts.keys()
    for text, answer in answers.items():
        assert answer["returncode"] == 3, f"{text}\n{answer}"
        assert reasons[text].evidence in answer["stderr"], text


def test_a_new_command_is_tried_without_anything_to_add():
    assert "coevolve launch quickstart --detach" in TRIED
    assert len(TRIED) > 20
    assert not untried("coevolve launch quickstart arm=uniform")
