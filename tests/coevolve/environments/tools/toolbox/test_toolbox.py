"""The generated domain: one right answer a task, exact scores, and a synthesizer that practises."""

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest
import torch

from coevolve.config.load import load_config
from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.cache_folder import CACHE_VARIABLE
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.synthesis.brief import ToolContext, start_of
from coevolve.environments.tools.task import ToolTask, read_body, tool_task
from coevolve.environments.tools.toolbox.domain import (
    Cell,
    Domain,
    cell_of,
    domain_of,
    is_held_out,
    skills_of,
    use_of,
)
from coevolve.environments.tools.toolbox.gates import toolbox_gates
from coevolve.environments.tools.toolbox.model import write_kept_model, write_model
from coevolve.environments.tools.toolbox.renderer import ToolboxRenderer
from coevolve.environments.tools.toolbox.scorer import LikelihoodScorer
from coevolve.environments.tools.toolbox.settings import ToolboxConfig
from coevolve.environments.tools.toolbox.source import ToolboxSource, instance
from coevolve.environments.tools.toolbox.synthesizer import ToolboxSynthesizer
from coevolve.environments.tools.toolbox.words import END, IDS, MODES, THINGS
from coevolve.models.atomic_folder import folder_digest
from coevolve.models.load import read_model
from protocols.config import RolloutConfig
from protocols.errors import ConfigError
from protocols.evolution import Anything, OnPattern, OnTask, Refused
from protocols.interfaces import CallLog
from protocols.synthesis import Brief
from protocols.tasks import Task, body_of
from tests.planted import candidate
from tests.simulated import InProcessSimulator

SMALL = ToolboxConfig(tools=6, links=12, chains=12)
DOMAIN = domain_of(ToolboxConfig())
SOURCE = ToolboxSource(0, ToolboxConfig(), is_uniform=False)
CALLS = cast("CallLog", None)


def passes(body: ToolTask, said: str) -> bool:
    """Return whether a message of the policy solves the task."""
    session = Session(body)
    for call in ToolboxRenderer().parse((*(IDS[word] for word in said.split()), END)):
        session.act(call)
    return session.grade().__class__.__name__ == "Passed"


def answer(task: Task) -> list[str]:
    ids, mask = ToolboxRenderer().demonstration(task)
    words = list(IDS)
    return [words[token] for token, said in zip(ids, mask, strict=True) if said and token != END]


def chain(source: ToolboxSource = SOURCE) -> Task:
    return next(task for task in source.held_out() if len(task.skills) == 5)


def test_a_chain_needs_its_tools_and_its_links_which_are_cells():
    cells = set(DOMAIN.cells)
    assert [sum(len(cell) == n for cell in cells) for n in (1, 2, 3)] == [48, 200, 200]
    chains = [cell for cell in cells if len(cell) == 3]
    assert all({each[:2], each[1:]} <= cells for each in chains)
    assert skills_of(("tool01", "tool02", "tool03")) == (
        *("tool01", "tool02", "tool03"),
        *("tool01>tool02", "tool02>tool03"),
    )
    assert domain_of(ToolboxConfig(domain=1)).cells != DOMAIN.cells


def test_no_training_task_has_a_scored_cell_and_thing():
    pairs = [cell_of(tool_task(each).turns[0].instruction) for each in SOURCE.held_out()]
    assert len(pairs) == len(DOMAIN.cells)
    assert {use_of(*pair) for pair in pairs} == {"scored"}
    trained = [*SOURCE.pool(), *(instance(DOMAIN, each, 3) for each in SOURCE.pool())]
    given = [cell_of(tool_task(each).turns[0].instruction) for each in trained]
    assert {use_of(*pair) for pair in given} == {"trained"}
    assert not any(is_held_out(cell) for cell, _ in given)
    assert 15 < sum(is_held_out(cell) for cell in DOMAIN.cells) < 40


def test_one_message_alone_solves_a_task():
    task = chain()
    body, said = tool_task(task), answer(task)
    assert passes(body, " ".join(said))
    for place, word in enumerate(said):
        others = MODES if word in MODES else THINGS if word in THINGS else list(IDS)[-64:]
        for other in others[:9]:
            assert other == word or not passes(
                body, " ".join([*said[:place], other, *said[place + 1 :]])
            )
    wrong = next(mode for mode in MODES if mode != said[2])
    assert not passes(body, " ".join([*said[:2], wrong, said[3], *said[2:]]))  # wrong, then right
    for message in (said[:-1], [*said, "ok"], said[2:], said[::-1]):
        with pytest.raises(ValueError, match="a message needs"):
            passes(body, " ".join(message))


def test_runs_of_one_seed_copy_one_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    settings = ToolboxConfig(tools=5, links=4, chains=2, demonstrations=1)
    write_kept_model(1, settings, tmp_path / "one")
    monkeypatch.setattr(f"{write_model.__module__}._demonstrate", None)  # no more training
    write_kept_model(1, settings, tmp_path / "other")
    assert folder_digest(tmp_path / "one") == folder_digest(tmp_path / "other")
    for seed, others in ((2, settings), (1, msgspec.structs.replace(settings, demonstrations=2))):
        with pytest.raises(TypeError):
            write_kept_model(seed, others, tmp_path / "third")


