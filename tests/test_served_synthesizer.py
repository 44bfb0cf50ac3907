"""A merged export on vLLM's own server, with the endpoint synthesizer's client.

The model's weights are random, so its answers are garbage. The tests check that garbage is refused,
counted and paid for, and that no run takes it.
"""

import json
import shutil
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import openai
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.synthesis import prompt_parts
from coevolve.environments.tools.synthesis.accounts import Account
from coevolve.environments.tools.synthesis.endpoint import EndpointSynthesizer
from coevolve.environments.tools.synthesis.judge import EndpointJudge
from coevolve.environments.tools.task import read_body
from coevolve.journal.codec import decode
from coevolve.llm.client import Chat, PromptMessage, cost_usd
from coevolve.llm.recorded_calls import Budget, JournalCallLog, Ledger
from protocols import journal
from protocols.config import RunConfig
from protocols.errors import AnswerError, OverBudgetError
from protocols.evolution import NO_OPINION, Candidate, ModelCall, SynthesizerSwapped
from protocols.evolution_config import SynthesizerConfig
from protocols.synthesizers import EndpointModel
from protocols.tasks import body_of
from tests.chat_server import serving
from tests.commands import Answer, answered, called
from tests.exporting import chat_model, settings, write_run, write_versions
from tests.launched import LaunchedRun, launched
from tests.learning import MemoryJournal
from tests.simulated import InProcessSimulator
from tests.synthesizing import MemoryCalls, brief_about
from tests.vllm_server import VllmServer, serving_model

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

GARBLER = "garbler"
SCRIPTED = "scripted-model"
BODY = read_body(uniform_task(0, 1).body)
BRIEF = brief_about(BODY, rounds=1, steps=2)
PROMPT = [5, 300, 41, 7, 512, 90]
WRITTEN = 24
PATIENCE_S = 300.0
"""The server and the whole run share the machine with other tests."""

SMALL = (
    *("learner.groups_per_step=4", "rollout.group_size=4", "environment.held_out=24"),
    *("rollout.in_flight_groups=8", "learner.imitation.replay_per_step=4"),
    *("synthesizer.rounds=1", "learner.steps=400"),
)


class Served:
    """A run of an adapter on a random chat model, its export, and the export's server."""

    def __init__(self, folder: Path) -> None:
        texts = [message.content for message in prompt_parts.reflect(BRIEF)]
        base = chat_model(folder / "base-model", texts * 4)
        config = settings(RunConfig(name="x"), policy={"model": str(base), "train": "lora"})
        versions = write_versions(folder / "w", config, (0, 1))
        self.run = write_run(folder / "trial", config, versions)
        shutil.move(folder / "w" / "versions", self.run.path / "versions")
        self.export = folder / "policy"
        answer = answered("export", str(self.run.path), "merged", "--to", str(self.export))
        assert answer.returncode == 0, answer.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def server(served: Served) -> Generator[VllmServer]:
    log = served.export.parent / "server.log"
    with serving_model(served.export, GARBLER, log, length=8192) as server:
        yield server


def model_of(server: VllmServer) -> EndpointModel:
    return EndpointModel(
        base_url=server.base_url,
        model=server.model,
        timeout_s=60.0,
        tries=2,
        max_answer_tokens=32,
        usd_per_million_prompt_tokens=2.0,
        usd_per_million_answer_tokens=10.0,
    )


