"""A process that writes to a journal as fast as it can, and reports each step until it is killed.

It prints each line in one piece before the next step: `sent` before a write, `done` after its
answer. So the reader of the pipe knows which writes had been answered when the process died.

Run as a program, it forks such a process for each line of input, because starting Python takes
longer than the process should live, and prints `dead` when the process has ended.
"""

import fcntl
import json
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from coevolve.journal.journal import Journal
from protocols.errors import JournalError
from protocols.journal import Append, Durability
from tests.journals import WAIT_S, append, complete, record, take

WRITERS = 3
WORKERS = 2
PIPE_BYTES = 1 << 20
RETAIN_BYTES = 200_000


def say(line: str) -> None:
    """Print a line in one piece."""
    os.write(1, f"{line}\n".encode())


class JournalWriter:
    """Writes from several threads, and says each step."""

    def __init__(
        self, journal: Journal, said: Callable[[str], None] = say, pause_s: float = 0.0
    ) -> None:
        """Wait up to twice ``pause_s`` between two steps of a thread."""
        self._journal = journal
        self._said = said
        self._pause_s = pause_s

    def start(self, unanswered: Sequence[tuple[str, int, str]]) -> None:
        """Repeat ``unanswered`` writes (producer, counter, body), then append, take and complete.

        The threads write until the process dies or the journal is closed.
        """
        # Retention keeps only what a consumer has subscribed to, so subscribe before any append.
        first = take("rollout", member="first", incarnation=uuid.uuid4().hex, lease_s=0.0)
        self._journal.take(first).result(WAIT_S)
        self._said("open")
        for producer, counter, body in unanswered:
            self._journal.append(_write(producer, counter, body)).result(WAIT_S)
            self._said(f"done {producer} {counter}")
        workers = [partial(self._work, f"worker-{number}") for number in range(WORKERS)]
        for steps in (*[self._append] * WRITERS, *workers):
            threading.Thread(target=self._until_closed, args=(steps,), daemon=True).start()

    def _until_closed(self, steps: Callable[[], Iterator[None]]) -> None:
        chance = random.Random(threading.get_ident())
        with suppress(JournalError):
            for _ in steps():
                time.sleep(chance.uniform(0.0, 2.0 * self._pause_s))

    def _append(self) -> Iterator[None]:
        producer = uuid.uuid4().hex
        for counter in range(1, 1_000_000):
            body = f"{producer}-{counter}"
            self._said(f"sent {producer} {counter} {body}")
            self._journal.append(_write(producer, counter, body)).result(WAIT_S)
            self._said(f"done {producer} {counter}")
            yield

    def _work(self, member: str) -> Iterator[None]:
        me = uuid.uuid4().hex
        counter = 0
        while True:
            request = take("rollout", member=member, incarnation=me, limit=3)
            for stored in self._journal.take(request).result(WAIT_S).records:
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
                self._journal.complete(finish).result(WAIT_S)
                self._said(f"finished {body}")
                yield
            yield


def _write(producer: str, counter: int, body: str) -> Append:
    padding = "." * (int(body.rpartition("-")[2]) * 977 % 6000)
    return append(
        record(f"{body} {padding}", "rollout", kind="in"),
        record(body, "task"),
        producer=producer,
        counter=counter,
    )


def _life(folder: Path, durability: Durability, unanswered: list[tuple[str, int, str]]) -> None:
    journal = Journal.open(folder, durability=durability, retain_bytes=RETAIN_BYTES)
    JournalWriter(journal).start(unanswered)
    threading.Event().wait()


if __name__ == "__main__":
    fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    for line in sys.stdin:
        life = json.loads(line)
        pid = os.fork()
        if not pid:
            _life(Path(life["folder"]), life["durability"], life["unanswered"])
        say(f"born {pid}")
        os.waitpid(pid, 0)
        say("dead")
