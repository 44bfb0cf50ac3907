"""A server whose questions do something to the process that answers them."""

import os
import signal
import time
from pathlib import Path

from coevolve.environments.hdl.gate.fork_server import serve


def answer(question: bytes) -> bytes:
    """Do what the first word says, and return the rest of the question."""
    deed, _, rest = question.partition(b" ")
    match deed:
        case b"return":
            return rest
        case b"descend":
            return b"%d" % _descended(int(rest))
        case b"allocate":
            return bytes(1 << 40)
        case b"spin":
            while True:
                pass
        case b"sleep":
            time.sleep(60)
        case b"overflow":
            signal.raise_signal(signal.SIGSEGV)
        case b"end_server":
            os.kill(_parent(os.getppid()), signal.SIGKILL)
        case _:
            raise ValueError(deed)
    return rest


def _descended(frames: int) -> int:
    return 1 + _descended(frames - 1) if frames else 0


def _parent(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


if __name__ == "__main__":
    serve(answer)
