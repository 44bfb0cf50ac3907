"""A run's folder whose journal grows, and the process of a follower."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from coevolve.followers.said import END, NEWS, Said, folder_of
from coevolve.followers.supervision import environment
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols import columns
from protocols.config import RunConfig
from protocols.journal import Append, Message, Receipt
from protocols.learning import Evaluation, PolicyVersion, StepReport, TaskScore, TrainedGroup
from protocols.rollouts import Action, Rollout, Tokens


class FollowedFolder:
    """A run without parts."""

    def __init__(self, path: Path, config: RunConfig, **settings: Any) -> None:
        """``settings`` are sections of the run file."""
        tree: dict[str, Any] = msgspec.to_builtins(config)
        self.config = msgspec.convert(tree | {"name": "followed"} | settings, RunConfig)
        self.directory = starting.create(path, self.config)
        self.path = path
        self.journal = Journal.open(self.directory.store)
        self._writes = 0

    def write(self, *messages: Message) -> tuple[int, ...]:
        """Append messages and return their sequences."""
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        records = tuple(map(encode, messages))
        return self.journal.append(Append(records=records, receipt=receipt)).result(10)


class FollowerProcess:
    """A follower as the launcher starts it."""

    def __init__(self, run: FollowedFolder, name: str) -> None:
        settings = run.config.trackers
        self._process = subprocess.Popen(
            [sys.executable, "-m", "coevolve.followers", str(run.path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(settings, folder_of(run.path, name), ()),
            start_new_session=True,
        )

    def said(self) -> Said:
        """Return its next line."""
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.readline(), type=Said)

    def tell(self, line: bytes = NEWS) -> None:
        """Tell it that there is news."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def end(self) -> int:
        """Tell it that the run has ended; return its exit code."""
        self.tell(f"{END}\n".encode())
        assert self.said() == Said()
        return self._process.wait(60)

    def kill(self) -> None:
        """Kill it and its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    def close(self) -> int:
        """Close its input, as the death of its launcher does; return its exit code."""
        self._process.communicate(timeout=60)
        return self._process.returncode


@contextmanager
def following(run: FollowedFolder, name: str) -> Generator[FollowerProcess]:
    """Yield a follower that has taken up everything; it is killed if it still runs afterwards."""
    process = FollowerProcess(run, name)
    try:
        said = process.said()
        assert said == Said(), said
        yield process
    finally:
        process.kill()


def acted(task: str, index: int) -> Rollout:
    """Return a rollout with one action."""
    return Rollout(
        group_id=f"g-{task}",
        group=0,
        index=index,
        group_size=2,
        task_id=task,
        seed=index,
        tokens=Tokens(
            token_ids=columns.int32((1, 2)),
            mask=columns.uint8((0, 1)),
            logprobs=columns.float32((0.0, -1.0)),
            versions=columns.int32((-1, 0)),
        ),
        actions=(Action(turn=0, text=f"ls('{index}')", result="\x1bempty", failed=False),),
        turns_passed=index,
        turns_total=1,
        reward=float(index),
        version_min=0,
        version_max=0,
        ended="finished",
        wall_s=0.1,
    )


def taken(step: int, *sequences: int) -> StepReport:
    """Return a step with a metric on one group of rollouts."""
    group = TrainedGroup(
        group_id="g-t",
        group=0,
        task_id="t",
        sequences=sequences,
        successes=1,
        use="policy_gradient",
    )
    return StepReport(
        step=step,
        groups=(group,),
        weights_digest="",
        groups_consumed=step,
        metrics={"critic/rewards/mean": step / 2, "actor/kl(k3)": 0.25},
    )


def published(version: int) -> PolicyVersion:
    """Return a version without weights."""
    path = f"versions/{version}"
    return PolicyVersion(
        version=version, path=path, format="lora", digest="", size_bytes=0, kept=True
    )


def scored(version: int, passed: int) -> Evaluation:
    """Return an evaluation in which ``passed`` of 4 held-out tasks passed."""
    scores = tuple(
        TaskScore(task_id=f"h{number}", turns_passed=int(number < passed), turns_total=1)
        for number in range(4)
    )
    return Evaluation(version=version, scores=scores, errors=0, wall_s=1.0)
