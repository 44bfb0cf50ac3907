"""The readers of foreign input, each with real inputs, its own errors, and bounds."""

import asyncio
import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coevolve.config.load import load_config
from coevolve.environments.example import __file__ as example
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.gate.patch import PatchError, apply
from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.policy.prompts import UnreadableAnswerError, extract
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit
from coevolve.environments.hdl.stimulus.language import StimulusError, parse
from coevolve.environments.tools.calls import NotACallError, RefusedCallError, parse_call
from coevolve.environments.tools.chat.calls import CallForm, MalformedCallsError, read_calls
from coevolve.environments.tools.synthesis import answers
from coevolve.environments.tools.task_files import read_tasks
from coevolve.history.directory import RunDirectory, RunIdentity, digest_line
from coevolve.llm.client import Chat, PromptMessage, Said
from coevolve.yaml.text import write_yaml
from protocols.errors import ConfigError, EndpointError, RunError
from protocols.synthesizers import EndpointModel

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One reader of foreign input."""

    real: tuple[bytes, ...]
    """Inputs that are read."""

    bad: tuple[bytes, ...] = ()
    """Inputs that broke some parser, or take long."""

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    """Errors of the reader's own, each a clear sentence."""

    structure: str = ""
    """``yaml``, ``json`` or empty: how mutations of structure decode an input."""

    most_ms: float = 1000.0
    """Maximum CPU time of one input, milliseconds."""

    most_mb: float = 256.0
    """Maximum growth of the process over all inputs, megabytes."""


def _bomb(first: bytes, others: bytes, many: int) -> bytes:
    """Return a run file in which each line names the line before, so that it doubles or so."""
    lines = [b"name: a", b"x0: &x0 " + first]
    for number in range(1, many):
        name, before = b"x%d" % number, b"x%d" % (number - 1)
        lines.append(name + b": &" + name + b" " + others.replace(b"%s", before))
    return b"\n".join(lines)


BAD_YAML = (
    _bomb(b"[a]", b"[*%s, *%s]", 40),
    _bomb(b"[a]", b"[" + b"*%s, " * 9 + b"]", 9),
    _bomb(b"{a: 1}", b"{<<: [*%s, *%s]}", 30),
    _bomb(b"[a]", b"{b: [*%s]}", 200),
    _bomb(b"'" + b"a" * 20_000 + b"'", b"[*%s, *%s]", 20),
    b"name: a\nlearner: &l {steps: *l}\n",
    b"name: &n {a: &m [*n, *m]}\n",
    b"? [a, b]\n: c\n",
    b"? {a: b}\n: c\n",
    b"name: !!int x\n",
    b"name: !!timestamp x\n",
    b"name: !!binary x\n",
    b"name: !!bool x\nseed: !!float x\n",
    b"name: !!null x\n!!set {a, b}: 1\n",
    b'name: "a\\ud800"\n',
    b'name: "\\0"\n',
    b'name: "\\UFFFFFFFF"\n',
    b"name: a\nseed: 0x" + b"f" * 9000 + b"\n",
    b"name: a\nseed: " + b"9" * 9000 + b"\n",
    b"name: a\nseed: 0x_\n",
    b"name: a\nevolve_wait_s: " + b":".join([b"59"] * 900) + b".5\n",
    b"name: a\nseed: '" + b"1" * 60_000 + b"!'\n",
    b"name: a\n" + b"".join(b"key%d:\n" % n for n in range(6000)),
    b"name: a\nsignals: {kinds: [" + b"x," * 20_000 + b"]}\n",
    b"name: a\nplacement: {cpus: {" + b"".join(b"k%d: x," % n for n in range(5000)) + b"}}\n",
    b"[" * 60_000,
    b"{a: " * 15_000,
    b"- " * 30_000,
    b"? " * 30_000,
    b"a: |\n" + b" x\n" * 20_000,
    b"*" * 60_000,
    b"&" + b"a" * 60_000 + b" 1",
    b"!<" + b"a" * 60_000 + b"> 1",
    b"%YAML 1." + b"1" * 50_000 + b"\n---\na",
    b"%TAG ! tag:" + b"x" * 50_000 + b"\n---\n!a b",
    b"\xff\xfe" + "name: a\n".encode("utf-16-le"),
    b"name: a\nenvironment: {use: " + b"a." * 20_000 + b"b}\n",
    b"name: a\nenvironment: {use: 'os:system'}\n",
    b"name: a\nenvironment: {1: 2, use: filesystem, [a]: b}\n",
    b"name: a\nenvironment: {use: 'a/../b:c'}\n",
    b"name: a\npolicy: {model: '" + b"a/" * 20_000 + b"'}\n",
    b"name: a\nsynthesizer: {model: {kind: endpoint, model: m, base_url: 'http://u:pw@h/v1'}}\n",
    b"2001-12-14t21:59:43.10-99:99: a\n",
    b"=: =\n<<: <<\n",
    b"",
)  # fmt: skip


