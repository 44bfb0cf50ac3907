"""The gates of tasks whose references are code, on the engine."""

import ast
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.evolution import among_blocks
from coevolve.environments.appworld.gates.gates import CodeGates
from coevolve.environments.appworld.gates.order import ORDER
from coevolve.environments.appworld.instances import names_in_code, with_names
from coevolve.environments.appworld.own import task_ids
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.appworld.source import SET, own_tasks
from coevolve.environments.appworld.synthesis.questions import EXAMPLE, code_questions
from coevolve.environments.appworld.worker import AppWorldWorker
from coevolve.environments.sandbox.runner import Sandbox
from coevolve.environments.tools.commands import Failed
from coevolve.environments.tools.gates.contrast import AskedReader
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.instances import Instances
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.synthesis.accounts import Account
from coevolve.environments.tools.synthesis.brief import Start, ToolContext
from coevolve.environments.tools.synthesis.endpoint import EndpointSynthesizer
from coevolve.environments.tools.synthesis.reader import EndpointReader
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body, tool_task
from coevolve.environments.tools.vocabulary import Vocabulary
from coevolve.validation.gates import Findings, Sound
from protocols.config import SimulatorConfig
from protocols.evolution import Candidate, OnPattern, Refused
from protocols.synthesis import Brief
from protocols.tasks import Synthesized, Task, body_of
from tests.app_synthesizer import COMPLETE, CREATE, HOW_MANY, LOGIN, app_brain, noting, proposals
from tests.chat_server import serving
from tests.synthesizing import MemoryCalls, model_at

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(600)]

START = "new-note-0_1"
BLOCKS = 5


@pytest.fixture
async def simulator(data: Path, own_sandbox: Sandbox) -> AsyncIterator[SimulatorPool]:
    del own_sandbox
    worker = AppWorldWorker(
        AppWorldConfig(episodes=4), SimulatorConfig(timeout_s=30.0, memory_mb=512), lambda: data
    )
    yield SimulatorPool([worker])
    await worker.close()


@pytest.fixture
def start(data: Path) -> ToolTask:
    (task,) = own_tasks(data, task_ids(("new-note",), 1)[:1], "train", 4096)
    assert task.task_id == START
    return tool_task(task)


@pytest.fixture
def documents(data: Path) -> ApiDocuments:
    return ApiDocuments.read(data)


def gates_of(
    simulator: SimulatorPool, documents: ApiDocuments, reader: AskedReader | None = None
) -> CodeGates:
    return CodeGates(
        simulator,
        documents=documents,
        is_training=lambda task_id: task_id == START,
        blocks=BLOCKS,
        reader=reader,
    )


def candidate(start: ToolTask, instruction: str, *code: str, name: str = "c") -> Candidate:
    body = ToolTask(
        classes=(SET,),
        world=start.world,
        turns=(ToolTurn(instruction=instruction, reference=code),),
        extra=start.extra,
    )
    return Candidate(
        candidate_id=name, signal_id="s", synthesizer="m", body=body_of(body), policy_version=0
    )


def refusal(findings: Findings) -> str:
    return findings.outcome.gate if isinstance(findings.outcome, Refused) else ""


async def test_a_scripted_models_tasks_are_admitted_or_refused_by_the_gates_meant_for_them(
    simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    questions, calls = code_questions(documents, BLOCKS), MemoryCalls()

    async def account_of(candidate: Candidate) -> Account:
        del candidate
        return Account(calls=nullcontext(calls), kind="rare")

    with serving(app_brain) as server:
        model = model_at(server.base_url)
        synthesizer = EndpointSynthesizer(model, simulator=simulator, questions=questions)
        made = await synthesizer.synthesize(brief(start), calls)
        await synthesizer.close()
        asked = EndpointReader(model, account_of=account_of, questions=questions)
        reader = AskedReader(asked, rebuilds=1, options=among_blocks)
        gates = gates_of(simulator, documents, reader)
        found: list[Findings] = []
        for each in made.candidates:
            found.append(await gates.read(each, await gates.examine(each)))
        await asked.close()
    (exploration,) = made.explorations
    assert [step.failed for step in exploration.steps] == [False]
    assert [refusal(each) for each in found] == list(proposals("1"))
    assert set(map(refusal, found)) <= {"", *ORDER}
    sound = found[0].outcome
    assert isinstance(sound, Sound)
    assert found[0].reading.outcome == "confirmed"
    assert sound.skills == ("simple_note.create_note",)
    body = read_body(sound.body)
    assert body.turns[0].results == ("Execution successful.",) * 3
    # Nothing that the model was told holds a reference of the start's own task.
    held = start.turns[0].reference[1]
    assert not any(held in request.prompt for request in server.requests)


def brief(start: ToolTask) -> Brief:
    world = Start(origin=START, classes=start.classes, world=start.world, extra=start.extra)
    return Brief(
        signal_id="signal-7",
        kind="rare",
        about=OnPattern(kind="tool", pattern="simple_note.create_note"),
        attempts=(),
        steps=3,
        context=body_of(ToolContext(starts=(world,))),
        seed=1,
        policy_version=3,
    )


NOTE = CREATE.format(title="Today", content="Call")
ASKED = noting("Call", "Today")
LIST = "notes = apis.simple_note.search_notes(access_token=token)"

REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "malformed": (ASKED, ("this is no code",)),
    "unclean": ("Please run create_note(title='Today') now.", (LOGIN, NOTE, COMPLETE)),
    "unknown_tool": (ASKED, (LOGIN, "apis.simple_note.write(title='Today')", COMPLETE)),
    "reads_hidden": (ASKED, ("print(apis.supervisor.show_active_task())", COMPLETE)),
    "unanswered": (HOW_MANY, (LOGIN, NOTE, COMPLETE)),
    "replay_failed": (
        "Delete my note with the number 999999.",
        (LOGIN, "apis.simple_note.delete_note(note_id=999999, access_token=token)", COMPLETE),
    ),
    "not_deterministic": (
        ASKED,
        (LOGIN, NOTE.replace("'Call'", "f'Call {random.SystemRandom().random()}'"), COMPLETE),
    ),
    "superfluous": (ASKED, (LOGIN, f"{LIST}\n" * 6, NOTE, COMPLETE)),
    "description_omits": ("Write down 'Call' in Simple Note.", (LOGIN, NOTE, COMPLETE)),
    "description_invents": (f"{ASKED} Pin it 'high up'.", (LOGIN, NOTE, COMPLETE)),
    "description_answers": (
        "Note 'Call' in Simple Note, under the title 'Today', and tell me the title of it.",
        (
            LOGIN,
            f"made = {NOTE}",
            "note = apis.simple_note.show_note(note_id=made['note_id'], access_token=token)",
            "apis.supervisor.complete_task(answer=note['title'])",
        ),
    ),
}


