"""The documented commands that train or evaluate, and how each is tried in seconds.

The commands are those of the README, the pages and the run files, and `coevolve launch NAME` for
each run file that coevolve carries. Commands that differ in names, seeds and numbers of steps alone
are one. A tried command is the documented one with placeholders filled in and with settings that
make it short; settings that the page gives stay, but for the number of steps.
"""

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coevolve.config.load import load_config
from coevolve.config.run_files import carried, run_file
from coevolve.environments.registry import environment_of
from coevolve.models.tiny_random.model import write_model
from tests.documented import PAGES, ROOT, RUN_FILES, SAVED, block_of, commands

EXAMPLE = RUN_FILES[-1]
"""The run file of the example that `coevolve environment init` writes."""

STEPS = 2

ALIKE = ("name", "seed", "learner.steps")
"""Settings in which commands may differ and still be one."""

PLACEHOLDERS = {"S": "0", "300": "4", "30": "4", "FOLDER": "copies"}
"""Word of a page -> what is typed; 300 and 30 are numbers of instances."""

STATIC = ("arm=static", "evolve_every=0", "rollout.max_call_tokens=160")

SHORT: dict[str, Sequence[str]] = {
    "filesystem": ("environment.held_out=12", "rollout.in_flight_groups=6"),
    "toolbox": ("rollout.in_flight_groups=6",),
    "hdl": ("environment.evaluation_rounds=1", "environment.designs=designs"),
    "tiny_hdl": ('environment.stages=[{"writers":["grammar"],"groups":2},{"writers":["policy"]}]',),
    "program": ("rollout.group_size=2", "learner.groups_per_step=1"),
    "bfcl": ("environment.seeds=8", "environment.held_out=4", *STATIC),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ("arm=static", "evolve_every=0"),
}
"""Environment or model -> settings that make its runs short; `write_designs` makes the folder.
BFCL's and those of a pretrained model need an endpoint unless the arm is static."""


IN_OTHER_TESTS = ("coevolve launch program_openai",)
"""Commands that start a run which a test of its own tries: `tests/test_runs_program.py`."""

IN_ONE_PROCESS = re.compile(
    r"coevolve launch (?:(?:letters|agent|notes)\.yaml|quickstart 'learner\.objective=.*\w:\w.*)"
)
"""Commands with a user's code. `make test` tries them by `python -m coevolve.loop` in place of
`coevolve launch`, with which `make test-exhaustive` tries them. That the processes of a run find a
user's code is tried by `tests/coevolve/commands/test_start.py`."""

PLAIN = re.compile(
    r"(?:arm|name|seed|(?:evaluator|learner|rollout|environment)\.(?!devices|objective|gpus)[\w.]+)=.*"
    r"|learner\.objective=\{kind: \w+\W.*"
)
"""Settings that start nothing of their own, no process, no server and no code of the user's."""


class Untried(NamedTuple):
    """Why commands are not tried."""

    pattern: str
    """Regular expression of the commands."""

    lacking: str
    """What is lacking here, in words."""

    evidence: str
    """A part of the command, or of what `coevolve config check` says of it, that shows it."""


DOWNLOAD = "hf download"
"""What `config check` says of a run file whose model is not on this machine."""

UNTRIED = (
    Untried(r".* cluster\.address=HEAD:6379 .*", "a cluster of several machines", "HEAD"),
    Untried(r"coevolve resume mine --runs /data/runs", "a disk of several machines", "/data/"),
    Untried(r".*s3://BUCKET/runs\b.*", "a bucket", "BUCKET"),
    Untried(r"coevolve evaluate --endpoint .*", "an endpoint with a language model", "--endpoint"),
    Untried(
        r"coevolve evaluate --environment .*", "an endpoint with a language model", "--endpoint"
    ),
    Untried(
        r"coevolve evaluate .*--benchmark .*", "a benchmark that users download", "cvdp_ecov.jsonl"
    ),
    Untried(r"coevolve launch mine\.yaml learner\.gpus=.*", "GPUs and a model", DOWNLOAD),
    Untried(r"coevolve launch \w+_qwen\w+", "GPUs and a model", DOWNLOAD),
    Untried(r"coevolve launch smollm2\w*", "a model of 540 MB", DOWNLOAD),
    Untried(r"coevolve resume smollm2 .*", "a GPU and the same model", DOWNLOAD),
)


def form(words: Sequence[str]) -> str:
    """Return the command without what `ALIKE` names: commands with one form are one."""
    flat = [each for word in words for each in (_argument(word) if "ARGS=" in word else (word,))]
    return shlex.join(word for word in flat if word.partition("=")[0] not in ALIKE)


def _argument(word: str) -> Sequence[str]:
    """Return the words that `make quickstart ARGS=...` passes on."""
    return ("ARGS", *shlex.split(word.partition("=")[2]))


@cache
def documented() -> dict[str, tuple[str, ...]]:
    """Return the commands that train or evaluate by form, in the order of the pages."""
    found: dict[str, tuple[str, ...]] = {}
    for words in (*_typed(), *(("coevolve", "launch", name) for name in carried())):
        if _trains(words):
            found.setdefault(form(words), words)
    return found


def _typed() -> Iterator[tuple[str, ...]]:
    for file in (*PAGES, *RUN_FILES):
        yield from (command.words for command in commands(file))