def run_files() -> Reader:
    """Run files, as `coevolve launch` reads them."""
    files = sorted((ROOT / "configs").glob("*.yaml"))
    example_run = Path(example).parent / "run.yaml"
    real = tuple(path.read_bytes() for path in (*files, example_run))
    return Reader(
        real=real,
        bad=BAD_YAML,
        read=_from_file("run.yaml", load_config),
        refusals=(ConfigError,),
        structure="yaml",
    )


def overrides() -> Reader:
    """Overrides on the command line."""
    words = (
        *("learner.steps=20", "name=try", "signals.kinds=[rare, boundary]", "a.b.c=1"),
        *("synthesizer.model={kind: endpoint, model: m, base_url: http://127.0.0.1:8000/v1}",),
        *("learner.objective={kind: grpo, clip_high: 0.3}", "placement.cpus={rollout: 4}"),
        *("environment.use=bfcl", "environment={use: hdl, stages: [{groups: 4}]}", "$.seed=0x10"),
    )  # fmt: skip
    bad = (
        *("synthesizer.model.base_url=http://u:pw@h/v1", "http://u:pw@h/v1", "seed=" + "[" * 5000),
        *("a." * 9000 + "b=1", "=" * 9000, "seed=0x" + "f" * 5000),
    )
    return Reader(
        real=_encoded(*words),
        bad=_encoded(*bad),
        read=lambda word: load_config("quickstart", [_text(word)]),
        refusals=(ConfigError,),
    )


MESSAGES = (
    'Sure. <tool_call>\n{"name": "cd", "arguments": {"folder": "a b"}}\n</tool_call>\n<tool_call>'
    '{"name": "ls", "arguments": {"a": true, "n": [1, 2.5, null], "d": {"k": "v"}}}</tool_call>',
    '<|python_tag|>{"name": "f", "parameters": {"a": 1.5}}; {"name": "g", "arguments": {}}',
    "[cd(folder='a, b'),\n mkdir(name=\"\\u00fc\", parents=True), f(1, -2.5, {'a': [None, ()]})]",
    "```python\n[ls(a=True), sort('x')]\n```",
    "<think>\nMaybe ls()\n</think>\n\nAll done.",
    "Finished (really).",
)
BAD_MESSAGES = (
    "[" + "f(a=1)," * 2800 + "]",
    "[" + "f(a='\u00e9'),\n" * 1500 + "]",
    "```" + "\n" * 40_000 + "x",
    "<tool_call>" * 9000,
    "</tool_call>" * 4000 + "<tool_call>" * 4000,
    '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 900 + "]" * 900 + "}}</tool_call>",
    '{"name": "f", "parameters": {"a": ' + "9" * 5000 + "}}",
    '{"name": "f", "parameters": {"a": 1e999}}',
    '{"name":"f"}' * 3000,
    "f(" * 190 + ")" * 190,
    "[f(a=0x" + "f" * 15_000 + ")]",
    "f(" + "-" * 15_000 + "1)",
    "f(" + "not " * 4000 + "1)",
    "f(" + "a." * 9000 + "b)",
    "f" + "()" * 9000,
    "f(\u202e\x1b[2J\x00)",
)  # fmt: skip


