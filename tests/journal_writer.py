"""A process that writes to a journal as fast as it can, and reports each step until it is killed.

It prints each line in one piece before the next step: `sent` before a write, `done` after its
answer. So the reader of the pipe knows which writes had been answered when the process died.

Run as a program, it forks such a process for each line of input, because starting Python takes
longer than the process should live, and prints `dead` when the process has ended.
"""

import fcntl
import json
import os
import sys
import threading
import uuid
from pathlib import Path

from coevolve.journal.journal import Journal
from protocols.journal import Append, Durability
from tests.journals import WAIT_S, append, complete, record, take

WRITERS = 3
WORKERS = 2
PIPE_BYTES = 1 << 20


def write_until_killed(
    folder: Path, durability: Durability, unanswered: list[tuple[str, int, str]]
) -> None:
    """Repeat ``unanswered`` writes (producer, counter, body), then append, take and complete."""
    journal = Journal.open(folder, durability=durability, retain_bytes=200_000)
    # Retention keeps only what a consumer has subscribed to, so subscribe before the first append.
    journal.take(take("rollout", member="first", incarnation=uuid.uuid4().hex, lease_s=0.0)).result(
        WAIT_S
    )
    _say("open")
    for producer, counter, body in unanswered:
        journal.append(_write(producer, counter, body)).result(WAIT_S)
        _say(f"done {producer} {counter}")
    for _ in range(WRITERS):
        threading.Thread(target=_append_on, args=(journal,)).start()
    for number in range(WORKERS):
        threading.Thread(target=_work_on, args=(journal, f"worker-{number}")).start()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _write(producer: str, counter: int, body: str) -> Append:
    padding = "." * (int(body.rpartition("-")[2]) * 977 % 6000)
    return append(
        record(f"{body} {padding}", "rollout", kind="in"),
        record(body, "task"),
        producer=producer,
        counter=counter,
    )


def _append_on(journal: Journal) -> None:
    producer = uuid.uuid4().hex
    for counter in range(1, 1_000_000):
        body = f"{producer}-{counter}"
        _say(f"sent {producer} {counter} {body}")
        journal.append(_write(producer, counter, body)).result(WAIT_S)
        _say(f"done {producer} {counter}")


def _work_on(journal: Journal, member: str) -> None:
    me = uuid.uuid4().hex
    counter = 0
    while True:
        request = take("rollout", member=member, incarnation=me, limit=3)
        for stored in journal.take(request).result(WAIT_S).records:
            counter += 1
            body = stored.body.split()[0].decode()
            finish = complete(
                stored.sequence,
                outputs=[record(body, "result")],
                member=member,
                incarnation=me,
                producer=me,
                counter=counter,
            )
            journal.complete(finish).result(WAIT_S)
            _say(f"finished {body}")


if __name__ == "__main__":
    fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    for line in sys.stdin:
        life = json.loads(line)
        pid = os.fork()
        if not pid:
            write_until_killed(Path(life["folder"]), life["durability"], life["unanswered"])
            threading.Event().wait()
        _say(f"born {pid}")
        os.waitpid(pid, 0)
        _say("dead")