def greedy(served: Served, ids: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return PEFT's greedy continuation of each of ``ids``, and its margins.

    It uses the run's own adapter, independent of the export, of vLLM and of its cache.
    """
    base = AutoModelForCausalLM.from_pretrained(served.run.config().policy.model)
    model = PeftModel.from_pretrained(base, str(served.run.path / "versions" / "v_1"))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([list(ids)])).logits[0]
    best = torch.log_softmax(logits.float(), -1).max(-1)
    return best.indices.tolist(), best.values.tolist()


def test_vllm_writes_the_runs_own_greedy_tokens_from_a_merged_export(
    served: Served, server: VllmServer
):
    client = openai.OpenAI(base_url=server.base_url, api_key="none")
    answer = client.completions.create(
        model=server.model,
        prompt=PROMPT,
        max_tokens=WRITTEN,
        temperature=0.0,
        logprobs=0,
        extra_body={"return_token_ids": True, "ignore_eos": True},
    )
    choice = answer.choices[0]
    ids = cast("Any", choice).token_ids
    assert len(ids) == WRITTEN
    best, logprobs = greedy(served, [*PROMPT, *ids[:-1]])
    assert ids == best[len(PROMPT) - 1 :]
    assert choice.logprobs is not None
    found = choice.logprobs.token_logprobs
    assert found == pytest.approx(logprobs[len(PROMPT) - 1 :], abs=1e-4)


async def test_the_client_gets_a_constrained_answer_with_the_servers_own_counts(
    served: Served, server: VllmServer
):
    chat = Chat(model_of(server))
    question = (
        PromptMessage(role="system", content="Be brief."),
        PromptMessage(role="user", content="Well?"),
    )
    said = await chat.ask(question)
    await chat.close()
    tokenizer = AutoTokenizer.from_pretrained(served.export)
    messages = [{"role": each.role, "content": each.content} for each in question]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert said.prompt_tokens == len(prompt)
    assert 0 < said.answer_tokens <= 32
    # The client asks for a JSON object; without that, a random model would hardly begin one.
    assert said.text.lstrip().startswith("{")


def test_the_server_keeps_to_a_json_schema(server: VllmServer):
    client = openai.OpenAI(base_url=server.base_url, api_key="none")
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"success": {"type": "boolean"}, "gate": {"enum": ["judge", "no_effect"]}},
        "required": ["success", "gate"],
        "additionalProperties": False,
    }
    answers = [
        client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": "Is it sound?"}],
            max_tokens=200,
            seed=seed,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        ).choices[0]
        for seed in range(4)
    ]
    # A random model may write blanks between two words until its length limit.
    whole = [each.message.content or "" for each in answers if each.finish_reason == "stop"]
    assert whole
    found = json.loads(whole[0])
    assert set(found) == {"success", "gate"}
    assert found["gate"] in ("judge", "no_effect")


async def test_garbage_is_refused_and_paid_for(server: VllmServer):
    model = model_of(server)
    book = MemoryJournal()
    synthesizer = EndpointSynthesizer(model, simulator=InProcessSimulator())
    assert synthesizer.name == GARBLER
    async with call_log(book, SynthesizerConfig()) as calls:
        with pytest.raises(AnswerError, match="asked twice to reflect for signal signal-7"):
            await synthesizer.synthesize(BRIEF, calls)
    made = [call for call in book.all(ModelCall) if isinstance(call, ModelCall)]
    assert [(call.ordinal, call.purpose, call.model) for call in made] == [
        (0, "reflect", GARBLER),
        (1, "reflect", GARBLER),
    ]
    for call in made:
        assert call.prompt_tokens > 100
        assert 0 < call.answer_tokens <= 32
        assert call.cost_usd == cost_usd(model, call.prompt_tokens, call.answer_tokens) > 0
    spent = sum(call.prompt_tokens + call.answer_tokens for call in made)
    async with call_log(book, SynthesizerConfig(max_tokens=spent + 1), signal="signal-8") as calls:
        with pytest.raises(OverBudgetError, match=f"{spent} are used"):
            await synthesizer.synthesize(brief_about(BODY), calls)
    await synthesizer.close()
    assert len(book.all(ModelCall)) == 2


def call_log(
    book: MemoryJournal, config: SynthesizerConfig, signal: str = "signal-7"
) -> JournalCallLog:
    async def append(messages: Sequence[journal.Message]) -> tuple[int, ...]:
        return book.add(*messages)

    ledger = Ledger(Budget.of_synthesizer(config), book)
    return JournalCallLog(signal, "boundary", GARBLER, ledger=ledger, reader=book, append=append)


async def test_a_judge_that_answers_garbage_has_no_opinion_and_its_calls_are_counted(
    server: VllmServer,
):
    calls = MemoryCalls()

    async def account_of(candidate: Candidate) -> Account:
        return Account(calls=nullcontext(calls), kind="rare")

    judge = EndpointJudge(model_of(server), account_of=account_of)
    candidate = Candidate(
        candidate_id="c",
        signal_id="s",
        exploration_id="e",
        synthesizer="other",
        body=body_of(BODY),
        policy_version=0,
    )
    assert await judge.opinion(candidate) == NO_OPINION
    await judge.close()
    assert [call.purpose for call in calls.calls.values()] == ["judge", "judge"]
    assert all(call.cost_usd > 0 for call in calls.calls.values())


@pytest.mark.ray
def test_a_live_run_refuses_a_model_that_answers_garbage_and_continues_with_another(
    server: VllmServer, tmp_path: Path
):
    with serving() as scripted, launched(tmp_path, "served", *SMALL) as run:
        run.until("the first step", lambda: run.step() >= 1, PATIENCE_S)
        refused = swap(run, server.base_url, GARBLER)
        assert refused.returncode == 1
        assert "gave no usable answer" in refused.stderr
        assert swap(run, scripted.base_url, SCRIPTED).returncode == 0
        run.until("a candidate of the other model", lambda: SCRIPTED in makers(run), PATIENCE_S)
        before = run.step()
        run.until("training to go on", lambda: run.step() > before, PATIENCE_S)
        assert called("attach", str(run.directory), "stop").returncode == 0
        assert run.wait() == 0, run.said()
    assert [swapped.synthesizer for swapped in found(run, SynthesizerSwapped)] == [SCRIPTED]
    assert GARBLER not in makers(run)
    assert not [call for call in found(run, ModelCall) if call.model == GARBLER]


def swap(run: LaunchedRun, base_url: str, model: str) -> Answer:
    """Swap to another model, with a price; return what attach says."""
    return run.attach(
        *("swap-synthesizer", "--base-url", base_url, "--model", model, "--tries", "1"),
        *("--timeout-s", "60", "--max-answer-tokens", "48" if model == GARBLER else "2048"),
        *("--usd-per-million-prompt-tokens", "2", "--usd-per-million-answer-tokens", "10"),
    )


def found(run: LaunchedRun, kind: type[Any]) -> list[Any]:
    """Return every message of a kind that the run has recorded so far."""
    topic = kind.__struct_config__.tag
    with run.reader().snapshot() as state:
        return [decode(record) for record in state.scan(topic, limit=10**6)]


def makers(run: LaunchedRun) -> set[str]:
    return {candidate.synthesizer for candidate in found(run, Candidate)}