def messages(form: CallForm) -> Reader:
    """A chat policy's messages with calls of one form."""
    return Reader(
        real=_encoded(*MESSAGES),
        bad=_encoded(*BAD_MESSAGES),
        read=lambda message: read_calls(form, _text(message)),
        refusals=(MalformedCallsError,),
        structure="json",
    )


def calls() -> Reader:
    """Single calls, as a simulator parses them."""
    tools = {"cd", "ls", "f", "mkdir", "sort", "g"}
    real = (
        *("cd(folder='document')", "ls(a=True)", "f(1, -2.5, {'a': [None, (), \"b\"]})"),
        *("mkdir('a' 'b')", "sort(file_name='x.txt')", "f(a={'k': {1: [True]}}, b=+3)"),
    )
    return Reader(
        real=_encoded(*real),
        bad=_encoded(*(message.strip("[]") for message in BAD_MESSAGES)),
        read=lambda call: parse_call(_text(call), tools),
        refusals=(NotACallError, RefusedCallError),
    )


BASE = (ROOT / "designs/sync_fifo/testbenches/good.sv").read_text("utf-8")


def patches() -> Reader:
    """A policy's hunks for a testbench."""
    lines = BASE.split("\n")
    some = [line for line in lines if line.strip()][4:8]
    hunks = (
        "@@\n " + "\n ".join(some[:2]) + "\n-" + some[2] + "\n+  // new\n " + some[3],
        "--- a/tb.sv\n+++ b/tb.sv\n@@ -5,3 +5,4 @@ module\n " + some[0] + "\n+  logic extra;\n",
        "@@ -0,0 +1 @@\n+// first\n@@ -9 +9 @@\n-" + lines[8] + "\n+" + lines[8] + " // nine",
        "NO_CHANGES",
    )
    bad = (
        "@@ -" + "9" * 5000 + ",1 +1 @@\n+x",
        "@@ -1," + "9" * 5000 + " +1 @@\n+x",
        "@@ -\u0663,1 +1 @@\n+x",
        "@@\n" * 30_000,
        "@@\n" + " \n" * 30_000 + "+x",
        ("@@\n-" + lines[0] + "\n+" + lines[0] + "\n") * 900,
    )
    return Reader(
        real=_encoded(*hunks),
        bad=_encoded(*bad),
        read=lambda patch: apply(BASE, _text(patch)),
        refusals=(PatchError,),
    )


def submissions() -> Reader:
    """A policy's answers with a testbench, a patch or a program in a fence."""
    real = (
        f"filename: tb.sv\n```systemverilog\n{BASE[:800]}\n```",
        "<think>\nwhich?\n</think>\n```stimulus\nrst 2\nstep 3\n```",
        "@@\n a\n+b",
    )
    return Reader(
        real=_encoded(*real),
        bad=_encoded("```\n" * 9000, "<think>" * 9000),
        read=lambda answer: [
            extract(_text(answer), form, "base") for form in ("testbench", "patch", "stimulus")
        ],
        refusals=(UnreadableAnswerError,),
    )


def programs() -> Reader:
    """A policy's stimulus programs."""
    design = load(ROOT / "designs/vend_fsm")
    names = [port.name for port in design.ports if port.direction == "in"]
    real = (
        f"rst 2; step 3\nset {names[-1]}=1 # one\nrand {names[-1]}; prob {names[-1]}=2/8\nstep 9\n",
        f"rep 3\n  inc {names[-1]}\n  rep 2\n step 1\n endrep\nendrep\nset {names[-1]}=0x1\n",
    )
    bad = (
        "rep 99999\n" * 9000,
        "step 999999999\n" * 4000,
        f"set {names[-1]}=" + "9" * 5000,
        "set " + "a" * 60_000 + "=1",
        "step 1;" * 9000,
    )
    unit = design.unit
    return Reader(
        real=_encoded(*real),
        bad=_encoded(*bad),
        read=lambda text: parse(_text(text), design.ports, unit.clock, unit.reset),
        refusals=(StimulusError,),
    )


