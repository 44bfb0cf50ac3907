"""Steps of a policy on designs, their grades, and the pool of simulators."""

from collections.abc import Sequence

import msgspec
import pytest

from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.chains import best
from coevolve.environments.hdl.policy.frontier import continued
from coevolve.environments.hdl.policy.steps import PolicyWriter, StepScorer, TestbenchAgent
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import Blank, Graded, coverage_of, read_outcome
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Point,
    SimulationLimits,
    Submission,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.pool import EvaluationPool
from coevolve.rollouts.agent import Episode
from protocols.config import RolloutConfig
from protocols.errors import SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights
from protocols.tasks import NOTHING as NO_OUTCOME
from protocols.tasks import Task, body_of
from tests.coevolve.environments.hdl.policy.test_frontier import NOTHING, design
from tests.hdl_points import unit
from tests.hdl_simulators import ScriptedSimulator
from tests.hdl_transitions import FAILED, covered

END = 1

TASK = CoverageTask(
    task_id="top",
    split="train",
    design="top",
    form="testbench",
    instance="dut",
    state=Blank(),
    round=0,
    threshold=0.5,
)


class Typist:
    """A model that writes given texts, one per request."""

    def __init__(self, *texts: str, stopped: bool = True) -> None:
        self._texts = list(texts)
        self._stopped = stopped
        self.requests: list[GenerationRequest] = []
        self.released: list[str] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        ids = (*(100 + ord(c) for c in self._texts.pop(0)), END)
        return Generation(
            token_ids=ids,
            logprobs=tuple(-0.5 for _ in ids),
            versions=tuple(3 for _ in ids),
            stopped=self._stopped,
        )

    async def release(self, conversation_id: str) -> None:
        self.released.append(conversation_id)

    async def load(self, version: PolicyVersion) -> ServedWeights:
        raise NotImplementedError

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        pass


class Spelling:
    """Encodes every character as its code point plus 100."""

    stop_ids = (END,)

    def grammar(self, task: CoverageTask) -> None:
        pass

    def prompt(
        self, task: CoverageTask, design: Design, points: Sequence[Point]
    ) -> tuple[int, ...]:
        begun = task.state.testbench if isinstance(task.state, Graded) else ""
        return tuple(100 + ord(c) for c in f"{design.specification} {len(points)} {begun}")

    def read(self, task: CoverageTask, token_ids: Sequence[int]) -> Submission:
        text = "".join(chr(token - 100) for token in token_ids[:-1])
        if not text:
            raise ValueError("nothing was written")
        return Testbench(text=text)


def workbench(
    model: Typist, simulator: ScriptedSimulator, *, max_tokens: int = 4000
) -> TestbenchAgent:
    renderer = Spelling()
    return TestbenchAgent(
        writer=PolicyWriter(generator=model, renderer=renderer, temperature=0.7),
        simulator=simulator,
        renderer=renderer,
        designs=Catalogue([design("top")]),
        limits=RolloutConfig(max_tokens=max_tokens, max_call_tokens=200),
        simulation=SimulationLimits(slots=77),
    )


async def test_a_step_is_graded_and_trained_on_as_it_was_sampled():
    model, simulator = Typist("module tb;"), ScriptedSimulator()
    played = await workbench(model, simulator).attempt(TASK.task(), "s", seed=5)
    request = simulator.requests[0]
    assert request.submission == Testbench(text="module tb;")
    assert (request.instance, request.limits.slots) == ("dut", 77)
    asked = model.requests[0]
    assert (asked.seed, asked.temperature, asked.max_tokens) == (5, 0.7, 200)
    made = read_outcome(played.outcome)
    assert made is not None
    assert played.outcome_key == made.key
    coverage = coverage_of(made)
    assert coverage is not None
    assert played.reward == 1 + coverage.overall_average
    assert (played.ended, played.succeeded) == ("finished", True)
    assert sum(played.tokens.mask) == len("module tb;") + 1
    assert played.tokens.count == len(asked.prompt_ids) + len("module tb;") + 1
    assert model.released == ["s"]


async def test_the_threshold_decides_success_but_not_the_reward():
    strict = msgspec.structs.replace(TASK, threshold=1.0)
    played = await workbench(Typist("module tb;"), ScriptedSimulator()).attempt(
        strict.task(), "s", seed=0
    )
    assert (played.ended, played.succeeded) == ("wrong", False)
    assert 1 < played.reward < 2


