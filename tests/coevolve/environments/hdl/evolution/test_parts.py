"""From a signal on designs to a task: candidates, refusals, and exactly one verdict for each."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.coverage.regions import about, regions
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.evolution.enumeration import Enumeration
from coevolve.environments.hdl.evolution.gates import DesignGates, DesignIndex, variant_id
from coevolve.environments.hdl.evolution.messages import (
    DESIGN,
    DESIGN_POINTS,
    DesignChange,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
    Replaced,
    change_of,
)
from coevolve.environments.hdl.evolution.observer import DesignObserver
from coevolve.environments.hdl.evolution.synthesizer import synthesizer_part
from coevolve.environments.hdl.export.annotated import annotated
from coevolve.environments.hdl.policy.frontier import beginning
from coevolve.environments.hdl.policy.task import coverage_task, read_body
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Evaluated,
    Point,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.journal.codec import decode, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.task_cache import TaskCache
from coevolve.loop import PARTS
from coevolve.signals.groups import CompleteGroup
from coevolve.validation.gates import Findings, Sound
from coevolve.validation.judge import NoJudge
from coevolve.validation.ledger import no_wordings
from coevolve.validation.validator import Validator
from protocols.config import RunConfig, WatchdogConfig
from protocols.errors import ConfigError
from protocols.evolution import (
    Admitted,
    Candidate,
    CandidateVerdict,
    EnvironmentRecord,
    OnPattern,
    OnTask,
    Refused,
    Signal,
    SignalKind,
    SignalSettled,
)
from protocols.interfaces import Part
from protocols.journal import Append, Message, Receipt
from protocols.tasks import Task, body_of
from tests.coevolve.environments.hdl.policy.test_frontier import design, rollout
from tests.hdl_points import LEAF, POINTS, TOP, all_but, covering

# Its parts are killed again and again, whatever they work on.
CONFIG = RunConfig(name="x", environment={"use": "hdl"}, watchdog=WatchdogConfig(attempts=1000))
REGIONS = regions(POINTS, design("top").unit)
STATES, ARCS, *_, LAST = REGIONS
SECRET = 0xC0DE
KEYED = DesignVariant(design="top", constants=(Replaced(old=SECRET, new=0xBEAD),))

COVERS: dict[str, Sequence[Point]] = {
    "good": all_but("DONE->IDLE"),
    "some": [POINTS[index] for index in STATES.points],
    "little": [POINTS[index] for index in LAST.points],
    "poor": [],
}
"""Coverage of the testbenches by their text."""


def keyed(name: str, **changes: object) -> Design:
    """Return a design with a secret in its RTL and a good testbench that uses it."""
    given = design(name)
    rtl = TOP.replace("4'd3", "16'hC0DE")
    sources = (SourceFile(name="leaf.sv", text=LEAF), SourceFile(name="top.sv", text=rtl))
    file = msgspec.structs.replace(given.file, secret="0xC0DE opens it.", threshold=0.3)
    return msgspec.structs.replace(
        given,
        file=msgspec.structs.replace(file, **changes),
        unit=msgspec.structs.replace(given.unit, files=sources),
        specification="Write 0xC0DE.",
        testbenches={"good": "good 'hC0DE", "mid": "", "poor": "poor"},
    )


DESIGNS = (keyed("top"), keyed("hidden", split="held_out"))


def graded(text: str) -> Graded:
    outcome = Covered(coverage=covering(COVERS[text]), ended="finish", slots=1, time=1, log="")
    return Graded(testbench=text, outcome=outcome, key=text)


class KeyedSimulator:
    """Covers according to a testbench's first word; a good one has to contain the RTL's secret."""

    def __init__(self, spoilt: Callable[[Unit, str, int], str] | None = None) -> None:
        self.spoilt = spoilt
        self.runs: list[str] = []
        self.lost = 0
        """Points that variants lack; if all, variants do not elaborate."""

    async def evaluate(self, request: Evaluate) -> Evaluated:
        assert isinstance(request.submission, Testbench)
        text = request.submission.text
        self.runs.append(text)
        known = text.partition("'h")[2]
        word = text.split()[0] if known in request.unit.files[-1].text else "little"
        if self.spoilt is not None:
            word = self.spoilt(request.unit, text, len(self.runs)) or word
        return Evaluated(
            key=text,
            testbench=text,
            outcome=graded(word).outcome,
            seed=request.seed,
            stages=(),
            toolchain="none",
            sandbox="limits",
        )

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        if "C0DE" in unit.files[-1].text:
            return POINTS
        if self.lost == len(POINTS):
            raise ConfigError("it does not compile")
        return POINTS[self.lost :]


class Desk:
    """A journal with three rollouts on a design, and a signal with them as evidence."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(Journal.open(folder))
        self.catalogue = Catalogue(DESIGNS, self.store)
        self.simulator = KeyedSimulator()
        self._writes = 0

    async def open(self) -> None:
        await self.add(beginning(DESIGNS[0], CONFIG).task())
        await self.add(
            *(
                msgspec.structs.replace(rollout(0, index, graded(text)), task_id="top")
                for index, text in enumerate(("some", "little", "poor"))
            )
        )

    async def add(self, *messages: Message) -> tuple[int, ...]:
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        records = tuple(map(encode, messages))
        return await self.store.append(Append(records=records, receipt=receipt))

    async def examine(self, change: DesignChange) -> Findings:
        await self.add(signal(OnTask(task_id="top")))
        return await self.gates().examine(candidate(change))

    def gates(self) -> DesignGates:
        return DesignGates(
            CONFIG, reader=self.store, catalogue=self.catalogue, simulator=self.simulator
        )

    def parts(self, config: RunConfig) -> list[Part]:
        enumeration = Enumeration(
            config, reader=self.store, catalogue=self.catalogue, simulator=self.simulator
        )
        return [
            synthesizer_part(config, self.store, self.store, enumeration),
            Validator(
                config,
                takes=PARTS["validator"].takes,
                store=self.store,
                reader=self.store,
                gates=self.gates(),
                open_index=DesignIndex,
                held_out=(),
                judge=NoJudge(),
                wordings=no_wordings,
            ),
        ]

    async def held(self, topic: str) -> list[Message]:
        return [decode(each) for each in await self.store.scan(topic)]