class NotAllowedError(Exception):
    """A testbench has violations."""


RTL = "module counter #(parameter N = 4) (input logic clk, output logic [N-1:0] q); endmodule\n"


def testbenches() -> Reader:
    """A policy's testbenches, at the source gate; its answer is a list of violations."""
    folder = ROOT / "tests/coevolve/environments/hdl"
    files = (*sorted((folder / "attacks").glob("*.sv")), *sorted((folder / "hostile").glob("*.sv")))
    unit = Unit(name="counter", files=(SourceFile(name="counter.sv", text=RTL),), top="counter")

    def read(text: bytes) -> None:
        if found := violations(_text(text), unit):
            raise NotAllowedError("\n".join(each.message for each in found))

    return Reader(
        real=(BASE.encode(), *(path.read_bytes() for path in files)),
        read=read,
        refusals=(NotAllowedError,),
    )


def task_files() -> Reader:
    """Task files of one's own, as JSON lines."""
    lines = (Path(example).parent / "tasks.jsonl").read_bytes()
    one = lines.splitlines()[0]
    bad = (
        b"[" * 60_000,
        one.replace(b'"add-bread"', b'"a\\ud800"'),
        one.replace(b"false", b"9" * 5000),
        one.replace(b"false", b"[" * 500 + b"]" * 500),
        one.replace(b"false", b"1e999"),
        b'{"a":' * 9000,
        b"\n".join([one] * 3),
    )

    def read(path: Path) -> object:
        return read_tasks(path, "own:Tools", split_seed=0, held_out_share=0.3)

    return Reader(
        real=(lines,),
        bad=bad,
        read=_from_file("tasks.jsonl", read),
        refusals=(ConfigError,),
        structure="json",
    )


def synthesizer_answers() -> Reader:
    """Answers of a synthesizer's model."""
    real = (
        '{"summary": "s", "failure_cause": "f", "focus_pattern": ["a"], "avoid_pattern": "b"}',
        'Thoughts.</think>\n```json\n{"reason": "r", "action": "ls(a=True)"}\n```',
        '{"tasks": [{"turns": [{"instruction": "Do it.", "calls": ["ls()"]}]}]}',
        '{"success": true, "reason": "r"}',
    )
    bad = (
        "{" * 60_000,
        '{"a":' * 60_000,
        '{"a": [' + "{}," * 30_000,
        '{"success": ' + "9" * 5000 + "}",
        '{"summary": "\\ud800"}',
    )
    readers: tuple[Callable[[str], object], ...] = (
        *(answers.read_reflection, answers.read_move),
        *(answers.read_tasks, answers.read_judgement),
    )

    def read(answer: bytes) -> object:
        fault = ""
        for reader in readers:
            try:
                return reader(_text(answer))
            except answers.UnusableAnswerError as error:
                fault = fault or str(error)
        raise answers.UnusableAnswerError(fault)

    return Reader(
        real=_encoded(*real),
        bad=_encoded(*bad),
        read=read,
        refusals=(answers.UnusableAnswerError,),
        structure="json",
    )


def _http(body: bytes, status: str = "200 OK", *fields: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*head, "\r\n"]).encode() + body


COMPLETION = (
    b'{"choices": [{"message": {"role": "assistant", "content": "{\\"a\\": \\"\xc3\xa9\\"}"}}], '
    b'"usage": {"prompt_tokens": 12, "completion_tokens": 7}}'
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"


class Endpoint:
    """A server on loopback that sends its content to whoever asks, and hangs up."""

    def __init__(self) -> None:
        """Listen, in an event loop of its own."""
        self.content = b""
        self._loop = asyncio.new_event_loop()
        server = self._loop.run_until_complete(asyncio.start_server(self._send, "127.0.0.1"))
        port = server.sockets[0].getsockname()[1]
        model = EndpointModel(base_url=f"http://127.0.0.1:{port}/v1", model="m", tries=1)
        self._chat = Chat(model)

    def answer(self, content: bytes) -> Said:
        """Return what the client makes of bytes. Raises EndpointError."""
        self.content = content
        return self._loop.run_until_complete(
            self._chat.ask([PromptMessage(role="user", content="a")])
        )

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.content)
            await writer.drain()
            writer.close()


