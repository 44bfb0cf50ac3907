"""Trains the tiny policy to recite, and shows that the instance gap tells.

The policy imitates the references of a few training tasks of the quickstart, and nothing else, for
more and more steps. After each part it is scored on these tasks and on held-out ones, as given and
under other names (`coevolve evaluate --fresh`). The gap of the held-out tasks shows what the other
names alone change.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import torch
from rich.table import Table
from transformers import Qwen3ForCausalLM

from coevolve.commands.fresh import Comparison, compared
from coevolve.commands.scoring import open_scoring
from coevolve.commands.subjects import OfRunFile, opened_policy
from coevolve.config.load import load_config
from coevolve.environments.tools.filesystem.environment import Filesystem
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT
from protocols.tasks import Task
from tests.bench import output
from tests.bench.tiny_policy import loss

BATCH = 16


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured after some steps."""

    steps: int
    loss: float
    """Of the last batch, nats a token; NaN before the first."""

    comparisons: tuple[Comparison, ...]


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("memorization", __doc__)
    parser.add_argument("--tasks", type=int, default=60, help="tasks to recite")
    parser.add_argument("--parts", type=int, default=4, help="times that steps are taken")
    parser.add_argument("--steps", type=int, default=60, help="steps of each part")
    parser.add_argument("--instances", type=int, default=240, help="new instances a side")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-memorization-") as folder:
        place = Path(folder) / "policy"
        shutil.copytree(CHECKPOINT, place)
        environment = Filesystem(load_config("quickstart"))
        trained = environment.source().pool()[: options.tasks]
        held_out = environment.scored_tasks()
        rows = [
            Row(
                steps=options.steps * number,
                loss=error,
                comparisons=asyncio.run(_compared(place, trained, held_out, options.instances)),
            )
            for number, error in enumerate(_taught(place, trained, options.parts, options.steps))
        ]
    output.show(rows, _table, as_json=options.json, width=140)


def _taught(folder: Path, tasks: Sequence[Task], parts: int, steps: int) -> Iterator[float]:
    """Yield the loss after each part, once its weights are in the folder."""
    yield float("nan")
    renderer = TinyRenderer.load(folder)
    lessons = [renderer.demonstration(task) for task in tasks]
    model = Qwen3ForCausalLM.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    rng = np.random.default_rng(0)
    model.train()
    for _ in range(parts):
        last = float("nan")
        for _ in range(steps):
            drawn = rng.choice(len(lessons), size=min(BATCH, len(lessons)), replace=False)
            error = loss(model, [lessons[each] for each in drawn])
            optimizer.zero_grad()
            cast("Any", error).backward()
            optimizer.step()
            last = error.item()
        model.save_pretrained(folder)
        yield last


async def _compared(
    folder: Path, trained: Sequence[Task], held_out: Sequence[Task], instances: int
) -> tuple[Comparison, ...]:
    config = load_config("quickstart", [f"policy.model={folder}"])
    async with (
        opened_policy(OfRunFile(), config) as policy,
        open_scoring(policy.context) as scoring,
    ):
        return tuple(await compared(scoring, held_out, trained, instances, 0))


def _table(rows: Sequence[Row]) -> Table:
    headings = ["steps", "loss"]
    for each in rows[0].comparisons:
        headings += [f"{each.tasks}, %", "instances, %", "gap, points"]
    cells: list[Sequence[str]] = []
    for row in rows:
        figures = [str(row.steps), f"{row.loss:.3f}"]
        for each in row.comparisons:
            figures += [
                f"{100 * each.given.mean:.1f}",
                f"{100 * each.fresh.mean:.1f}",
                f"{100 * each.gap:+.1f} [{100 * each.low:+.1f}, {100 * each.high:+.1f}]",
            ]
        cells.append(figures)
    return output.table("a policy that recites", headings, cells, words=0)
