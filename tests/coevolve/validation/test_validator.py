"""Tests of the validator on a real journal, with BFCL's simulators and a scripted policy."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.filesystem.grammar import held_out_tasks, static_pool
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.gates.similarity import Likenesses
from coevolve.environments.tools.gates.trials import TRIES, Trials
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from coevolve.environments.tools.wordings import wordings_of
from coevolve.journal.codec import decode_as, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox
from coevolve.journal.paging import whole_topic
from coevolve.validation.judge import NoJudge
from coevolve.validation.ledger import FIRST, Ledger
from coevolve.validation.validator import FAILED_PROBES, Validator
from protocols.config import RunConfig, WatchdogConfig
from protocols.control import DeadLetter
from protocols.errors import EndpointError, SimulatorError
from protocols.evolution import (
    NO_OPINION,
    NO_READING,
    Admitted,
    Candidate,
    CandidateVerdict,
    Opinion,
    Parked,
    ProbeReport,
    ProbeRequest,
    ReaderAnswers,
    ReaderRests,
    Reading,
    Refused,
)
from protocols.interfaces import Store
from protocols.journal import (
    Append,
    Complete,
    JournalStatistics,
    Message,
    Receipt,
    StoredRecord,
    Take,
)
from protocols.learning import PolicyVersion
from protocols.tasks import Synthesized, Task
from tests.contexts import context_of
from tests.evolving import visit
from tests.planted import SPOILT, candidate, copies, draws, said, single, some_file, with_turns
from tests.simulated import InProcessSimulator

pytestmark = pytest.mark.usefixtures("short_waits")

WAIT_S = 90.0
Kind = TypeVar("Kind", bound=msgspec.Struct)

Policy = Callable[[ProbeRequest], tuple[int, int, int]]
"""Returns successes, rollouts and failed rollouts of a probe."""


def learns(_: ProbeRequest) -> tuple[int, int, int]:
    return 2, 4, 0


def fails(_: ProbeRequest) -> tuple[int, int, int]:
    return 0, 4, 0


class StubbornJudge:
    """Always gives the same opinion."""

    async def opinion(self, candidate: Candidate) -> Opinion:
        return Opinion(judge="stubborn", success=False, reason=f"no to {candidate.candidate_id}")


class AgreeingReader:
    """Confirms everything."""

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        return Reading(reader="agreeing", outcome="confirmed", found="agrees", agreement=1.0)


class MumblingReader:
    """Reads nothing, after failures of its server."""

    def __init__(self, failures: int = 1) -> None:
        self.failures = failures
        self.asked: list[str] = []

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        self.asked.append(candidate.candidate_id)
        if len(self.asked) <= self.failures:
            raise EndpointError("no answer")
        return MUMBLED


AGREEING = AgreeingReader()
MUMBLED = Reading(reader="mumbling", outcome="unread", found="mumbles")


class Desk:
    """A journal, a validator that works on it, and the other parts' side of the exchange."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        policy: Policy = learns,
        simulator: Simulator | None = None,
        **settings: float,
    ) -> None:
        tree = msgspec.to_builtins(config)
        tree["validator"]["probe_share"] = 1.0
        sections = {"imitation_weight": (tree["learner"]["imitation"], "weight")}
        for name, value in settings.items():
            section, field = sections.get(name, (tree["validator"], name))
            section[field] = value
        self.config = msgspec.convert(tree, RunConfig)
        self.journal = Journal.open(folder)
        self.store = LocalStore(self.journal)
        self.policy = policy
        self.simulator = simulator or InProcessSimulator()
        self.held_out = held_out_tasks(60)
        self._writes = 0
        self._probing = asyncio.create_task(self._answer_probes())
        self.start()

    def start(
        self,
        store: Store | None = None,
        judge: NoJudge | StubbornJudge | None = None,
        reader: InstructionReader | None = AGREEING,
    ):
        self.validator = Validator(
            context_of(self.config, store or self.store, "validator", reader=self.store),
            gates=ToolGates(
                self.simulator,
                calls_per_turn=self.config.rollout.max_calls_per_turn,
                reader=reader,
            ),
            open_index=lambda: Likenesses(self.config.validator.similarity),
            held_out=self.held_out,
            judge=judge or NoJudge(),
            wordings=lambda body: wordings_of(read_body(body)),
        )
        self.running = asyncio.create_task(self.validator.run())

    async def kill(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])

    async def say(self, *messages: Message) -> None:
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        await self.store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

    async def all(self, kind: type[Kind]) -> list[Kind]:
        topic = topic_of(kind)
        return [decode_as(record, kind) async for record in whole_topic(self.store, topic)]

    async def wait_for(self, kind: type[Kind], count: int) -> list[Kind]:
        """Return the first records of a kind as soon as there are ``count``."""
        seen = 0
        async with asyncio.timeout(WAIT_S):
            while len(found := await self.all(kind)) < count:
                if self.running.done():
                    self.running.result()
                seen = await self.store.wait((topic_of(kind),), seen, WAIT_S)
        return found

    async def verdicts(self, count: int) -> list[CandidateVerdict]:
        return await self.wait_for(CandidateVerdict, count)

    async def _answer_probes(self) -> None:
        mailbox = Mailbox(
            self.store, consumer="rollout", topics=("probe_request",), member="r", lease_s=600.0
        )
        while True:
            for delivery in await mailbox.take(100, WAIT_S):
                request = delivery.message
                assert isinstance(request, ProbeRequest)
                successes, rollouts, failed = self.policy(request)
                report = ProbeReport(
                    probe_id=request.probe_id,
                    candidate_id=request.candidate_id,
                    successes=successes,
                    rollouts=rollouts,
                    errors=failed,
                    policy_version=request.policy_version_at_least,
                    sampled_tokens=100,
                    calls=10,
                )
                await mailbox.complete((delivery.sequence,), (report,))

    async def close(self) -> None:
        await self.validator.stop()
        await self.running
        self._probing.cancel()
        await asyncio.wait([self._probing])
        self.journal.close()


