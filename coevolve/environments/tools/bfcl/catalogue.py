"""Reads the multi-turn tasks and the tools' documentation of the package ``bfcl-eval``.

All four categories of 200 items are included: ``base``, ``miss_func`` (tools are withheld until
a later turn), ``miss_param`` (a parameter is missing until a later turn) and ``long_context``
(simulators with long filler). Item ``n`` of each category is a variant of the same conversation.

The split depends only on a seed and a share. Items that share the initial scenario of a simulator
class, in any of the four categories, form one cluster. So do near-duplicates, whose requests or
calls are alike to a degree of `NEAR` (`gates.similarity`). A cluster is held out if the BLAKE2b
digest of its smallest item number, salted by the seed, falls into the lowest share (30 %). So the
four variants of an item are always on the same side, and no scenario is on both sides. The only
exceptions are scenarios that the benchmark leaves out: such a class starts in its default state,
on either side.

This module reads only data files: the package's own loader creates folders in ``site-packages``.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

import msgspec

from coevolve.environments.tools.bfcl.documents import lines_of
from coevolve.environments.tools.bfcl.settings import BfclCategory
from coevolve.environments.tools.gates.similarity import Likenesses
from coevolve.environments.tools.split_tasks import held_out_places
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.tasks import Seeded, Split, Task, body_of

CATEGORIES: tuple[BfclCategory, ...] = get_args(BfclCategory)

HELD_OUT_SHARE = 0.3
"""Share of clusters."""

NEAR = 0.6
"""Similarity from which two items are near-duplicates."""


class _Message(msgspec.Struct, frozen=True):
    content: str


class _Item(msgspec.Struct, frozen=True):
    """One line of a category's file, with the fields used here."""

    id: str
    question: tuple[tuple[_Message, ...], ...]
    initial_config: dict[str, Any]
    involved_classes: tuple[str, ...]
    missed_function: dict[str, tuple[str, ...]] = {}
    """Turn that reveals tools -> the tools withheld until then."""

    @property
    def number(self) -> int:
        """Position within the category, the same for all variants."""
        return int(self.id.rsplit("_", 1)[1])


class _Answer(msgspec.Struct, frozen=True):
    id: str
    ground_truth: tuple[tuple[str, ...], ...]


def load_tasks(
    categories: Sequence[BfclCategory] = CATEGORIES,
    *,
    split_seed: int = 0,
    held_out_share: float = HELD_OUT_SHARE,
) -> tuple[Task, ...]:
    """Return every task of ``categories``, in the benchmark's order.

    Raises:
        DependencyError: The package is not installed.
    """
    splits = _splits(split_seed, held_out_share)
    return tuple(
        _task(category, item, answer, splits[item.number])
        for category in categories
        for item, answer in zip(_items(category), _answers(category), strict=True)
    )


def category_of(task: Task) -> str:
    """Return the benchmark's category of a task."""
    return task.task_id.removeprefix("multi_turn_").rpartition("_")[0]


@cache
def _items(category: BfclCategory) -> tuple[_Item, ...]:
    return tuple(lines_of(f"BFCL_v4_multi_turn_{category}.json", _Item))


def _answers(category: BfclCategory) -> list[_Answer]:
    return lines_of(f"possible_answer/BFCL_v4_multi_turn_{category}.json", _Answer)


@cache
def _clusters() -> Mapping[int, int]:
    """Return the cluster of every item number; a cluster's name is its smallest item number."""
    cluster = {item.number: item.number for item in _items("base")}
    first_with: dict[bytes, int] = {}
    for item in (item for category in CATEGORIES for item in _items(category)):
        for scenario in _scenarios(item):
            _join(cluster, first_with.setdefault(scenario, item.number), item.number)
    for one, other in _near_duplicates():
        _join(cluster, one, other)
    return cluster


def _join(cluster: dict[int, int], one: int, other: int) -> None:
    low, high = sorted((cluster[one], cluster[other]))
    cluster.update({number: low for number, of in cluster.items() if of == high})


def _near_duplicates() -> Iterator[tuple[int, int]]:
    """Yield the numbers of items that are near-duplicates of an earlier one, with its number."""
    earlier = Likenesses(NEAR)
    for item, answer in zip(_items("base"), _answers("base"), strict=True):
        body = _body("base", item, answer)
        yield from ((int(key), item.number) for key in earlier.alike(body))
        earlier.add(str(item.number), body)


def _scenarios(item: _Item) -> list[bytes]:
    encode = msgspec.json.Encoder(order="deterministic").encode
    return [encode(pair) for pair in item.initial_config.items() if pair[1]]


def _splits(seed: int, share: float) -> Mapping[int, Split]:
    """Return the split of every item number; exactly the share of clusters is held out."""
    places = {number: _place(cluster, seed) for number, cluster in _clusters().items()}
    held_out = held_out_places(places.values(), share)
    return {n: "held_out" if place in held_out else "train" for n, place in places.items()}


def _place(cluster: int, seed: int) -> int:
    salt = seed.to_bytes(hashlib.blake2b.SALT_SIZE)
    digest = hashlib.blake2b(f"bfcl:{cluster}".encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest)


def _body(category: BfclCategory, item: _Item, answer: _Answer) -> msgspec.Raw:
    return body_of(
        ToolTask(
            classes=item.involved_classes,
            world=msgspec.json.encode(item.initial_config).decode(),
            turns=tuple(
                ToolTurn(
                    instruction="\n".join(message.content for message in question),
                    reference=reference,
                    revealed=item.missed_function.get(str(index), ()),
                )
                for index, (question, reference) in enumerate(
                    zip(item.question, answer.ground_truth, strict=True)
                )
            ),
            withheld=tuple(tool for tools in item.missed_function.values() for tool in tools),
            long_context=category == "long_context",
        )
    )


def _task(category: BfclCategory, item: _Item, answer: _Answer, split: Split) -> Task:
    return Task(
        task_id=item.id,
        split=split,
        origin=Seeded(source=f"bfcl:{item.id}"),
        skills=tuple("+".join(map(_tool, turn)) or "none" for turn in answer.ground_truth),
        body=_body(category, item, answer),
    )


def _tool(call: str) -> str:
    return call.partition("(")[0].strip()
