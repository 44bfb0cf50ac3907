"""Plants secrets and hostile text in a real run, and searches for them wherever others could look.

The environment is a key-value store of one's own: its tasks, its answers and the replies of the
synthesizer's model hold escape sequences, bidirectional and invisible characters, and HTML. The
launcher's environment holds secrets; one is the key that the model's server demands. While the run
trains, and after it, the scans of `tests.exposure` look at every process, file and output. The
launcher's own environment is the user's, and is not looked at.
"""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil
from rich.table import Table

from coevolve.journal.codec import TOPICS
from coevolve.launcher.interrupts import INTERRUPTED
from protocols.learning import StepReport
from protocols.tasks import Synthesized, Task
from tests import exposure
from tests.bench import output
from tests.chat_server import digest_of, serving
from tests.commands import ROOT
from tests.launched import LaunchedRun
from tests.own.brain import Messages, key_value_brain

OWN = Path(__file__).parents[1] / "own"
SECRETS = {
    "PLANTED_API_KEY": "sk-planted-4f1c9b7d2e8a",
    "OPENAI_API_KEY": "sk-planted-0b6e3d5a9c17",
    "HF_TOKEN": "hf_planted-77aa31c04d",
    "AWS_SECRET_ACCESS_KEY": "planted/Wq8vYz3LkT0n",
    "DATABASE_PASSWORD": "planted-correct-horse",
}
"""Variables whose names say what they hold."""

UNNAMED = {"HARMLESS": "ghp_planted-93c2b1e6f0"}
"""A variable with a token under another name: processes have it, but they write it nowhere."""

TOKENS = SECRETS | UNNAMED

ASKING = """
import json, sys
from tests.commands import answered
answers = [answered(*words) for words in json.load(sys.stdin)]
print(json.dumps([each.stdout + each.stderr for each in answers]))
"""

JOINING = """
import sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False)
"""
"""Joins a cluster, as its user does and as a stranger would."""

PLANT = exposure.HOSTILE + exposure.HOSTILE_PAGE
SHORT = "\x1b]0;\x07\u202e<script>"
"""In the replies of the synthesizer's model: longer ones would make all its tasks duplicates."""

TEMPORARY = "t"
"""The run's folder for temporary files, in that of the bench."""

PATIENCE_S = 600.0
JOIN_S = 60.0
EXPORTS = ("pool", "rollouts", "verl", "sft")

WHAT = {
    "sockets": "listening sockets beyond loopback",
    "strangers": "strangers without Ray's token who join",
    "modes": "files and folders open to other users",
    "processes": "processes other than the launcher with a secret",
    "cores": "processes that may dump core or have an open umask",
    "files": "files with a secret",
    "terminal": "outputs with characters that act or hide",
    "report": "active parts of the report, of planted ones that it shows",
    "left": "things left behind",
}


class Scan(msgspec.Struct, kw_only=True):
    """One kind of exposure."""

    looked_at: int = 0
    findings: list[str] = msgspec.field(default_factory=list[str])


@dataclass
class Scans:
    """All kinds, and what was found."""

    by_kind: dict[str, Scan] = field(default_factory=lambda: {kind: Scan() for kind in WHAT})

    def add(self, kind: str, looked_at: int, findings: Sequence[str]) -> None:
        """Count what was looked at, and keep what was found."""
        self.by_kind[kind].looked_at += looked_at
        self.by_kind[kind].findings += findings


def main(arguments: list[str]) -> None:
    """Run the bench; exit with 1 if anything is exposed."""
    parser = output.parser_of("exposure", __doc__)
    parser.add_argument("--steps", type=int, default=8, help="learner steps before the end")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="x-"))  # short, because sockets lie below it
    try:
        scans = _scanned(folder, given.steps)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    output.show(scans.by_kind, _table, as_json=given.json, width=160)
    if any(scan.findings for scan in scans.by_kind.values()):
        sys.exit(1)


def _table(by_kind: Mapping[str, Scan]) -> Table:
    rows = [
        (WHAT[kind], ascii(scan.findings[:3])[1:-1], str(scan.looked_at), str(len(scan.findings)))
        for kind, scan in by_kind.items()
    ]
    return output.table("exposure", ("what", "first", "looked at", "found"), rows, words=2)