def version(number: int) -> PolicyVersion:
    return PolicyVersion(
        version=number,
        path=f"v{number}",
        format="full",
        digest="d",
        size_bytes=1,
        kept=False,
    )


def sound(seed: int, count: int) -> list[Candidate]:
    """Return valid candidates with one turn that creates a file."""
    return [
        candidate(
            with_turns(
                read_body(task.body),
                [said(f"Make 'new{seed}_{n}.txt'.", f"touch(file_name='new{seed}_{n}.txt')")],
            )
        )
        for n, task in enumerate(islice(draws(seed), count))
    ]


def kinds(verdicts: Sequence[CandidateVerdict]) -> Counter[type]:
    return Counter(type(verdict.outcome) for verdict in verdicts)


async def test_a_sound_candidate_is_probed_and_becomes_a_task(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, judge=True)
    await desk.kill()
    desk.start(judge=StubbornJudge())
    body = read_body(next(draws(31)).body)
    asked = msgspec.structs.replace(candidate(body), policy_version=3)
    await desk.say(asked)
    (verdict,) = await desk.verdicts(1)
    (probe,) = await desk.all(ProbeRequest)
    (task,) = await desk.all(Task)
    assert read_body(probe.body) == body
    assert probe.rollouts == desk.config.validator.probes
    assert probe.policy_version_at_least == 3
    assert verdict.outcome == Admitted(
        task_id=task.task_id, label="learnable", probe_successes=2, probe_rollouts=4
    )
    assert verdict.policy_version == 3
    assert verdict.simulator_calls > 0
    assert verdict.opinion.reason == f"no to {asked.candidate_id}"
    assert read_body(task.body) == body
    assert task.split == "train"
    assert task.skills == tuple(
        "+".join(call.partition("(")[0] for call in turn.reference) for turn in body.turns
    )
    assert task.origin == Synthesized(candidate_id=asked.candidate_id, signal_id=asked.signal_id)
    assert desk.validator.status().mailbox == 0
    await desk.close()