@pytest.mark.parametrize(
    ("model", "ended", "graded"),
    [
        (Typist("it is broken"), "wrong", True),
        (Typist(""), "malformed", False),
        (Typist("module", stopped=False), "too_long", False),
    ],
)
async def test_errors_of_the_policy_earn_nothing(model: Typist, ended: str, graded: bool):
    played = await workbench(model, ScriptedSimulator()).attempt(TASK.task(), "s", seed=0)
    assert (played.ended, played.reward) == (ended, 0.0)
    assert (read_outcome(played.outcome) is not None) == graded


async def test_a_prompt_that_leaves_no_room_is_refused():
    bench = workbench(Typist("x"), ScriptedSimulator(), max_tokens=5)
    with pytest.raises(SimulatorError, match=r"shorter than rollout\.max_tokens = 5, found \d+"):
        await bench.attempt(TASK.task(), "s", seed=0)


class Given:
    """An agent with given testbenches; records the state from which each step started."""

    def __init__(self, *states: Graded | None) -> None:
        self._states = list(states)
        self.tasks: list[CoverageTask] = []

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        self.tasks.append(coverage_task(task))
        state = self._states.pop(0)
        return Episode(
            tokens=NOTHING,
            reward=0.0,
            actions=(),
            turns_passed=0,
            turns_total=1,
            ended="wrong",
            versions=(0,),
            oldest_version=0,
            wall_s=0.0,
            outcome=NO_OUTCOME if state is None else body_of(state),
        )


LOW, HIGH, FULL = (covered((n, 100), testbench=f"tb {n}") for n in (10, 70, 100))


async def test_scoring_continues_from_the_best_testbench_so_far():
    agent = Given(FAILED, HIGH, LOW, LOW)
    score = await StepScorer(agent=agent, rounds=4, keeps_best=True).score(TASK.task(), "s")
    assert [task.state for task in agent.tasks] == [Blank(), FAILED, HIGH, HIGH]
    assert (score.score, score.turns_passed, score.turns_total) == (0.7, 1, 1)


async def test_with_memory_last_scoring_continues_from_the_last_testbench():
    agent = Given(HIGH, LOW, None, FAILED)
    score = await StepScorer(agent=agent, rounds=4, keeps_best=False).score(TASK.task(), "s")
    assert [task.state for task in agent.tasks] == [Blank(), HIGH, LOW, LOW]
    assert score.score == 0.7


async def test_scoring_ends_when_everything_is_covered():
    agent = Given(FULL, LOW)
    await StepScorer(agent=agent, rounds=2, keeps_best=True).score(TASK.task(), "s")
    assert len(agent.tasks) == 1


async def test_a_policy_that_writes_nothing_scores_nothing():
    scorer = StepScorer(agent=Given(None, None), rounds=2, keeps_best=True)
    score = await scorer.score(TASK.task(), "s")
    assert (score.score, score.turns_passed) == (0.0, 0)


def test_the_last_of_equal_testbenches_is_the_best():
    other = msgspec.structs.replace(HIGH, testbench="another")
    assert best([LOW, HIGH, other, FAILED]) is other


REQUEST = Evaluate(unit=unit(), submission=Testbench(text="module tb;"))


async def test_a_retry_goes_to_another_simulator():
    broken, sound = ScriptedSimulator(broken=10), ScriptedSimulator()
    pool = EvaluationPool([broken, sound])
    with pytest.raises(SimulatorError, match="compiler was not there"):
        await pool.evaluate(REQUEST)
    for _ in range(3):
        await pool.evaluate(REQUEST)
    assert (len(sound.requests), len(broken.requests)) == (3, 1)


class Forgetful(ScriptedSimulator):
    """Fails a number of times to return a unit's points."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.asked = 0

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        self.asked += 1
        if self.asked <= self.failures:
            raise SimulatorError("the compiler was not there")
        return await super().points(unit)


async def test_failed_requests_for_points_are_retried_and_points_are_cached():
    worker = Forgetful(failures=3)
    pool = EvaluationPool([worker])
    with pytest.raises(SimulatorError, match="compiler was not there"):
        await pool.points(unit())
    found = await pool.points(unit())
    assert found == await pool.points(unit())
    assert worker.asked == 4


def test_a_pool_without_simulators_is_refused():
    with pytest.raises(ValueError, match="at least one worker"):
        EvaluationPool([])


def test_a_state_keeps_its_designs_split_and_form():
    step = continued(TASK, HIGH, "g1/0")
    kept = ("split", "design", "form", "instance", "threshold")
    assert all(getattr(step, name) == getattr(TASK, name) for name in kept)
