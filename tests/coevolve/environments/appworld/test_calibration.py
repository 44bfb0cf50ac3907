"""Faults that are planted in tasks whose references are code, and what the gates do with them."""

import ast
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.gates.gates import CodeGates
from coevolve.environments.appworld.own import task_ids, template_of
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.appworld.source import SET, own_tasks
from coevolve.environments.appworld.worker import AppWorldWorker
from coevolve.environments.sandbox.runner import Sandbox
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.config import SimulatorConfig
from tests.app_reader import KnowingReader
from tests.coevolve.environments.appworld.planted import code_kinds
from tests.coevolve.environments.appworld.planted_kinds import chosen_ids, kinds_of_code
from tests.spoiling.calibration import GateCalibration, Sample
from tests.spoiling.kinds import Kind

LOGIN = "profile = apis.supervisor.show_profile()\ntoken = apis.venmo.login(username=profile)"
ASKED = ToolTask(
    classes=(SET,),
    world='{"task": "a"}',
    turns=(
        ToolTurn(
            instruction="Put 'Rent' and 'Food' on Venmo for Ada Byron, 20 dollars or less: the "
            "newest, and tell me how many there are.",
            reference=(
                LOGIN,
                "found = pages(apis.venmo.search, note='Rent', by='Ada', "
                "sort_by='-date', open=True)",
                "for each in found:\n    if each['amount'] <= 20 and each['open']:\n"
                "        apis.venmo.pay(payment_id=each['id'], note='Food')\n"
                "        apis.venmo.like(payment_id=each['id'])",
                "answer = max(found, key=len)",
                "apis.supervisor.complete_task(answer=answer)",
            ),
        ),
    ),
)
TOLD = ToolTask(
    classes=(SET,),
    world='{"task": "b"}',
    turns=(
        ToolTurn(
            instruction="Delete 'Song' of Mary Shelley in Spotify.",
            reference=(LOGIN, "apis.supervisor.complete_task()"),
        ),
    ),
)
SEEN = {ASKED: {"answer": "Rent 7", "each['id']": 31}, TOLD: {}}
KINDS = code_kinds([ASKED, TOLD], SEEN)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_spoils_a_task_it_fits(kind: str) -> None:
    found = [(task, body) for task in (ASKED, TOLD) for body in KINDS[kind].spoil(task, Random(1))]
    assert found
    for task, body in found:
        assert body != task
        for block in body.references[0]:
            ast.parse(block)


def test_there_are_faults_of_meaning_and_of_form() -> None:
    assert len([kind for kind in KINDS.values() if kind.visible]) >= 16
    assert len([kind for kind in KINDS.values() if not kind.visible]) >= 16


def test_so_many_tasks_of_each_template_are_chosen() -> None:
    ids = task_ids(("new-note", "pin-by-tag"), 4)
    assert [template_of(each) for each in chosen_ids(ids, 1, 0)] == ["new-note", "pin-by-tag"]
    assert chosen_ids(ids, 2, 0) != chosen_ids(ids, 2, 1)
    assert sorted(chosen_ids(ids, 0, 0)) == sorted(ids)


PLANTED = ("wrong number", "swapped values", "wrong app", "gives up", "more is asked for")


@pytest.mark.appworld
@pytest.mark.timeout(600)
async def test_the_gates_and_a_reader_without_fault_admit_own_tasks_and_no_spoilt_one(
    data: Path, own_sandbox: Sandbox
) -> None:
    del own_sandbox
    tasks = own_tasks(data, task_ids(("new-note",), 1)[:1], "train", 4096)
    worker = AppWorldWorker(
        AppWorldConfig(episodes=4), SimulatorConfig(timeout_s=30.0, memory_mb=512), lambda: data
    )
    simulator = SimulatorPool([worker])
    gates = CodeGates(
        simulator,
        documents=ApiDocuments.read(data),
        is_training=lambda _: True,
        blocks=5,
        reader=KnowingReader(simulator, list(map(tool_task, tasks))),
    )

    async def kinds(sound: Sequence[ToolTask]) -> dict[str, Kind]:
        every = await kinds_of_code(simulator, sound)
        return {name: every[name] for name in PLANTED}

    calibration = GateCalibration(gates, simulator, Sample(1, 1, 0), kinds)
    rates = await calibration.rates({"new-note": tasks})
    await worker.close()
    assert [len(each.admitted) for each in rates.given] == [1], rates.given
    assert {each.kind: each.candidates for each in rates.planted} == dict.fromkeys(PLANTED, 1)
    assert not [each.kind for each in rates.planted if each.admitted]