def half_known(domain: Domain, rows: Sequence[tuple[Any, Any]], folder: Path) -> None:
    """Write a policy that was trained on these demonstrations until it knows them by half."""
    write_model(0, domain, 0, folder)
    model = cast("Any", read_model(folder))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    known = 0.0
    while known < 0.4:
        losses = [
            model(input_ids=torch.tensor([ids]), labels=torch.tensor([where(ids, mask)])).loss
            for ids, mask in rows
        ]
        known = float(np.exp(-np.mean([loss.item() * sum(rows[0][1]) for loss in losses])))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()
    model.save_pretrained(folder)


def where(ids: Sequence[int], mask: Sequence[int]) -> list[int]:
    return [token if said else -100 for token, said in zip(ids, mask, strict=True)]


async def test_the_score_is_the_rate_at_which_attempts_succeed(tmp_path: Path):
    source, renderer = ToolboxSource(0, SMALL, is_uniform=False), ToolboxRenderer()
    tasks = source.held_out()[:12]
    half_known(source.domain, [renderer.demonstration(each) for each in tasks], tmp_path / "model")
    generator = TransformersGenerator(
        tmp_path / "model", tmp_path, max_concurrent=64, max_length=32
    )
    engine: Any = type("Served", (), {"generator": generator, "version": 0})()
    scorer = LikelihoodScorer(cast("VerifiedEngine", engine), renderer, tasks)
    told = [(await scorer.score(task, "")).score for task in tasks]
    agent = ToolAgent(
        generator=generator,
        simulator=InProcessSimulator(),
        renderer=renderer,
        limits=RolloutConfig(max_tokens=32, max_call_tokens=8),
        temperature=1.0,
    )
    tries = [(task, seed) for task in tasks for seed in range(40)]
    found = await asyncio.gather(
        *(agent.attempt(task, f"{task.task_id}/{seed}", seed=seed) for task, seed in tries)
    )
    await generator.close()
    assert 0.05 < float(np.mean(told)) < 0.95
    spread = math.sqrt(sum(p * (1 - p) / 40 for p in told)) / len(told)
    rate = float(np.mean([each.succeeded for each in found]))
    assert abs(rate - float(np.mean(told))) < 3 * spread


def made(about: OnTask | OnPattern | Anything, instructions: tuple[str, ...] = ()) -> list[Cell]:
    """Return the cells that the synthesizer makes for a subject."""
    starts = tuple(start_of(task) for task in SOURCE.pool()[:40])
    brief = Brief(
        signal_id="boundary-g1-0",
        kind="boundary",
        about=about,
        attempts=(),
        steps=4,
        context=body_of(ToolContext(instructions=instructions, starts=starts)),
        seed=1,
        policy_version=3,
    )
    synthesis = asyncio.run(ToolboxSynthesizer(DOMAIN).synthesize(brief, CALLS))
    bodies = [read_body(each.body) for each in synthesis.candidates]
    return [cell_of(body.turns[0].instruction)[0] for body in bodies]


def test_a_subject_is_practised_in_most_of_the_tasks_that_are_made():
    cell = next(each for each in DOMAIN.trained if len(each) == 3)
    instruction = DOMAIN.task(cell, THINGS[0]).turns[0].instruction
    about = OnTask(task_id="any")
    alike = [{*skills_of(cell)} & {*skills_of(each)} for each in made(about, (instruction,))]
    by_pattern = made(OnPattern(kind="tool_bigram", pattern=" > ".join(cell[:2])))
    assert np.mean([bool(each) for each in alike]) > 0.6
    assert np.mean([">".join(cell[:2]) in skills_of(each) for each in by_pattern]) > 0.6
    assert np.mean([cell == each for each in made(Anything())]) < 0.1


@pytest.mark.parametrize(
    ("cell", "change", "gate"),
    [
        ("trained", {}, ""),
        ("held_out", {}, "contaminated"),
        ("trained", {"instruction": "do it"}, "malformed"),
        ("trained", {"instruction": "do01 it"}, "malformed"),
        ("trained", {"instruction": "other"}, "means_otherwise"),
        ("trained", {"reference": ("tool01(thing='thing99')",)}, "replay_failed"),
    ],
)
async def test_the_gates_admit_a_task_that_asks_for_what_its_reference_does(
    cell: str, change: dict[str, Any], gate: str
):
    tasks = [task for task in SOURCE.pool() if len(task.skills) == 5]
    body = tool_task(tasks[0] if cell == "trained" else chain())
    if change.get("instruction") == "other":
        change = {"instruction": tool_task(tasks[1]).turns[0].instruction}
    turn = msgspec.structs.replace(body.turns[0], **(change | {"results": ()}))
    gates, found = (
        toolbox_gates(InProcessSimulator(), DOMAIN),
        candidate(msgspec.structs.replace(body, turns=(turn,))),
    )
    outcome = (await gates.read(found, await gates.examine(found))).outcome
    assert (outcome.gate if isinstance(outcome, Refused) else "") == gate


def test_a_model_that_would_not_be_asked_is_refused():
    with pytest.raises(ConfigError, match="asks no model; leave both out"):
        load_config("toolbox", ["validator.reader.kind=none"])


def test_scores_by_attempts_are_refused():
    config = load_config("toolbox", ())
    rollout = msgspec.structs.replace(config.evaluator, engine="rollout")
    refused = environment_of(msgspec.structs.replace(config, evaluator=rollout)).faults()
    assert [message.split(":")[0] for broken, message in refused if broken] == [
        "$.evaluator.engine"
    ]