@pytest.mark.parametrize("gate", REFUSED)
async def test_a_gate_refuses_what_it_is_meant_for(
    gate: str, simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    instruction, code = REFUSED[gate]
    findings = await gates_of(simulator, documents).examine(candidate(start, instruction, *code))
    assert refusal(findings) == gate, findings.outcome


async def test_a_statement_that_the_end_does_not_need_is_left_out(
    simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    made = candidate(start, ASKED, LOGIN, f"{LIST}\n{NOTE}", COMPLETE)
    sound = (await gates_of(simulator, documents).examine(made)).outcome
    assert isinstance(sound, Sound), sound
    (turn,) = read_body(sound.body).turns
    assert turn.reference == (LOGIN, ast.unparse(ast.parse(NOTE)), COMPLETE)
    assert turn.results == ("Execution successful.",) * 3


async def test_the_prompts_example_is_sound(
    simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    made = candidate(start, str(EXAMPLE["instruction"]), *EXAMPLE["code"])
    findings = await gates_of(simulator, documents).examine(made)
    assert isinstance(findings.outcome, Sound), findings.outcome


@pytest.mark.parametrize("deep", ["lambda: " * 900 + "1", "x" + ".a" * 500, "-" * 90 + "1"])
async def test_deep_code_is_malformed(
    deep: str, simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    made = candidate(start, ASKED, LOGIN, f"x = 1\n{deep}", NOTE, COMPLETE)
    assert refusal(await gates_of(simulator, documents).examine(made)) == "malformed"


async def test_no_world_but_that_of_a_training_task_is_used(
    simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    gates = CodeGates(
        simulator, documents=documents, is_training=lambda _: False, blocks=BLOCKS, reader=None
    )
    findings = await gates.examine(candidate(start, ASKED, LOGIN, NOTE, COMPLETE))
    assert refusal(findings) == "malformed"
    assert findings.simulator_calls == 0


async def test_decoys_are_readable_and_do_something_else(
    simulator: SimulatorPool, documents: ApiDocuments, start: ToolTask
) -> None:
    made = candidate(start, ASKED, LOGIN, NOTE, COMPLETE)
    trials = Trials(simulator, "decoys", read_body(made.body))
    contrast = await among_blocks(made, read_body(made.body), trials)
    assert 2 <= len(contrast.options) <= 5
    for number, option in enumerate(contrast.options, 1):
        assert not any(
            isinstance(node, ast.Pass) for block in option[0] for node in ast.walk(ast.parse(block))
        )
        assert passes(await trials.play(option)) == (number == contrast.right)


async def test_a_made_task_has_an_instance_under_other_names(
    data: Path, simulator: SimulatorPool, start: ToolTask
) -> None:
    others = own_tasks(data, task_ids(("songs-as-a-note",), 1)[:1], "train", 4096)
    made = Task(
        task_id="made",
        split="train",
        origin=Synthesized(candidate_id="c", signal_id="s"),
        body=candidate(start, ASKED, LOGIN, NOTE, COMPLETE).body,
    )
    names = Vocabulary([start, *map(tool_task, others)], names_in_code)
    instances = Instances(simulator, names, of=names_in_code, put=with_names)
    (instance,) = (await instances.of([made], 1)).values()
    (turn,) = tool_task(instance).turns
    assert "Today" not in turn.instruction + "".join(turn.reference)
    assert tool_task(instance).world == start.world
    tried = await simulator.trial("memorized", tool_task(instance), ((LOGIN, NOTE, COMPLETE),))
    assert isinstance(tried.turns[0].verdict, Failed)