def endpoint_replies() -> Reader:
    """Replies of a model's server, as it writes them into the connection."""
    real = (
        _http(COMPLETION, "200 OK", "Content-Type: application/json; charset=utf-8"),
        CHUNKED % (len(COMPLETION), COMPLETION),
        ENDLESS + COMPLETION,
        _http(b'{"error": "slow down"}', "429 Too Many Requests", "Retry-After: 7"),
        _http(b'{"error": "max_completion_tokens, temperature"}', "400 Bad Request"),
    )
    bad = (
        _http(b"", "302 Found", "Location: http://u:pw@h/v1"),
        _http(b"x", "200 OK", "Content-Encoding: gzip"),
        _http(b'{"error": "see http://u:pw@h/v1"}', "500 No"),
        _http(COMPLETION.replace(b"\xc3", b"\xff"), "200 OK", "Content-Type: text/html; charset=x"),
        _http(b'{"choices": [{"message": {"content": "\\ud800"}}]}'),
        _http(COMPLETION.replace(b"12", b"9" * 5000)),
        _http(b'{"a":' * 100_000),
        _http(b"[" * 1_000_000),
        _http(b'{"choices": [' + b'{"message": {"content": ""}},' * 30_000),
        _http(COMPLETION, "429 Wait", "Retry-After: " + "9" * 5000),
        _http(COMPLETION, "200 OK", *("X-A: " + "a" * 1000 for _ in range(300))),
        _http(COMPLETION, "99999 OK"),
        ENDLESS + b"x" * (16 << 20),
        CHUNKED % (1 << 60, b"x"),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"SSH-2.0-x\r\n",
        b"",
    )
    endpoint = Endpoint()
    return Reader(real=real, bad=bad, read=endpoint.answer, refusals=(EndpointError,))


def run_folders() -> Reader:
    """The settings or the identity in a run's folder."""
    folder = scratch()
    directory = RunDirectory(folder)
    config = write_yaml(load_config("bfcl_qwen3_4b")).encode()
    identity = RunIdentity(run_id="a", name="b", namespace="c", address="127.0.0.1:1", pid=1)

    def read(content: bytes) -> object:
        is_identity = content.startswith(b"{")
        if is_identity:
            (folder / "run.json").write_bytes(content)
        else:
            (folder / "config.yaml").write_bytes(digest_line(content) + b"\n" + content)
        return directory.identity() if is_identity else directory.written_config()

    return Reader(
        real=(config, config, msgspec.json.encode(identity)),
        bad=BAD_YAML,
        read=read,
        refusals=(RunError,),
        structure="yaml",
    )


def _from_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    folder = scratch()

    def from_file(content: bytes) -> object:
        path = folder / name
        path.write_bytes(content)
        return read(path)

    return from_file


def _encoded(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode(errors="surrogatepass") for text in texts)


def scratch() -> Path:
    """Return a new folder that is removed when the process ends, in memory where possible."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = tempfile.mkdtemp(prefix="coevolve-mutations-", dir=memory)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _text(content: bytes) -> str:
    """Return a policy's text, which may contain unpaired surrogates."""
    return content.decode(errors="surrogateescape")


READERS: dict[str, Callable[[], Reader]] = {
    "run file": run_files,
    "override": overrides,
    "message with tags": lambda: messages("tags"),
    "message with JSON": lambda: messages("json"),
    "message with Python": lambda: messages("python"),
    "tool call": calls,
    "patch": patches,
    "submission": submissions,
    "stimulus program": programs,
    "testbench": testbenches,
    "run folder": run_folders,
    "task file": task_files,
    "synthesizer's answer": synthesizer_answers,
    "endpoint's reply": endpoint_replies,
}
