"""Attacks on sessions, written without knowledge of their defences.

Each entry of ``attacks.json`` is the text of a policy in one session, turn by turn; ``<<N
times: text>>`` stands for the text N times. An honest session works beside each attack and must get
the same answers as alone.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coevolve.environments.tools.bfcl.stock import CLASSES
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Command,
    Grade,
    Observed,
    Passed,
    Release,
    Reset,
    Trial,
    Tried,
)
from coevolve.environments.tools.endings import OUT_OF_TIME
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.worker import ToolWorker
from protocols.config import SimulatorConfig

pytestmark = pytest.mark.timeout(900)

AIMS = ("verdict", "sharing", "reading", "outside", "exhaustion", "determinism")
ROOT = Path(__file__).parents[5]

HONEST = ToolTask(
    classes=("GorillaFileSystem", "TwitterAPI", "MathAPI"),
    world=json.dumps(
        {
            "GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}},
            "TwitterAPI": {"authenticated": True, "username": "a", "password": "b"},
        }
    ),
    turns=(
        ToolTurn(instruction="", reference=("touch(file_name='a')", "power(10, 5000)")),
        ToolTurn(instruction="", reference=("post_tweet(content='x')", "get_tweet(tweet_id=0)")),
    ),
)


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the file."""

    name: str
    aim: str
    classes: tuple[str, ...]
    world: dict[str, Any]
    reference: tuple[tuple[str, ...], ...]
    calls: tuple[tuple[str, ...], ...]
    expected: str
    long_context: bool = False
    checks_directory: bool = False

    def task(self) -> ToolTask:
        turns = (ToolTurn(instruction="", reference=each) for each in self.reference)
        return ToolTask(
            classes=self.classes,
            world=json.dumps(self.world),
            turns=tuple(turns),
            long_context=self.long_context,
            checks_directory=self.checks_directory,
        )

    def turns(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(map(written, calls)) for calls in self.calls[: len(self.reference)])


def attacks() -> list[Attack]:
    content = (Path(__file__).parent / "attacks.json").read_text()
    # Some hold unpaired surrogates, which msgspec does not read.
    return msgspec.convert(json.loads(content), list[Attack])


def written(text: str) -> str:
    return re.sub(
        r"<<(\d+) times: (.*?)>>", lambda found: int(found[1]) * found[2], text, flags=re.DOTALL
    )


def honest(turn: int) -> list[Command]:
    calls = HONEST.turns[turn].reference
    return [*(Act(session="honest", text=text) for text in calls), Grade(session="honest")]


async def alone() -> list[Any]:
    worker = ToolWorker(SimulatorConfig(), CLASSES)
    replies = await worker.execute([Reset(session="honest", task=HONEST), *honest(0), *honest(1)])
    await worker.close()
    return list(replies)


@pytest.mark.parametrize("aim", AIMS)
async def test_no_attack_passes_breaks_or_affects_another_session(aim: str) -> None:
    expected = await alone()
    assert expected[3] == expected[6] == Passed()
    worker = ToolWorker(SimulatorConfig(), CLASSES)
    mine = [attack for attack in attacks() if attack.aim == aim]
    assert mine
    for attack in mine:
        await worker.execute([Reset(session="honest", task=HONEST)])
        beside = list(await worker.execute(honest(0)))
        await worker.execute([Reset(session="attack", task=attack.task())])
        for turn, calls in enumerate(attack.turns()):
            acts = [Act(session="attack", text=text) for text in calls]
            replies = await worker.execute([*acts, Grade(session="attack")])
            verdict = replies[-1]
            assert not any(isinstance(reply, Broken) for reply in replies), attack.name
            for reply in replies:
                told = reply.result if isinstance(reply, Observed) else ""
                assert str(ROOT) not in told, attack.name
                assert not re.search(r" at 0x[0-9a-f]{6}", told), attack.name
            if attack.expected == "must_fail" and attack.reference[turn]:
                assert not isinstance(verdict, Passed), (attack.name, turn)
        beside += await worker.execute([*honest(1), Release(session="attack")])
        assert beside[:-1] == expected[1:], attack.name
    assert worker.restarts == 0
    await worker.close()


@pytest.mark.parametrize("aim", AIMS)
async def test_every_attack_has_the_same_answers_in_a_session_and_in_a_trial_of_another_process(
    aim: str,
) -> None:
    workers = [ToolWorker(SimulatorConfig(), CLASSES) for _ in range(2)]
    mine = [attack for attack in attacks() if attack.aim == aim]
    assert mine
    for attack in mine:
        task = attack.task()
        asked: list[Command] = [Reset(session="attack", task=task)]
        for calls in attack.turns():
            asked += [
                *(Act(session="attack", text=text) for text in calls),
                Grade(session="attack"),
            ]
        trial = Trial(session="t", task=task, turns=attack.turns())
        (_, *first), (tried,) = await asyncio.gather(
            workers[0].execute(asked), workers[1].execute([trial])
        )
        assert isinstance(tried, Tried), attack.name
        assert [reply for turn in tried.turns for reply in (*turn.observed, turn.verdict)] == first
        assert not {OUT_OF_TIME.answer, OUT_OF_TIME.verdict} & set(first), attack.name
    for worker in workers:
        assert worker.restarts == 0
        await worker.close()
