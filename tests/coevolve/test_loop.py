"""`coevolve.loop` says what each part takes, reads and gives; this compares it with a run."""

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from coevolve.environments.open_parts import PartInputs, PartSpec
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.task import tool_task
from coevolve.journal.codec import TOPICS, topic_of
from coevolve.loop import AROUND, KEPT, LOOP, PARTS, run_here
from protocols.config import RunConfig
from protocols.interfaces import Part, Reader, Store
from protocols.journal import Append, Complete, Message, StoredRecord, Take
from tests.loop_tables import PAGES, written
from tests.one_process import check_loop_is_closed

ROOT = Path(__file__).parents[2]
MAX_LINES = 200
KINDS: tuple[type[Message], ...] = get_args(Message)
EVERYONE = (*LOOP, *AROUND)


class Seen:
    """The topics that each part used in a run."""

    def __init__(self) -> None:
        self.took = defaultdict[str, set[str]](set)
        self.read = defaultdict[str, set[str]](set)
        self.gave = defaultdict[str, set[str]](set)


class WitnessedStore:
    """A store that notes what a part takes from it and writes to it."""

    def __init__(self, part: str, store: Store, seen: Seen) -> None:
        self.part, self.store, self.seen = part, store, seen

    async def append(self, request: Append) -> tuple[int, ...]:
        self.seen.gave[self.part] |= {each.topic for each in request.records}
        return await self.store.append(request)

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        self.seen.took[self.part] |= set(request.topics)
        return await self.store.take(request)

    async def complete(self, request: Complete) -> tuple[int, ...]:
        self.seen.gave[self.part] |= {each.topic for each in request.outputs}
        return await self.store.complete(request)

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


class WitnessedReader:
    """A reader that notes the topics of the records that a part reads."""

    def __init__(self, part: str, reader: Reader, seen: Seen) -> None:
        self.part, self.reader, self.seen = part, reader, seen

    def note(self, records: Sequence[StoredRecord]) -> Sequence[StoredRecord]:
        self.seen.read[self.part] |= {each.topic for each in records}
        return records

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        return self.note(await self.reader.read(sequences))

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return self.note(await self.reader.scan(topic, after, limit))

    async def last(self, topic: str) -> StoredRecord | None:
        record = await self.reader.last(topic)
        self.note([record] if record else [])
        return record

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        return self.note(await self.reader.find(index, key, limit))


def witnessed(spec: PartSpec, seen: Seen) -> PartSpec:
    """Return the part with witnesses around its journal."""

    def opened(given: PartInputs) -> Part:
        context = given.context
        store = WitnessedStore(spec.name, context.store, seen)
        reader = WitnessedReader(spec.name, context.reader, seen)
        return spec.open(replace(given, context=replace(context, store=store, reader=reader)))

    return replace(spec, open=opened)


def small(config: RunConfig) -> RunConfig:
    tree = msgspec.to_builtins(config)
    tree["evolve_every"] = 4
    tree["learner"] |= {"steps": 16, "groups_per_step": 2}  # after a cold start, synthesis has time
    tree["rollout"] |= {"group_size": 2}
    tree["evaluator"] |= {"every": 8, "fresh": 2, "engine": "rollout"}
    tree["environment"] |= {"held_out": 4, "seeds": 6}
    return msgspec.convert(tree, RunConfig)


def topics(kinds: Sequence[type[Message]]) -> set[str]:
    return set(map(topic_of, kinds))


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("short_waits")
async def test_each_part_does_what_the_page_says_and_the_loop_closes_without_a_held_out_task(
    quickstart: RunConfig, tmp_path: Path
):
    seen, config = Seen(), small(quickstart)
    store = await run_here(config, tmp_path, specs=[witnessed(each, seen) for each in LOOP])
    assert seen.gave.keys() == PARTS.keys()
    for name, spec in PARTS.items():
        assert seen.gave[name] <= topics(spec.gives), name
        assert seen.took[name] == topics(spec.takes), name
        assert seen.read[name] <= topics((*spec.takes, *spec.reads, *spec.gives)), name
    written = {topic for topic, count in (await store.statistics()).topics.items() if count}
    assert written <= {
        "run_started",
        "run_finished",
        *(topic for each in seen.gave.values() for topic in each),
    }
    assert len(written) >= 18
    await check_loop_is_closed(store)
    held_out = [tool_task(each).world.encode() for each in environment_of(config).scored_tasks()]
    last = (await store.statistics()).last_sequence
    bodies = [record.body for record in await store.read(range(1, last + 1))]
    assert not any(world in body for world in held_out for body in bodies)


def test_each_kind_is_given_and_taken_by_somebody_or_kept_for_readers():
    given = {kind for party in EVERYONE for kind in party.gives}
    used = {kind for party in EVERYONE for kind in (*party.takes, *party.reads)}
    assert given == set(KINDS)
    assert used | set(KEPT) == set(KINDS)
    assert not used & set(KEPT)


def test_the_page_is_one_page():
    assert len((ROOT / "coevolve/loop.py").read_text().splitlines()) <= MAX_LINES


def test_each_part_has_an_actor_and_each_actor_of_a_part_a_part():
    for name in PARTS:
        assert import_module(f"actors.{name}")
    shells = [path for path in (ROOT / "actors").glob("*.py") if "(PartShell)" in path.read_text()]
    assert {path.stem for path in shells} == PARTS.keys()


ASKS = ("last", "scan", "wait", "take", "whole_topic", "newest", "stretch", "fold", "in_order")
"""Functions and methods that expect topics."""


def texts_of_topics(source: str) -> list[str]:
    """Return each topic that is written as a text where a kind could be named."""
    tree = ast.parse(source)
    tags = {
        id(word.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for word in node.keywords
        if word.arg == "tag"
    }
    asked: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in ASKS:
                asked += [*node.args, *(each.value for each in node.keywords)]
            case ast.keyword(arg="topics" | "topic", value=value):
                asked.append(value)
            case ast.Assign(value=value, targets=[ast.Name(id=name)]) if "opic" in name:
                asked.append(value)
            case _:
                continue
    found = [child for each in asked for child in ast.walk(each)]
    return [
        each.value
        for each in found
        if isinstance(each, ast.Constant) and each.value in TOPICS and id(each) not in tags
    ]


def test_no_topic_is_a_text_in_the_product():
    files = [path for house in ("coevolve", "actors") for path in (ROOT / house).rglob("*.py")]
    assert len(files) > 400
    named = {str(path): found for path in files if (found := texts_of_topics(path.read_text()))}
    assert not named


@pytest.mark.parametrize(
    "line",
    [
        'await reader.last("policy_version")',
        'topics = ("group_summary", "signal")',
        'Mailbox(store, topics=("rollout", RETRIES))',
        'whole_topic(reader, "candidate")',
    ],
)
def test_a_topic_as_a_text_is_found(line: str):
    assert texts_of_topics(f"async def it():\n    {line}\n")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_the_loop_says(page: str):
    text, generated = written()[page]
    assert text == generated, "python -m tests.loop_tables writes it"