def _trains(words: Sequence[str]) -> bool:
    """Return whether a command trains or evaluates; the bare name of one is no command."""
    match words:
        case ("coevolve", "launch" | "resume", _, *rest):
            return "--dry-run" not in rest
        case ("coevolve", "evaluate", _, *_) | ("coevolve", "replay", *_):
            return True  # `replay` has a run by default
        case ("make", "quickstart" | "quickstart-vllm", *rest):
            return "ARGS=KEY=VALUE" not in rest
        case _:
            return False


def untried(command: str) -> Untried | None:
    """Return why a command is not tried; None if it is."""
    return next((each for each in UNTRIED if re.fullmatch(each.pattern, command)), None)


def starts(words: Sequence[str]) -> bool:
    """Return whether a command starts a new run."""
    return words[0] == "make" or words[1] == "launch"


def is_plain(words: Sequence[str]) -> bool:
    """Return whether a command gives the quickstart plain settings and nothing else."""
    if words[0] == "make":
        flat = shlex.split(" ".join(words[2:]).removeprefix("ARGS="))
    else:
        flat = list(words[3:])
    there = run_file_of(words) == "quickstart" and bool(flat)
    return there and all(PLAIN.fullmatch(_filled(each)) for each in flat)


def overrides_of(words: Sequence[str]) -> list[str]:
    """Return the settings that a command gives."""
    flat = (
        shlex.split(words[2].removeprefix("ARGS=")) if words[0] == "make" and words[2:] else words
    )
    return [word for word in flat if re.match(r"[a-z_.]+=", word)]


def run_file_of(words: Sequence[str]) -> str:
    """Return the run file that a command starts."""
    return words[2] if words[0] == "coevolve" else words[1].replace("-", "_")


def settings_of(words: Sequence[str]) -> Any:
    """Return the content of the run file that a command starts, as it is written."""
    file = run_file_of(words)
    if file in SAVED:
        return msgspec.yaml.decode(block_of(*SAVED[file]).text)
    path = EXAMPLE if file == EXAMPLE.name else run_file(file)
    return msgspec.yaml.decode(path.read_bytes())


def marks(words: Sequence[str]) -> list[str]:
    """Return the marks of the suite that has what a command needs; [] for `make test`."""
    settings = settings_of(words)
    if settings["environment"]["use"] == "appworld":
        return ["appworld"]
    engine = settings["rollout"].get("engine", {})
    return ["vllm"] if engine.get("kind") == "vllm" else []


def short(words: Sequence[str], folder: Path) -> list[str]:
    """Return the words to type in ``folder`` for a command that starts a run."""
    given = {each.partition("=")[0] for each in overrides_of(words)} - {"learner.steps"}
    shorter = _shorter(settings_of(words))
    added = [each for each in shorter if each.partition("=")[0] not in given]
    if words[0] == "make":
        runs = f"--runs {shlex.quote(str(folder / 'runs'))}"
        told = [*(_filled(each) for each in overrides_of(words)), *added]
        return ["make", words[1], f"ARGS={shlex.join(told)} {runs}"]
    return [*map(_filled, words), *added]


def _shorter(settings: Any) -> Iterator[str]:
    yield f"learner.steps={STEPS}"
    yield from ("learner.groups_per_step=2", "rollout.group_size=4", "simulator.workers=1")
    for what in (settings["environment"]["use"], settings["policy"]["model"]):
        yield from SHORT.get(what, ())
    if settings.get("learner", {}).get("imitation", {}).get("replay_per_step"):
        yield "learner.imitation.replay_per_step=4"
    if settings.get("evaluator", {}).get("fresh"):
        yield "evaluator.fresh=4"


def write_policy(words: Sequence[str], folder: Path) -> None:
    """Write a tiny random model where a command typed in ``folder`` names its policy."""
    named = [word for word in words if word.startswith("policy.model=")]
    if named:
        config = load_config(run_file_of(words), ["policy.model=tiny"])
        write_model(config, folder / named[0].partition("=")[2], environment_of(config).texts())


FEW = {"--calls": "2", "--attempts": "2"}
"""Option -> the number that is typed for it."""

DESIGNS = ("vend_fsm", "lifo_stack", "rr_arbiter")
"""Two that are trained on, and one that is held out."""


def write_designs(folder: Path) -> None:
    """Write the folder of designs that short runs have in place of the project's own."""
    for name in DESIGNS:
        shutil.copytree(ROOT / "designs" / name, folder / "designs" / name)


def continued(words: Sequence[str], run: str, steps: int) -> list[str]:
    """Return the words to type for a command about ``run``; a resumption goes on to ``steps``."""
    typed = [run if each in ("RUN", "NAME") else _filled(each) for each in words]
    typed = [FEW.get(before, each) for before, each in pairwise(["", *typed])]
    if "--config" in words:
        typed += ["--designs", "designs", *chain(*FEW.items())]
    typed = [
        each for each in typed if not re.search(r"=(?:VALUE|MORE|\d+)$", each) or "devices" in each
    ]
    return [*typed, f"learner.steps={steps}"] if words[1] == "resume" else typed


def _filled(word: str) -> str:
    name, equals, value = word.rpartition("=")
    return f"{name}{equals}{PLACEHOLDERS.get(value, value)}"