async def test_none_of_many_planted_bad_candidates_is_admitted(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    pool = static_pool(0, 30)
    await desk.say(*pool)
    expected: dict[str, str] = {}
    for gate, bodies in SPOILT.items():
        # A candidate without turns cannot be recorded.
        for body in islice(filter(lambda body: body.turns, bodies()), 7):
            expected[(bad := candidate(body)).candidate_id] = gate
            await desk.say(bad)
    for gate, tasks in (("duplicate", pool), ("contaminated", desk.held_out)):
        for body in copies(tasks):
            expected[(bad := candidate(body)).candidate_id] = gate
            await desk.say(bad)
    assert len(expected) > 100
    verdicts = await desk.verdicts(len(expected))
    assert {verdict.candidate_id for verdict in verdicts} == expected.keys()
    assert kinds(verdicts) == {Refused: len(expected)}
    right: Counter[str] = Counter()
    for verdict in verdicts:
        assert isinstance(verdict.outcome, Refused)
        right[verdict.outcome.gate] += verdict.outcome.gate == expected[verdict.candidate_id]
        if verdict.outcome.gate == "contaminated":
            assert verdict.outcome.found.endswith("a held-out task")
    assert right.keys() == {*expected.values()}
    assert min(right.values()) >= 5
    assert not await desk.all(ProbeRequest)
    assert len(await desk.all(Task)) == len(pool)
    await desk.close()


async def test_a_held_out_task_with_more_turns_is_contaminated(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, similarity=1.0)
    held_out = read_body(desk.held_out[0].body)
    more = [said(f"Make 'x{n}.txt'.", f"touch(file_name='x{n}.txt')") for n in range(3)]
    await desk.say(candidate(with_turns(held_out, [*held_out.turns, *more])))
    (verdict,) = await desk.verdicts(1)
    assert verdict.outcome == Refused(
        gate="contaminated", found="it shares its requests with a held-out task"
    )
    await desk.close()


async def test_nearly_all_of_many_planted_good_candidates_are_admitted(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    good = [candidate(read_body(task.body)) for task in islice(draws(55), 105)]
    await desk.say(*good)
    verdicts = await desk.verdicts(len(good))
    alike = ("duplicate", "contaminated")
    new = [
        each
        for each in verdicts
        if not (isinstance(each.outcome, Refused) and each.outcome.gate in alike)
    ]
    assert len(new) >= 100
    assert kinds(new)[Admitted] >= 0.95 * len(new)
    await desk.close()


async def test_probes_label_and_failed_ones_are_asked_for_again(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    always, sometimes, never, failed, once_failed = sound(1, 5)
    said: dict[str, tuple[int, int, int]] = {
        always.candidate_id: (4, 4, 0),
        sometimes.candidate_id: (1, 3, 1),
        never.candidate_id: (0, 2, 2),
        failed.candidate_id: (0, 0, 4),
    }

    def policy(request: ProbeRequest) -> tuple[int, int, int]:
        if request.candidate_id == once_failed.candidate_id:
            return (0, 0, 4) if request.probe_id.endswith("/probe-0") else (4, 4, 0)
        return said[request.candidate_id]

    desk = Desk(tmp_path, quickstart, policy)
    await desk.say(always, sometimes, never, failed, once_failed)
    verdicts = {each.candidate_id: each for each in await desk.verdicts(5)}
    labels = {
        name: verdict.outcome.label
        for name, verdict in verdicts.items()
        if isinstance(verdict.outcome, Admitted)
    }
    assert labels == {
        always.candidate_id: "mastered",
        sometimes.candidate_id: "learnable",
        never.candidate_id: "not_yet",
        once_failed.candidate_id: "mastered",
    }
    assert verdicts[failed.candidate_id].outcome == Parked(probe_rollouts=0)
    asked = Counter(probe.candidate_id for probe in await desk.all(ProbeRequest))
    assert (asked[failed.candidate_id], asked[once_failed.candidate_id]) == (FAILED_PROBES, 2)
    assert all(verdict.simulator_calls > 0 for verdict in verdicts.values())
    assert all(verdict.opinion == NO_OPINION for verdict in verdicts.values())
    await desk.close()


async def test_the_share_of_too_hard_tasks_is_bounded(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    easy, hard = sound(2, 10), sound(3, 30)
    names = {each.candidate_id for each in easy}

    def policy(request: ProbeRequest) -> tuple[int, int, int]:
        return (1 if request.candidate_id in names else 0), 4, 0

    desk = Desk(tmp_path, quickstart, policy, not_yet_share=0.5)
    await desk.say(*hard[:15])
    assert kinds(await desk.verdicts(15)) == {Admitted: FIRST, Parked: 15 - FIRST}
    await desk.say(*easy)
    await desk.verdicts(25)
    await desk.say(*hard[15:])
    # With 10 solvable tasks, 10 too-hard ones make up half.
    assert kinds(await desk.verdicts(40))[Admitted] == 10 + 10
    await desk.close()


@pytest.mark.parametrize(
    ("setting", "outcome"), [("not_yet_share", Parked), ("imitation_weight", Admitted)]
)
async def test_what_is_too_hard_is_parked_without_a_share_and_not_for_want_of_imitation(
    tmp_path: Path, quickstart: RunConfig, setting: str, outcome: type[object]
) -> None:
    desk = Desk(tmp_path, quickstart, fails, None, **{setting: 0.0})
    await desk.say(*sound(4, 3))
    assert kinds(await desk.verdicts(3)) == {outcome: 3}
    await desk.close()


@pytest.mark.parametrize(("policy", "outcome"), [(fails, Parked), (learns, Admitted)])
async def test_a_candidate_that_was_not_read_is_admitted_only_if_the_policy_solves_it(
    tmp_path: Path, quickstart: RunConfig, policy: Policy, outcome: type[object]
) -> None:
    desk = Desk(tmp_path, quickstart, policy)
    await desk.kill()
    reader = MumblingReader()
    desk.start(reader=reader)
    await desk.say(*sound(4, 1))
    (verdict,) = await desk.verdicts(1)
    assert isinstance(verdict.outcome, outcome)
    assert verdict.reading == MUMBLED
    assert len(reader.asked) == 2
    await desk.close()


async def test_the_journal_says_that_a_reader_rests_and_when_it_answers_again(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    desk.start(reader=MumblingReader(failures=3))
    await desk.say(*sound(4, 3))
    await desk.verdicts(1)
    (rests,) = await desk.all(ReaderRests)
    assert (rests.failures, rests.reason) == (3, "no answer")
    assert len(await desk.all(ReaderAnswers)) == 1
    await desk.close()


async def test_a_restarted_validator_says_that_the_reader_answers_again(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    await desk.kill()
    await desk.say(ReaderRests(failures=3, reason="no answer"), *sound(4, 1))
    desk.start(reader=MumblingReader(failures=0))
    assert len(await desk.wait_for(ReaderAnswers, 1)) == 1
    await desk.close()


async def test_an_opinion_stands_in_one_verdict(tmp_path: Path, quickstart: RunConfig) -> None:
    desk = Desk(tmp_path, quickstart, fails, not_yet_share=0.0, retry_after_versions=1)
    await desk.kill()
    desk.start(judge=StubbornJudge())
    await desk.say(*sound(5, 1))
    await desk.verdicts(1)
    await desk.say(version(9))
    first, again = await desk.verdicts(2)
    assert (first.opinion.judge, again.opinion) == ("stubborn", NO_OPINION)
    await desk.close()


async def test_probes_that_all_failed_before_a_candidate_was_parked_do_not_count_again(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, lambda _: (0, 0, 4), retry_after_versions=1)
    await desk.say(*sound(5, 1))
    await desk.verdicts(1)
    assert len(await desk.all(ProbeRequest)) == FAILED_PROBES
    await desk.say(version(9))
    await desk.verdicts(2)
    assert len(await desk.all(ProbeRequest)) == 2 * FAILED_PROBES
    await desk.close()


async def test_a_reader_that_fails_once_does_not_rest(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    desk.start(reader=MumblingReader())
    await desk.say(*sound(4, 1))
    await desk.verdicts(1)
    assert await desk.all(ReaderRests) == []
    await desk.close()


async def test_candidates_join_unprobed_once_probes_have_used_up_their_share(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, probe_share=0.1)
    early, first, second, later = sound(6, 4)
    await desk.say(early)
    (verdict,) = await desk.verdicts(1)
    assert isinstance(verdict.outcome, Admitted), verdict
    (task,) = await desk.all(Task)
    assert verdict.outcome == Admitted(
        task_id=task.task_id, label="unprobed", probe_successes=0, probe_rollouts=0
    )
    await desk.say(*(visit("seed-1", 3, number) for number in range(5)))
    await desk.say(first)  # 4 probes of 44 rollouts
    await desk.verdicts(2)
    await desk.say(second)  # they would be 8 of 48
    await desk.verdicts(3)
    assert [each.candidate_id for each in await desk.all(ProbeRequest)] == [first.candidate_id]
    await desk.kill()
    desk.start(reader=MumblingReader())
    await desk.say(later)  # no reader could tell, so that only the policy can admit it
    *_, verdict = await desk.verdicts(4)
    assert isinstance(verdict.outcome, Admitted)
    assert (verdict.outcome.label, verdict.reading) == ("learnable", MUMBLED)
    await desk.close()


@pytest.mark.parametrize(("policy", "outcome"), [(fails, Parked), (learns, Admitted)])
async def test_without_a_reader_the_form_alone_admits_nothing(
    tmp_path: Path, quickstart: RunConfig, policy: Policy, outcome: type[Parked | Admitted]
) -> None:
    desk = Desk(tmp_path, quickstart, policy, not_yet_share=1.0, probe_share=0.0)
    await desk.kill()
    desk.start(reader=None)
    asked = [("Delete all my files", call) for call in ("pwd()", "ls()", "du()")]
    asked += [(text, "pwd()") for text in ("Lösche alles.", "Efface tout.", "删除所有文件。")]
    asked += [(text, "ls()") for text in ("Bake a cake.", "Do not list anything.", "Merci !", "?")]
    for (text, call), other in zip(asked, sound(6, len(asked)), strict=True):
        turn = ToolTurn(instruction=text, reference=(call,))
        body = msgspec.structs.replace(read_body(other.body), turns=(turn,))
        await desk.say(candidate(body))
    verdicts = await desk.verdicts(len(asked))
    found = [each.outcome for each in verdicts if not isinstance(each.outcome, Refused)]
    assert found
    assert all(isinstance(each, outcome) for each in found)
    assert len(await desk.all(Task)) == (len(found) if outcome is Admitted else 0)
    await desk.close()


async def test_a_reader_is_not_asked_about_a_duplicate(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    await desk.kill()
    reader = MumblingReader()
    desk.start(reader=reader)
    first = sound(4, 1)[0]
    await desk.say(first)
    await desk.verdicts(1)
    again = candidate(read_body(first.body))
    await desk.say(again)
    _, duplicate = await desk.verdicts(2)
    assert isinstance(duplicate.outcome, Refused)
    assert (duplicate.outcome.gate, duplicate.reading) == ("duplicate", NO_READING)
    assert set(reader.asked) == {first.candidate_id}
    await desk.close()


async def test_parked_candidates_are_probed_again_after_enough_versions(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, fails, not_yet_share=0.0, retry_after_versions=5)
    hard = msgspec.structs.replace(sound(5, 1)[0], policy_version=2)
    await desk.say(hard)
    (parked,) = await desk.verdicts(1)
    assert (parked.outcome, parked.policy_version) == (Parked(probe_rollouts=4), 2)
    await desk.say(version(3), version(6))
    await desk.say(
        hard_again := candidate(read_body(hard.body))
    )  # a parked candidate counts as a task
    _, duplicate = await desk.verdicts(2)
    assert isinstance(duplicate.outcome, Refused)
    assert duplicate.candidate_id == hard_again.candidate_id
    assert hard.candidate_id in duplicate.outcome.found
    assert len(await desk.all(ProbeRequest)) == 1
    await desk.kill()
    desk.start()
    await desk.say(version(7))
    again = (await desk.verdicts(3))[2]
    assert (again.outcome, again.policy_version) == (Parked(probe_rollouts=4), 7)
    assert again.simulator_calls == 0
    desk.policy = learns
    await desk.say(version(11), version(12), version(13))
    last = (await desk.verdicts(4))[3]
    assert isinstance(last.outcome, Admitted)
    probes = await desk.all(ProbeRequest)
    assert [probe.policy_version_at_least for probe in probes] == [2, 7, 12]
    assert len({probe.probe_id for probe in probes}) == 3
    assert len({probe.seed for probe in probes}) == 3
    await desk.close()


async def test_no_more_candidates_are_parked_than_may_be(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, fails, not_yet_share=0.0, parked_capacity=2)
    await desk.say(*sound(6, 5))
    verdicts = await desk.verdicts(5)
    assert kinds(verdicts) == {Parked: 2, Refused: 3}
    for refused in (each.outcome for each in verdicts if isinstance(each.outcome, Refused)):
        assert refused.gate == "unsolved"
        assert "none of its 1 probes succeeded" in refused.found
        assert "validator.parked_capacity = 2" in refused.found
    ledger = Ledger(desk.store, Likenesses(0.8), 100)
    await ledger.follow()
    assert (ledger.parked(), ledger.under_probe()) == (2, 0)
    await desk.close()


async def test_candidates_that_come_together_are_not_twins_in_the_pool(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    body = read_body(next(draws(32)).body)
    await desk.say(*(candidate(body) for _ in range(6)))
    verdicts = await desk.verdicts(6)
    assert kinds(verdicts) == {Admitted: 1, Refused: 5}
    assert len(await desk.all(ProbeRequest)) == 1
    await desk.close()


class BreakingSimulator(InProcessSimulator):
    """Fails the first trials, more often than the gates retry."""

    def __init__(self) -> None:
        super().__init__()
        self.trials = 0

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        self.trials += 1
        if self.trials <= TRIES:
            raise SimulatorError("the child died")
        return await super().trial(name, task, turns)


async def test_an_infrastructure_failure_refuses_no_candidate(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart, simulator=BreakingSimulator())
    await desk.say(*sound(6, 1))
    (verdict,) = await desk.verdicts(1)
    assert isinstance(verdict.outcome, Admitted)
    assert desk.validator.status().last_error == "the child died"
    await desk.close()


class RaisingSimulator(InProcessSimulator):
    """Raises an error that nobody expects for the tasks that name one file."""

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        if any("new6_1.txt" in turn.instruction for turn in task.turns):
            raise RecursionError("a deep answer")
        return await super().trial(name, task, turns)


async def test_a_candidate_that_raises_at_each_attempt_is_a_dead_letter_and_harms_no_other(
    tmp_path: Path, quickstart: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.parts.attempts.PAUSE_S", 0.001)
    desk = Desk(tmp_path, quickstart, simulator=RaisingSimulator())
    candidates = sound(6, 3)
    await desk.say(*candidates)
    verdicts = await desk.verdicts(2)
    seen = 0
    while not (letters := await desk.all(DeadLetter)):
        seen = await desk.store.wait(("dead_letter",), seen, WAIT_S)
    await desk.close()
    assert kinds(verdicts) == {Admitted: 2}
    assert [(each.subject, each.attempts, each.reason) for each in letters] == [
        (candidates[1].candidate_id, 3, "RecursionError: a deep answer")
    ]


async def test_a_candidate_that_another_member_took_over_is_dropped(
    tmp_path: Path, quickstart: RunConfig
) -> None:
    desk = Desk(tmp_path, quickstart)
    older = desk.running
    desk.start()  # a newer incarnation has the seat
    await desk.say(*sound(7, 5))
    assert kinds(await desk.verdicts(5)) == {Admitted: 5}
    assert len(await desk.all(ProbeRequest)) == 5
    older.cancel()
    await asyncio.wait([older])
    await desk.close()


class MortalStore:
    """A store whose caller dies at its n-th call, before or just after its execution."""

    def __init__(self, store: LocalStore, calls: int, *, after: bool) -> None:
        self._store = store
        self._left = calls
        self._after = after
        self.died = asyncio.Event()

    async def _die(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.died.set()
            await asyncio.Event().wait()

    async def append(self, request: Append) -> tuple[int, ...]:
        return await self._store.append(request)

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        return await self._store.take(request)

    async def complete(self, request: Complete) -> tuple[int, ...]:
        if not self._after:
            await self._die()
        done = await self._store.complete(request)
        if self._after:
            await self._die()
        return done

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        return await self._store.wait(topics, after, wait_s)

    async def checkpoint(self, path: Path) -> None:
        await self._store.checkpoint(path)

    async def statistics(self) -> JournalStatistics:
        return await self._store.statistics()


@pytest.mark.parametrize("after", [False, True])
async def test_whenever_the_validator_is_killed_every_candidate_ends_in_one_verdict(
    tmp_path: Path, quickstart: RunConfig, after: bool
) -> None:
    patient = msgspec.structs.replace(quickstart, watchdog=WatchdogConfig(attempts=1000))
    desk = Desk(tmp_path, patient, not_yet_share=0.3)
    desk.policy = lambda request: (request.seed % 3, 4, 0)
    await desk.kill()
    everyone = [*sound(8, 20), *(candidate(b) for b in islice(SPOILT["replay_failed"](), 10))]
    unsaid = list(everyone)
    ended: list[CandidateVerdict] = []
    lives = 0
    async with asyncio.timeout(WAIT_S):
        while len(ended) < len(everyone):
            lives += 1
            await desk.say(*unsaid[:3])
            del unsaid[:3]
            mortal = MortalStore(desk.store, 1 + lives % 2, after=after)
            desk.start(mortal)
            seen = await desk.store.wait(("candidate_verdict",), 0, 0)
            death = asyncio.create_task(mortal.died.wait())
            news = asyncio.create_task(desk.store.wait(("candidate_verdict",), seen, 1.0))
            await asyncio.wait([death, news, desk.running], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0.002 * (lives % 4))
            await desk.kill()
            for task in (death, news):
                task.cancel()
            ended = await desk.all(CandidateVerdict)
    assert lives > 8
    assert Counter(each.candidate_id for each in ended) == {e.candidate_id: 1 for e in everyone}
    probes = Counter(probe.candidate_id for probe in await desk.all(ProbeRequest))
    assert set(probes.values()) == {1}
    assert len(probes) == 20
    admitted = {v.outcome.task_id for v in ended if isinstance(v.outcome, Admitted)}
    assert Counter(task.task_id for task in await desk.all(Task)) == dict.fromkeys(admitted, 1)
    assert kinds(ended)[Refused] == 10
    desk.start()
    await desk.close()


async def test_a_wording_that_seeds_use_for_other_tools_is_refused(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, quickstart)
    seed = next(single(51, "cat"))
    other = read_body(next(single(52, "cat")).body)
    file, words = some_file(other), read_body(seed.body).turns[0].instruction
    instruction = re.sub("'.*'", repr(file), words)
    await desk.say(seed)
    turns = [said(instruction, f"sort(file_name={file!r})")]
    await desk.say(candidate(with_turns(other, turns)))
    (verdict,) = await desk.verdicts(1)
    assert isinstance(verdict.outcome, Refused)
    assert verdict.outcome.gate == "contradicted", verdict.outcome.found
    assert "stands for sort here, and for cat in 1 of the run's own tasks" in verdict.outcome.found
    await desk.close()


async def test_made_tasks_that_contradict_each_other_have_to_be_solved(
    tmp_path: Path, quickstart: RunConfig
):
    desk = Desk(tmp_path, quickstart, policy=fails)
    one, other = (read_body(next(single(seed, "cat")).body) for seed in (53, 54))
    for body, tool in ((one, "cat"), (other, "sort")):
        file = some_file(body)
        turns = [said(f"Go through {file!r}.", f"{tool}(file_name={file!r})")]
        await desk.say(candidate(with_turns(body, turns)))
        await desk.verdicts(1)
    _, second = await desk.verdicts(2)
    assert isinstance(second.outcome, Parked)
    assert (second.reading.reader, second.reading.outcome) == ("agreeing", "unread")
    assert "stands for sort here, and for cat in 1 of the made tasks" in second.reading.found
    await desk.close()