@contextlib.asynccontextmanager
async def at_work(parts: Sequence[Part]):
    """Run parts, and cancel them without notice."""
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    await made.open()
    return made


def signal(what: OnTask | OnPattern, number: int = 0, kind: SignalKind = "boundary") -> Signal:
    return Signal(
        signal_id=f"s{number}",
        kind=kind,
        about=what,
        score=1.0,
        rule="by hand",
        evidence=(2, 3, 4),
        policy_version=number,
    )


def candidate(change: DesignChange) -> Candidate:
    return Candidate(
        candidate_id="s0-0",
        signal_id="s0",
        synthesizer="hand",
        body=body_of(change),
        policy_version=0,
    )


def goal(points: Sequence[int], start: int = 0, of: str = "top") -> RegionGoal:
    return RegionGoal(design=of, points=tuple(points), start=start)


async def test_a_goal_that_a_rollout_reached_is_sound_after_a_second_run(desk: Desk):
    findings = await desk.examine(goal(STATES.points, start=3))
    assert isinstance(findings.outcome, Sound)
    task = read_body(findings.outcome.body)
    assert (task.design, task.goal, task.parent) == ("top", STATES.points, "g0/1")
    assert task.state == graded("little")
    assert findings.outcome.skills == ("top",)
    assert (findings.outcome.tried, findings.outcome.records) == ((1, 3), ())
    assert (findings.simulator_calls, desk.simulator.runs) == (1, ["some"])


async def test_the_good_testbench_can_show_a_goal_reachable_and_runs_once(desk: Desk):
    gates = desk.gates()
    for region in REGIONS[3:6]:
        outcome = (await gates.examine(candidate(goal(region.points)))).outcome
        assert isinstance(outcome, Sound)
        assert outcome.tried == (0, 0)  # without a signal there is no evidence
        assert read_body(outcome.body).state == beginning(DESIGNS[0], CONFIG).state
    assert desk.simulator.runs == ["good 'hC0DE"]