def _scanned(folder: Path, steps: int) -> Scans:
    """Let a run train for some steps, and scan it before and after its end."""
    scans = Scans()
    temporary = folder / TEMPORARY
    temporary.mkdir()
    _write_environment(folder)
    with serving(_brain, key_digest=digest_of(SECRETS["PLANTED_API_KEY"])) as server:
        run = _OnTerminal(folder, server.base_url)
        run.start()
        try:
            run.until("tasks of its own", lambda: _own_tasks(run) > 0, PATIENCE_S)
            run.until("steps", lambda: run.count(StepReport) >= steps, PATIENCE_S)
            processes = run.processes()
            _scan_processes(processes, scans)
            _scan_strangers(run, scans)
            _scan_modes(run, processes, scans)
            _scan_outputs(run, scans)
            run.signal(signal.SIGINT)
            assert run.wait(120) == INTERRUPTED, run.said()[-2000:]
        finally:
            _end(run.processes())
    scans.add("terminal", 1, exposure.unsafe("the live display", run.said(), drawn=True))
    _scan_outputs(run, scans)
    _scan_files(run, scans, folder)
    left = list(temporary.iterdir())
    alive = [each for each in processes if each.is_running()]
    scans.add("left", len(processes), [f"{each} is left" for each in (*left, *alive)])
    return scans


def _own_tasks(run: LaunchedRun) -> int:
    """Return how many tasks the loop has made."""
    if not run.holds(Task):
        return 0
    return sum(isinstance(each.origin, Synthesized) for each in run.scan(Task))


def _write_environment(folder: Path) -> None:
    """Write a store whose answers are hostile, and tasks whose texts are."""
    source = (OWN / "keyvalue.py").read_text().replace('"ok"', repr(f"ok{PLANT}"))
    (folder / "hostilestore.py").write_text(source)
    tasks = [json.loads(line) for line in (OWN / "keyvalue.jsonl").read_text().splitlines()]
    for task in tasks:
        task["world"] = {key: value + PLANT for key, value in task["world"].items()}
        for turn in task["turns"]:
            turn["instruction"] += PLANT
    lines = "".join(json.dumps(task) + "\n" for task in tasks)
    (folder / "hostile.jsonl").write_text(lines)
    settings = (OWN / "run.yaml").read_text().replace("keyvalue:KeyValue", "hostilestore:KeyValue")
    (folder / "run.yaml").write_text(settings.replace("keyvalue.jsonl", "hostile.jsonl"))


def _brain(messages: Messages) -> str:
    """Answer as the scripted model does, with hostile text at the end of each sentence."""
    planted = json.dumps(SHORT)[1:-1].replace("\\", r"\\")
    return re.sub(r'\.("[,}])', rf".{planted}\1", key_value_brain(messages))


