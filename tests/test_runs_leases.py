"""A real run whose attempts last longer than a lease: two rollout actors do each request once."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest

from coevolve.journal.codec import TOPICS, decode
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from protocols.control import DeadLetter, UnitsBegan
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from tests.books import check_books

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive, pytest.mark.timeout(600)]

OWN = Path(__file__).parent / "own"

ATTEMPT_S = 6.0
"""Least duration of an attempt in ``own/slow.py``."""

LEASE_S = ATTEMPT_S / 3
AT_ONCE = 2
"""Attempts at a time of each actor; as many of its requests wait for them."""

STEPS = 2
ACTORS = ("rollout-0", "rollout-1")


def test_two_rollout_actors_make_each_attempt_once_though_it_lasts_three_leases(tmp_path: Path):
    launch(tmp_path)
    times, messages = journal(tmp_path / "runs" / "slow")
    check_books(messages, STEPS)
    assert not any(isinstance(each, FailedRollout | DeadLetter) for each in messages)
    requests = places(messages, RolloutRequest)
    begun = attempts(messages, set(requests.values()))
    assert set(begun) == set(ACTORS)
    assert min(map(len, begun.values())) > AT_ONCE  # some waited for the end of others
    assert Counter(chain(*begun.values())) == Counter(requests.values())
    made = places(messages, Rollout)
    assert made.keys() == requests.keys()
    assert {each.tries for each in messages if isinstance(each, Rollout)} == {1}
    waited = [times[made[each]] - times[requests[each]] for each in requests]
    assert min(waited) >= ATTEMPT_S


def launch(folder: Path) -> None:
    """Launch the run from a folder with nothing else in it; check that it ends well."""
    for name in ("sums.py", "slow.py"):
        shutil.copy(OWN / name, folder)
    told = (OWN / "sums.yaml").read_text().replace("sums:Sums", "slow:Slow")
    (folder / "run.yaml").write_text(told)
    settings = (
        "name=slow",
        f"store.lease_s={LEASE_S}",
        f"rollout.actors={len(ACTORS)}",
        f"rollout.concurrent={AT_ONCE}",
        f"learner.steps={STEPS}",
        f"evaluator.every={STEPS}",
    )
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", "launch", "run.yaml", *settings],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def journal(run: Path) -> tuple[Mapping[int, float], Sequence[Message]]:
    """Return the seconds of every record by its sequence, and its message, in order."""
    with JournalReader(run / STORE_FOLDER).snapshot() as state:
        newest = max(state.newest(topic) for topic in TOPICS)
        records = state.read(range(1, newest + 1))
    return {each.sequence: each.time_ns / 1e9 for each in records}, [decode(it) for it in records]


def places(
    messages: Sequence[Message], kind: type[RolloutRequest | Rollout]
) -> Mapping[tuple[str, int], int]:
    """Return the sequence of each request, or of each answer, by its place in its group."""
    return {
        (message.group_id, message.index): sequence
        for sequence, message in enumerate(messages, start=1)
        if isinstance(message, kind)
    }


def attempts(messages: Sequence[Message], requests: set[int]) -> Mapping[str, list[int]]:
    """Return the requests that each member began to attempt, one entry for each attempt."""
    begun: dict[str, list[int]] = {}
    for each in messages:
        if isinstance(each, UnitsBegan):
            mine = [sequence for sequence in each.sequences if sequence in requests]
            begun.setdefault(each.member, []).extend(mine)
    return {member: each for member, each in begun.items() if each}
