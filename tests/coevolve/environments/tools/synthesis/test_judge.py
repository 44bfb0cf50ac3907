from contextlib import nullcontext

import pytest

from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.synthesis.accounts import Account, FindAccount
from coevolve.environments.tools.synthesis.judge import EndpointJudge
from protocols.evolution import NO_OPINION, Candidate, Opinion
from tests.chat_server import fails, says, serving
from tests.synthesizing import MemoryCalls, model_at


def candidate(candidate_id: str = "c") -> Candidate:
    return Candidate(
        candidate_id=candidate_id,
        signal_id="s",
        exploration_id="e",
        synthesizer="other",
        body=uniform_task(0, 1).body,
        policy_version=0,
    )


def paid_by(calls: MemoryCalls) -> FindAccount:
    async def account_of(candidate: Candidate) -> Account:
        return Account(calls=nullcontext(calls), kind="rare")

    return account_of


async def test_an_opinion_is_recorded_and_replayed() -> None:
    calls = MemoryCalls()
    with serving() as server:
        judge = EndpointJudge(model_at(server.base_url), account_of=paid_by(calls))
        opinion = await judge.opinion(candidate())
        assert opinion == Opinion(
            judge="scripted", success=True, reason="Every step answers its instruction."
        )
        assert await judge.opinion(candidate()) == opinion
        assert len(server.requests) == 1
        server.then(says('{"success": false, "reason": "It stops early."}'))
        assert not (await judge.opinion(candidate("d"))).success
        await judge.close()
    assert {(call.purpose, call.kind) for call in calls.calls.values()} == {("judge", "rare")}
    assert len(calls.calls) == 2


@pytest.mark.parametrize("fault", ["endpoint", "answer", "budget"])
async def test_a_judge_that_fails_has_no_opinion(fault: str) -> None:
    calls = MemoryCalls(most_tokens=10 if fault == "budget" else 10**6)
    with serving(lambda messages: "perhaps") as server:
        if fault == "endpoint":
            server.then(fails(401))
        judge = EndpointJudge(model_at(server.base_url), account_of=paid_by(calls))
        assert await judge.opinion(candidate()) == NO_OPINION
        await judge.close()