class _OnTerminal(LaunchedRun):
    """A run whose output goes to a terminal, and is kept."""

    def __init__(self, folder: Path, base_url: str) -> None:
        endpoint = f"{{kind: endpoint, base_url: '{base_url}', model: scripted"
        super().__init__(
            folder / "runs",
            "exposed",
            f"synthesizer.model={endpoint}, key_variable: PLANTED_API_KEY}}",
            "evolve_every=4",
            "evaluator.every=4",
            run_file=str(folder / "run.yaml"),
        )
        temporary = {"PYTHONPATH": str(folder), "TMPDIR": str(folder / TEMPORARY)}
        self.environment = os.environ | SECRETS | UNNAMED | temporary
        self._shown = bytearray()

    def start(self, *flags: str) -> None:
        """Start it."""
        shown, terminal = pty.openpty()
        words = ("launch", self._run_file, f"name={self._name}", *self._overrides, *flags)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coevolve", *words, "--runs", str(self._runs)],
            cwd=self._runs.parent,
            env=self.environment | {"TERM": "xterm-256color", "PYTHONPATH": self._paths()},
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            text=True,
            start_new_session=True,
        )
        os.close(terminal)
        threading.Thread(target=self._keep, args=(shown,), daemon=True).start()

    def _paths(self) -> str:
        return os.pathsep.join((self.environment["PYTHONPATH"], str(ROOT)))

    def _keep(self, shown: int) -> None:
        try:
            while piece := os.read(shown, 1 << 16):
                self._shown += piece
        except OSError:  # the terminal's other end is closed
            return

    def said(self) -> str:
        """Return everything that the terminal got."""
        return self._shown.decode(errors="surrogateescape")

    def address(self) -> str:
        """Return the address of the run's cluster."""
        return json.loads((self.directory / "run.json").read_bytes())["address"]

    def joins(self, address: str, **variables: str) -> bool:
        """Return whether a process with these variables joins the cluster in time."""
        # Otherwise Ray would try this machine's other address.
        loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", JOINING, address],
                env=self.environment | loopback | variables,
                capture_output=True,
                timeout=JOIN_S,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def commands(self, *commands: Sequence[str]) -> list[str]:
        """Return what commands print on standard output and error, in one process of their own."""
        done = subprocess.run(
            [sys.executable, "-c", ASKING],
            input=json.dumps(commands),
            cwd=self._runs.parent,
            env=self.environment | {"PYTHONPATH": self._paths()},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def _end(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, 30)


def _scan_processes(processes: Sequence[psutil.Process], scans: Scans) -> None:
    """Look at all living processes of the run."""
    sockets = sum(len(exposure.listening(each)) for each in processes)
    scans.add("sockets", sockets, exposure.reachable_sockets(processes))
    scans.add("cores", len(processes), exposure.careless(processes))
    others = exposure.secrets_of_processes(processes[1:], SECRETS)
    scans.add("processes", len(processes) - 1, others)


def _scan_strangers(run: _OnTerminal, scans: Scans) -> None:
    """Try to join the run's cluster with its user's token, and without."""
    address = run.address()
    assert run.joins(address), "the run's own user cannot join"
    strangers: tuple[dict[str, str], ...] = (
        {"RAY_AUTH_TOKEN": "0" * 64},
        {"RAY_AUTH_MODE": "disabled"},
    )
    joined = [f"{each} joins Ray" for each in strangers if run.joins(address, **each)]
    scans.add("strangers", len(strangers), joined)


def _scan_modes(run: LaunchedRun, processes: Sequence[psutil.Process], scans: Scans) -> None:
    """Look at the run's files, and at what it made in folders that all users share."""
    temporary = run.directory.parents[1] / TEMPORARY
    shared = exposure.shared_memory(processes)
    paths = [*exposure.tree(run.directory), *temporary.iterdir(), *shared]
    paths.append(Path.home() / ".ray" / "auth_token")
    scans.add("modes", len(paths), exposure.open_to_others(paths))


def _commands(run: LaunchedRun) -> list[tuple[str, ...]]:
    """Return the commands that print what others wrote."""
    task = run.scan(Task)[-1].task_id
    tails = [("tail", topic, "--last", "1000") for topic in TOPICS]
    looks = [("status", "--journal"), ("signals",), ("tasks",), ("lineage", task), *tails]
    attach = [("attach", str(run.directory), *words) for words in looks]
    return [*attach, *((*words, "--json") for words in attach)]


def _scan_outputs(run: _OnTerminal, scans: Scans) -> None:
    """Look at what every command prints that only looks."""
    seen = 0
    commands = _commands(run)
    for words, text in zip(commands, run.commands(*commands), strict=True):
        seen += text.count("UExBTlQ=")
        scans.add("terminal", 1, exposure.unsafe(" ".join(words), text))
        held = [
            f"{' '.join(words)} prints {name}" for name, value in TOKENS.items() if value in text
        ]
        scans.add("files", 0, held)
    assert seen, "no command has shown the planted text"


def _scan_files(run: _OnTerminal, scans: Scans, folder: Path) -> None:
    """Look at everything that the run and its exports wrote."""
    name, exports = str(run.directory), {kind: folder / "exports" / kind for kind in EXPORTS}
    made = [("export", name, kind, "--to", str(target)) for kind, target in exports.items()]
    said = run.commands(*made, ("report", name))
    for target in exports.values():
        assert target.is_dir(), said
        card = target / "README.md"
        scans.add("terminal", 1, exposure.unsafe(str(card), card.read_text()))
    page = (run.directory / "report.html").read_text()
    scans.add("report", page.count("script&gt;"), exposure.active_parts("report.html", page))
    scans.add("terminal", 1, exposure.unsafe("report.html", page))
    for log in (run.directory / "logs").rglob("*"):
        if log.is_file():
            scans.add("terminal", 1, exposure.unsafe(log.name, log.read_text(errors="replace")))
    paths = [*exposure.tree(run.directory), *exposure.tree(folder / "exports")]
    scans.add("files", len(paths), exposure.secrets_of_files(paths, TOKENS))
    scans.add("modes", len(paths), exposure.open_to_others(exposure.tree(run.directory)))
