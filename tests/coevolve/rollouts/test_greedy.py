"""Scores of tasks with tools are greedy: every request of an attempt has temperature 0."""

import asyncio
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.initial_model import make_model
from coevolve.environments.registry import environment_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.models.tiny_random.resolve import running
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from protocols.generation import Generation, GenerationRequest
from tests.fakes import ScriptGenerator

OWN = Path(__file__).parents[2] / "own"
RUN_FILES = ("quickstart", "run.yaml")


class Ending(ScriptGenerator):
    """Ends each message at once."""

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        return Generation(
            token_ids=request.stop_ids[-1:], logprobs=(0.0,), versions=(0,), stopped=True
        )


@pytest.fixture(params=RUN_FILES)
def config(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> RunConfig:
    """A run with sampled rollouts, of a built-in environment and of one that a user wrote."""
    monkeypatch.chdir(OWN)
    monkeypatch.syspath_prepend(str(OWN))
    config = load_config(request.param, ["rollout.temperature=1.0"])
    if config.policy.tiny_random:
        make_model(config, tmp_path)
    return running(config, tmp_path)


def attempted(config: RunConfig, folder: Path, *, scored: bool) -> list[GenerationRequest]:
    """Return the requests of an attempt at each of four held-out tasks."""

    async def attempt() -> list[GenerationRequest]:
        store = LocalStore(Journal.open(folder / "store"))
        context = PartContext(config=config, files=LocalFiles(folder), store=store, reader=store)
        environment, engine = environment_of(config), Ending([])
        workers = [environment.simulator()]
        proven = VerifiedEngine(context, "evaluator", engine)
        scorer = environment.scorer(context, proven, workers)
        agent = environment.agents("rollout-0", context, proven, workers)["policy"]
        for number, task in enumerate(environment.scored_tasks()[:4]):
            if scored:
                await scorer.score(task, f"score-{number}")
            else:
                await agent.attempt(task, f"rollout-{number}", seed=0)
        await workers[0].close()
        return engine.requests

    return asyncio.run(attempt())


def test_scores_are_greedy(config: RunConfig, tmp_path: Path):
    requests = attempted(config, tmp_path, scored=True)
    assert requests
    assert {each.temperature for each in requests} == {0.0}


def test_rollouts_are_sampled(config: RunConfig, tmp_path: Path):
    requests = attempted(config, tmp_path, scored=False)
    assert requests
    assert {each.temperature for each in requests} == {1.0}