async def test_a_sound_variant_is_returned_without_testbenches(desk: Desk):
    outcome = (await desk.examine(KEYED)).outcome
    assert isinstance(outcome, Sound)
    (record,) = outcome.records
    made = msgspec.msgpack.decode(record.body, type=Design)
    assert (record.kind, record.key) == (DESIGN, made.design_id)
    assert read_body(outcome.body).design == made.design_id == variant_id(KEYED)
    assert made.testbenches == {}
    assert "16'hBEAD" in made.unit.files[-1].text
    assert made.specification == "Write 0xBEAD."
    assert made.unit.points_sha256


def test_the_id_of_a_variant_depends_on_its_constants():
    other = msgspec.structs.replace(KEYED, constants=(Replaced(old=SECRET, new=0xBEEF),))
    assert variant_id(KEYED) == variant_id(msgspec.structs.replace(KEYED))
    assert variant_id(KEYED) != variant_id(other)


def test_tasks_with_the_same_request_are_duplicates():
    index, task = DesignIndex(), beginning(DESIGNS[0], CONFIG)

    def asks(**changes: object) -> msgspec.Raw:
        return msgspec.structs.replace(task, **changes).task().body

    index.add("plain", asks())
    index.add("goal", asks(goal=(1, 2)))
    for body, key in (
        (asks(state=graded("some"), round=3), "plain"),
        (asks(threshold=0.9), ""),
        (asks(goal=(1, 2), threshold=0.9), "goal"),
        (asks(goal=(1, 2), design="other"), ""),
        (asks(goal=(1,)), ""),
    ):
        match = index.nearest(body)
        assert (match.key if match else "") == key
    index.discard("goal")
    assert index.nearest(asks(goal=(1, 2))) is None


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        (goal([0], of="nothing"), "malformed"),
        (goal([0], of="hidden"), "contaminated"),
        (goal([len(POINTS)]), "malformed"),
        (goal(STATES.points, start=2), "no_effect"),
        (goal(range(len(POINTS))), "unreached"),
        (HarderThreshold(design="top", than="top", threshold=0.3), "no_effect"),
        (HarderThreshold(design="top", than="another", threshold=0.5), "malformed"),
        (HarderThreshold(design="top", than="top", threshold=1.0), "unreached"),
        (msgspec.structs.replace(KEYED, design="hidden"), "contaminated"),
    ],
)
async def test_a_bad_candidate_is_refused(desk: Desk, change: DesignChange, gate: str):
    outcome = (await desk.examine(change)).outcome
    assert isinstance(outcome, Refused)
    assert outcome.gate == gate


async def test_a_testbench_that_fails_the_second_time_is_no_proof(desk: Desk):
    desk.simulator.spoilt = lambda unit, text, run: "little"
    outcome = (await desk.examine(goal(STATES.points))).outcome
    assert outcome == Refused(gate="not_deterministic", found="a testbench failed the second time")


@pytest.mark.parametrize(
    ("gate", "lost", "spoilt"),
    [
        ("does_not_elaborate", len(POINTS), None),
        ("other_points", 1, None),
        ("good_covers_little", 0, lambda unit, text, run: "some"),
        ("not_deterministic", 0, lambda unit, text, run: "some" if run == 2 else ""),
        ("poor_covers_much", 0, lambda unit, text, run: "good" if text == "poor" else ""),
        ("no_effect", 0, lambda unit, text, run: "good" if "C0DE" in text else ""),
    ],
)
async def test_a_weak_variant_is_refused(
    desk: Desk, gate: str, lost: int, spoilt: Callable[[Unit, str, int], str] | None
):
    desk.simulator.lost, desk.simulator.spoilt = lost, spoilt
    outcome = (await desk.examine(KEYED)).outcome
    assert isinstance(outcome, Refused)
    assert outcome.gate == gate


async def settled(desk: Desk, signals: Sequence[Signal], config: RunConfig = CONFIG) -> None:
    """Answer signals and judge the candidates, with parts that are killed in between."""
    await desk.add(*signals)
    seen = 0
    while True:
        async with at_work(desk.parts(config)):
            seen = await desk.store.wait(("candidate_verdict", "signal_settled"), seen, 10)
        made = await desk.held("candidate")
        answered = await desk.held("signal_settled")
        if len(answered) == len(signals) and len(made) == len(await desk.held("candidate_verdict")):
            return


