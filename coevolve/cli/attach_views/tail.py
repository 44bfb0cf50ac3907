"""`attach tail`: the records of one topic, in journal order.

The default output is one line per record with long fields cut; ``--json`` prints them whole.
"""

import difflib
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from coevolve.cli.attach_views.output import print_json
from coevolve.cli.attach_views.subject import Subject
from coevolve.journal.codec import TOPICS, topic_of
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.journal.paging import PAGE, newest
from protocols.errors import RunError
from protocols.journal import StoredRecord
from protocols.learning import StepReport

BULKY = "tokens"
"""The field that is shown as a count: it holds thousands of numbers."""

FIELD_CHARS = 160
"""Maximum characters shown of a field."""

FIGURES = {
    "reward": "critic/rewards/mean",
    "loss": "actor/pg_loss",
    "imitation_loss": "actor/imitation_loss",
    "entropy": "actor/entropy",
    "kl": "actor/kl_from_start",
    "grad_norm": "actor/grad_norm",
    "tokens_per_s": "perf/throughput",
    "step_s": "timing_s/step",
}
"""A step's metrics that are shown to people, in this order; ``--json`` has all."""


async def tail(subject: Subject, topic: str, *, count: int, follow: bool, as_json: bool) -> None:
    """Print the newest ``count`` records of ``topic``; ``follow`` prints new ones too."""
    if topic not in TOPICS:
        raise RunError(f"there is no topic {topic!r}{_hint(topic)}; topics: {', '.join(TOPICS)}")
    last = await subject.reader.last(topic)
    through = last.sequence if last else 0
    for record in await newest(subject.reader, topic, count):
        through = max(through, record.sequence)
        _print(record, as_json=as_json)
    if not follow:
        if not subject.running:
            sys.stderr.write(f"{subject.standing}\n")
        return
    live = subject.actors()
    while True:
        await live.store.wait((topic,), through, IDLE_WAIT_S)
        for record in await subject.reader.scan(topic, after=through, limit=PAGE):
            through = record.sequence
            _print(record, as_json=as_json)


def _hint(topic: str) -> str:
    """Return the topics that a word may mean: those that contain it, or a similar one."""
    word = topic.lower().removesuffix("s")
    near = [each for each in TOPICS if each == word]
    near = near or [each for each in TOPICS if word and word in each]
    near = near or difflib.get_close_matches(topic, TOPICS, 1)
    return f"; did you mean {' or '.join(near[:3])}?" if near else ""


def _print(record: StoredRecord, *, as_json: bool) -> None:
    tree: dict[str, Any] = msgspec.msgpack.decode(record.body)
    if BULKY in tree:
        tree[BULKY] = len(tree[BULKY]["mask"])
    if as_json:
        print_json({"sequence": record.sequence, **tree})
        return
    kind = tree.pop("type")
    if kind == topic_of(StepReport):
        tree = _step(tree)
    fields = "  ".join(f"{key}={_cut(value)}" for key, value in tree.items())
    sys.stdout.write(f"{record.sequence:>7}  {kind}  {fields}\n")
    sys.stdout.flush()


def _step(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a step report, its number of groups, and what else is short."""
    metrics = tree["metrics"]
    figures = {name: f"{metrics[key]:.4g}" for name, key in FIGURES.items() if key in metrics}
    rest = {key: value for key, value in tree.items() if key not in ("step", "metrics", "groups")}
    return {"step": tree["step"], **figures, "groups": len(tree["groups"]), **rest}


def _cut(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= FIELD_CHARS else f"{text[: FIELD_CHARS - 3]}..."
