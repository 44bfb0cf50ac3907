"""vLLM's OpenAI-compatible server in its own process group, on the CPU.

`serving_model` starts one on the loopback interface and ends it with all its children.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psutil

READY_S = 240.0
"""Maximum seconds until it is ready; it takes 16 s on idle cores."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = (
    *("--dtype", "float32", "--block-size", "32", "--kv-cache-memory-bytes", str(128 << 20)),
    *("--max-num-seqs", "16", "--enforce-eager", "--distributed-executor-backend", "uni"),
)


@dataclass(frozen=True)
class VllmServer:
    """The server, as a test uses it."""

    base_url: str
    model: str
    """Name under which the model is served."""


@contextlib.contextmanager
def serving_model(folder: Path, name: str, log: Path, *, length: int) -> Generator[VllmServer]:
    """Serve the model in ``folder`` with contexts of ``length`` tokens until the block ends."""
    port = _free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
                *("--model", str(folder), "--served-model-name", name),
                *("--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(length)),
                *OPTIONS,
            ],
            env={**os.environ, **ENVIRONMENT},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_health(process, port, log)
        yield VllmServer(base_url=f"http://127.0.0.1:{port}/v1", model=name)
    finally:
        _end(process)


def _await_health(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
            return
        time.sleep(0.2)
    said = log.read_text(encoding="utf-8", errors="replace")[-4000:]
    raise AssertionError(f"no server within {READY_S} s, exit code {process.poll()}: {said}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the server and all its children, by force if necessary."""
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait(10)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