async def test_signals_lead_to_tasks_of_every_kind_and_each_to_one_verdict(desk: Desk):
    await settled(
        desk,
        [
            signal(about("top", STATES), 0, "rare"),
            signal(about("top", ARCS), 1, "forgetting"),
            signal(OnTask(task_id="top"), 2),
            signal(about("top", STATES), 3, "rare"),
            signal(OnTask(task_id="top"), 4, "forgetting"),
        ],
    )
    answers = [
        each for each in await desk.held("signal_settled") if isinstance(each, SignalSettled)
    ]
    assert {each.signal_id: each.candidates for each in answers} == {
        **{"s0": 1, "s1": 1, "s3": 1},
        **{"s2": 1, "s4": 0},  # the evidence is below the threshold, so there is no harder one
    }
    verdicts = [
        each for each in await desk.held("candidate_verdict") if isinstance(each, CandidateVerdict)
    ]
    assert len({each.candidate_id for each in verdicts}) == len(verdicts) == 4
    outcomes = {each.candidate_id: each.outcome for each in verdicts}
    assert isinstance(outcomes["s2-0"], Admitted)
    assert isinstance(outcomes["s1-0"], Refused)  # no testbench reaches DONE->IDLE
    # Signals are answered at the same time, so either twin may be the first.
    first, second = sorted(("s0-0", "s3-0"), key=lambda each: isinstance(outcomes[each], Refused))
    assert isinstance(outcomes[first], Admitted)
    twin = Refused(gate="duplicate", found=f"similarity 1.00 to task-{first}")
    assert outcomes[second] == twin
    tasks = [each.task_id for each in await desk.held("task") if isinstance(each, Task)]
    assert sorted(tasks) == sorted(["top", f"task-{first}", "task-s2-0"])
    (made,) = await desk.held("environment_record")
    assert isinstance(made, EnvironmentRecord)
    found = await Catalogue(DESIGNS, desk.store).get(made.key)
    assert found == msgspec.msgpack.decode(made.body, type=Design)


async def test_the_arm_random_makes_the_same_number_of_tasks(desk: Desk):
    config = msgspec.structs.replace(CONFIG, arm="random")
    await settled(desk, [signal(about("top", STATES), n, "rare") for n in range(12)], config)
    changes = [
        change_of(each) for each in await desk.held("candidate") if isinstance(each, Candidate)
    ]
    assert len(changes) == 12
    assert len({type(each) for each in changes}) == 3
    assert sum(isinstance(each, DesignVariant) for each in changes) <= hdl_settings(CONFIG).variants
    assert {each.design for each in changes} == {"top"}


async def test_the_points_of_a_design_are_recorded_once_and_explain_its_counts(desk: Desk):
    members = tuple(
        (index + 2, msgspec.structs.replace(rollout(0, index, graded(text)), task_id="top"))
        for index, text in enumerate(("some", "little", "poor"))
    )
    observer = DesignObserver(
        CONFIG,
        tasks=TaskCache(desk.store, coverage_task),
        catalogue=desk.catalogue,
        simulator=desk.simulator,
    )
    summary, findings = await observer.judge(CompleteGroup(members=members))
    _, repeated = await observer.judge(CompleteGroup(members=members))
    records = [each for each in findings if isinstance(each, EnvironmentRecord)]
    assert [(each.kind, each.key) for each in records] == [(DESIGN_POINTS, "top")]
    assert not [each for each in repeated if isinstance(each, EnvironmentRecord)]
    await desk.add(summary, *records)
    assert await desk.catalogue.has_points("top")

    leaf, top = await annotated(desk.store, [summary])
    assert (leaf.name, top.name, top.groups) == ("top/leaf.sv", "top/top.sv", 1)
    states = top.lines[1]
    assert (states.points, states.reached, states.newest) == (6, 3, 3)
    assert states.missed == ("fsm DONE->IDLE", "fsm IDLE->RUN", "fsm RUN->DONE")
    assert sum(line.points for source in (leaf, top) for line in source.lines) == len(POINTS)
    assert top.lines[-1].points == 0
