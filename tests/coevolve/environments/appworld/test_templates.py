"""Own templates: the engine's evaluator and the end state agree, whatever blocks of code do."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from coevolve.environments.appworld.engines import Engine
from coevolve.environments.appworld.mutants import mutants_of
from coevolve.environments.appworld.own import task_ids, template_names
from coevolve.environments.sandbox.runner import Sandbox
from tests.coevolve.environments.appworld.episodes import observations, reference

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(1800)]

MUTANTS = 24
IDLE = "apis.supervisor.complete_task()"
FEW = ("new-note", "how-many-of-a-genre", "star-a-sender", "more-in-the-cart")

End = tuple[bool, bool, dict[str, str]]
"""Whether the task was completed, the evaluator's verdict, and the state."""


def end(engine: Engine, sandbox: Sandbox, task: str, blocks: Sequence[str]) -> End:
    world = engine.open(task)
    try:
        observations(sandbox, world, blocks)
        return world.completed(), world.evaluated().success, dict(world.digests())
    finally:
        world.close()


def check(data: Path, engine: Engine, sandbox: Sandbox, template: str, enough: int) -> int:
    """Check a task of a template, and return how many mutants fail, at most ``enough``.

    A mutant may do the same work as the reference, so up to `MUTANTS` are tried.
    """
    (task,) = task_ids((template,), 1)[1:2]
    engine.make([task])
    blocks = reference(data, task)
    completed, success, expected = end(engine, sandbox, task, blocks)
    assert (completed, success) == (True, True), task
    assert end(engine, sandbox, task, blocks)[2] == expected, task
    idle = end(engine, sandbox, task, [IDLE])
    assert (idle[1], idle[2] == expected) == (False, False), task
    failed = 0
    for mutant in mutants_of(blocks, random.Random(template), MUTANTS):
        completed, success, reached = end(engine, sandbox, task, mutant.blocks)
        passes = completed and reached == expected
        assert (completed and success) is passes, (task, mutant)
        failed += not passes
        if failed == enough:
            break
    return failed


def test_there_are_thirty_templates_over_nine_apps(data: Path) -> None:
    names = template_names(data)
    assert len(set(names)) == len(names) >= 30


@pytest.mark.parametrize("template", FEW)
def test_both_verdicts_agree_and_spoilt_references_fail(
    data: Path, engine: Engine, own_sandbox: Sandbox, template: str
) -> None:
    assert check(data, engine, own_sandbox, template, 5) == 5


@pytest.mark.exhaustive
def test_both_verdicts_agree_on_every_template(
    data: Path, engine: Engine, own_sandbox: Sandbox
) -> None:
    for template in template_names(data):
        assert check(data, engine, own_sandbox, template, 5) == 5, template
