import asyncio
import dataclasses
import shutil
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.tools.agent import ToolAgent
from coevolve.journal.codec import decode, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.parts.attempts import KILLED
from coevolve.parts.pace import PACES
from coevolve.rollouts.agent import seed_of
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.worker import RolloutWorker
from protocols.control import DeadLetter, LetterAnswered, LetterRetried
from protocols.errors import DeliveryError, SimulatorError
from protocols.evolution import ProbeReport, ProbeRequest
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.journal import Append, Complete, Message, Receipt
from protocols.learning import PolicyVersion, WeightsVerified, WeightSyncAlarm
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from tests.contexts import context_of
from tests.delivering import Published, TamperedGenerator
from tests.fakes import ScriptGenerator, ScriptRenderer, ScriptSimulator, tool_task

WAIT_S = 30.0
TASK = tool_task("a")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published.by_a_learner(tmp_path_factory.mktemp("run"))


class Loop:
    """A rollout part with a real engine and a real journal, and a publisher of versions."""

    def __init__(self, run: Published, folder: Path, opened: type[LocalStore] = LocalStore) -> None:
        self.run = run
        self.store = opened(Journal.open(folder, map_size_bytes=1 << 28))
        self._counter = 0

    async def append(self, *messages: Message) -> None:
        self._counter += 1
        receipt = Receipt(producer="test", counter=self._counter)
        await self.store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

    def worker(self, generator: Generator) -> RolloutWorker:
        limits = self.run.config.rollout
        return RolloutWorker(
            context_of(self.run.config, self.store, "rollout"),
            "rollout-0",
            engine=self.run.engine(generator, self.store),
            agents={
                "policy": ToolAgent(
                    generator=generator,
                    simulator=ScriptSimulator([]),
                    renderer=ScriptRenderer(),
                    limits=limits,
                    temperature=limits.temperature,
                )
            },
            served=ServedVersion(),
        )

    async def proofs(self, count: int) -> list[int]:
        """Return the proven versions, once there are ``count``."""
        found = await self.written(WeightsVerified, count)
        return [each.version for each in found if isinstance(each, WeightsVerified)]

    async def written(self, kind: type[msgspec.Struct], count: int) -> list[Message]:
        """Return every message of a kind, once there are ``count``."""
        async with asyncio.timeout(WAIT_S):
            seen = 0
            while True:
                records = await self.store.scan(topic_of(kind))
                if len(records) >= count:
                    return [decode(record) for record in records]
                seen = await self.store.wait((topic_of(kind),), seen, WAIT_S)


async def test_an_engine_that_was_killed_and_came_back_is_proven_again(
    published: Published, tmp_path: Path
) -> None:
    loop = Loop(published, tmp_path)
    versions = published.versions()
    await loop.append(*versions[:2])
    generators = [published.generator(), published.generator()]
    killed = asyncio.create_task(loop.worker(generators[0]).run())
    assert await loop.proofs(1) == [1]
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    again = loop.worker(generators[1])
    running = asyncio.create_task(again.run())
    assert await loop.proofs(2) == [1, 1]
    await loop.append(versions[2])
    assert await loop.proofs(3) == [1, 1, 2]
    await again.stop()
    await running
    for generator in generators:
        await generator.close()
    assert not await loop.store.scan(topic_of(WeightSyncAlarm))


async def test_missed_versions_are_skipped_even_if_their_weights_are_gone(
    published: Published, tmp_path: Path
) -> None:
    run = published.copy(tmp_path / "run")
    loop = Loop(run, tmp_path / "store")
    versions = run.versions()
    await loop.append(*versions[:2])
    generator = run.generator()

    class Slow(TamperedGenerator):
        async def before(self, version: PolicyVersion) -> None:
            if version.version == 1:  # so slow that the learner has removed it meanwhile
                shutil.rmtree(run.weights(1).parent)
                await loop.append(versions[2], versions[3])

    worker = loop.worker(Slow(generator))
    running = asyncio.create_task(worker.run())
    assert await loop.proofs(1) == [3]
    assert worker.status().policy_version == 3
    await worker.stop()
    await running
    await generator.close()
    assert not await loop.store.scan(topic_of(WeightSyncAlarm))


async def test_a_part_whose_engine_serves_other_weights_records_the_alarm_and_ends(
    published: Published, tmp_path: Path
) -> None:
    loop = Loop(published, tmp_path)
    wrong = msgspec.structs.replace(
        published.versions()[2], probe=published.versions()[3].probe, version=4
    )
    await loop.append(wrong)
    generator = published.generator()
    with pytest.raises(BaseExceptionGroup) as failure:
        await asyncio.wait_for(loop.worker(generator).run(), WAIT_S)
    assert failure.group_contains(DeliveryError, match="rollout-0 must serve version 4")
    assert len(await loop.store.scan(topic_of(WeightSyncAlarm))) == 1
    assert not await loop.store.scan(topic_of(WeightsVerified))
    await generator.close()


class Reluctant(LocalStore):
    """A store that finishes nothing until it is allowed to."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.may = asyncio.Event()

    async def complete(self, request: Complete) -> tuple[int, ...]:
        await self.may.wait()
        return await super().complete(request)


class Awaited(ScriptGenerator):
    """Ends every turn at once; the script's last request sets ``asked``."""

    def __init__(self, requests: int) -> None:
        super().__init__([None] * requests)
        self.asked = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generation:
        said = await super().generate(request)
        if not self._script:
            self.asked.set()
        return said


def request(index: int, of: int) -> RolloutRequest:
    return RolloutRequest(
        group_id="g0",
        group=0,
        index=index,
        group_size=of,
        task_id=TASK.task_id,
        seed=index,
        policy_version_at_least=0,
    )


class Hanging(Awaited):
    """Ends one turn at once; the second request sets ``asked`` and gets no answer."""

    def __init__(self) -> None:
        super().__init__(1)
        self.hangs = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generation:
        if not self._script:
            self.hangs.set()
            await asyncio.Event().wait()
        return await super().generate(request)


async def test_a_stopped_part_has_written_what_it_completed(
    published: Published, tmp_path: Path
) -> None:
    config = msgspec.structs.replace(
        published.config, rollout=msgspec.structs.replace(published.config.rollout, concurrent=1)
    )
    loop = Loop(dataclasses.replace(published, config=config), tmp_path)
    await loop.append(published.versions()[0], TASK, request(0, 2), request(1, 2))
    generator = Hanging()
    worker = loop.worker(generator)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(WAIT_S):
        await generator.hangs.wait()
        await worker.stop()
        await running
    (made,) = await loop.written(Rollout, 1)
    assert isinstance(made, Rollout)
    assert made.index == 0


async def test_conversations_go_on_while_the_rollouts_of_others_are_written(
    published: Published, tmp_path: Path
) -> None:
    config = msgspec.structs.replace(
        published.config, rollout=msgspec.structs.replace(published.config.rollout, concurrent=1)
    )
    loop = Loop(dataclasses.replace(published, config=config), tmp_path, Reluctant)
    assert isinstance(loop.store, Reluctant)
    requests = [request(index, 3) for index in range(3)]
    await loop.append(published.versions()[0], TASK, *requests)
    generator = Awaited(len(requests))
    worker = loop.worker(generator)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(WAIT_S):
        await generator.asked.wait()
    assert not await loop.store.scan(topic_of(Rollout))
    loop.store.may.set()
    made = await loop.written(Rollout, len(requests))
    assert sorted(each.index for each in made if isinstance(each, Rollout)) == [0, 1, 2]
    await worker.stop()
    await running


async def test_a_group_is_written_when_its_last_rollout_ends(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = dataclasses.replace(PACES["rollout"], write_gather_s=10 * WAIT_S)
    monkeypatch.setitem(PACES, "rollout", late)
    loop = Loop(published, tmp_path)
    requests = [request(index, 3) for index in range(3)]
    await loop.append(published.versions()[0], TASK, *requests)
    worker = loop.worker(ScriptGenerator([None] * len(requests)))
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(WAIT_S):
        made = await loop.written(Rollout, len(requests))
    assert sorted(each.index for each in made if isinstance(each, Rollout)) == [0, 1, 2]
    await worker.stop()
    await running


class Poison(ScriptGenerator):
    """Ends every turn at once, but fails at one request: with an error, or it never answers."""

    def __init__(self, *, kills: bool) -> None:
        super().__init__([None] * 100)
        self._kills = kills
        self.swallowed = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generation:
        if "/1/" in request.conversation_id:
            self.swallowed.set()
            if self._kills:
                await asyncio.Event().wait()
            raise ValueError("exceeds the limit (4300 digits) for integer string conversion")
        return await super().generate(request)


async def test_a_request_that_raises_at_each_attempt_is_a_dead_letter_and_a_failed_rollout(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.parts.attempts.PAUSE_S", 0.001)
    loop = Loop(published, tmp_path)
    await loop.append(published.versions()[0], TASK, *(request(index, 3) for index in range(3)))
    worker = loop.worker(Poison(kills=False))
    running = asyncio.create_task(worker.run())
    made = await loop.written(Rollout, 2)
    (failed,) = await loop.written(FailedRollout, 1)
    (letter,) = await loop.written(DeadLetter, 1)
    await worker.stop()
    await running
    assert sorted(each.index for each in made if isinstance(each, Rollout)) == [0, 2]
    assert isinstance(failed, FailedRollout)
    assert isinstance(letter, DeadLetter)
    assert (failed.index, failed.tries) == (1, 3)
    assert failed.reason == letter.reason
    assert letter.reason.startswith("ValueError: exceeds the limit")
    assert (letter.consumer, letter.attempts, letter.subject) == ("rollout", 3, "0")
    assert letter.unit == "rollout request: group_id g0, index 1, task_id task"


async def test_a_request_that_kills_its_process_is_a_dead_letter_and_harms_no_other(
    published: Published, tmp_path: Path
) -> None:
    loop = Loop(published, tmp_path)
    await loop.append(published.versions()[0], TASK, *(request(index, 3) for index in range(3)))
    for _ in range(4):  # the last attempt is made twice
        poison = Poison(kills=True)
        killed = asyncio.create_task(loop.worker(poison).run())
        async with asyncio.timeout(WAIT_S):
            await poison.swallowed.wait()
        killed.cancel()
        await asyncio.gather(killed, return_exceptions=True)
    worker = loop.worker(Poison(kills=True))
    running = asyncio.create_task(worker.run())
    (letter,) = await loop.written(DeadLetter, 1)
    made = await loop.written(Rollout, 2)
    await worker.stop()
    await running
    assert sorted(each.index for each in made if isinstance(each, Rollout)) == [0, 2]
    assert isinstance(letter, DeadLetter)
    assert (letter.attempts, letter.reason) == (4, KILLED)


async def test_stops_do_not_count_as_attempts(published: Published, tmp_path: Path) -> None:
    loop = Loop(published, tmp_path)
    await loop.append(published.versions()[0], TASK, request(0, 2), request(1, 2))
    for _ in range(4):
        poison = Poison(kills=True)
        stopped = loop.worker(poison)
        running = asyncio.create_task(stopped.run())
        async with asyncio.timeout(WAIT_S):
            await poison.swallowed.wait()
        await stopped.stop()
        await running
    assert not await loop.store.scan(topic_of(DeadLetter))


class Unlucky(ScriptGenerator):
    """Ends every turn at once, after machine faults at the first tries; keeps the seeds."""

    def __init__(self, faults: int, *, kills: bool = False) -> None:
        super().__init__([None] * 100)
        self._faults = faults
        self._kills = kills
        self.seeds: list[int] = []
        self.hangs = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generation:
        self.seeds.append(request.seed)
        if len(self.seeds) <= self._faults:
            if self._kills:
                self.hangs.set()
                await asyncio.Event().wait()
            raise SimulatorError("the child ended")
        return await super().generate(request)


@pytest.mark.parametrize("faults", [0, 1, 2])
async def test_what_a_machine_fault_ends_is_sampled_again_with_another_seed(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: int
) -> None:
    monkeypatch.setattr("coevolve.rollouts.worker.RETRY_PAUSE_S", 0.001)
    seeds: list[list[int]] = []
    for again in ("once", "twice"):
        loop = Loop(published, tmp_path / again)
        await loop.append(published.versions()[0], TASK, request(0, 1))
        generator = Unlucky(faults)
        worker = loop.worker(generator)
        running = asyncio.create_task(worker.run())
        (made,) = await loop.written(Rollout, 1)
        await worker.stop()
        await running
        assert isinstance(made, Rollout)
        assert made.tries == faults + 1
        assert made.seed == seed_of(0, faults)
        seeds.append(generator.seeds)
    assert len(set(seeds[0])) == faults + 1
    assert seeds[0] == seeds[1]  # they depend on the request and the number of the try only


class Lossy(ScriptGenerator):
    """Ends every turn at once; the machine fails at every try of the second probe."""

    def __init__(self) -> None:
        super().__init__([None] * 100)

    async def generate(self, request: GenerationRequest) -> Generation:
        if request.conversation_id.startswith("p/1/"):
            raise SimulatorError("the child ended")
        return await super().generate(request)


def probe(*, version: int = 0) -> ProbeRequest:
    return ProbeRequest(
        probe_id="p",
        candidate_id="c",
        body=TASK.body,
        rollouts=3,
        seed=0,
        policy_version_at_least=version,
    )


async def test_a_probe_that_the_machine_ended_is_no_attempt_of_the_policy(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.rollouts.worker.RETRY_PAUSE_S", 0.001)
    loop = Loop(published, tmp_path)
    await loop.append(published.versions()[0], probe())
    generator = Lossy()
    worker = loop.worker(generator)
    running = asyncio.create_task(worker.run())
    (report,) = await loop.written(ProbeReport, 1)
    await worker.stop()
    await running
    assert isinstance(report, ProbeReport)
    assert (report.successes, report.rollouts, report.errors) == (0, 2, 1)
    assert (report.sampled_tokens, report.calls) == (2, 0)
    assert len({each.seed for each in generator.requests}) == 2, "each probe samples anew"


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (msgspec.structs.replace(request(0, 1), policy_version_at_least=2), Rollout),
        (probe(version=2), ProbeReport),
    ],
)
async def test_an_attempt_waits_for_the_version_that_it_needs(
    published: Published, tmp_path: Path, asked: Message, kind: type[Rollout | ProbeReport]
) -> None:
    loop = Loop(published, tmp_path)
    versions = published.versions()
    await loop.append(versions[1], TASK, asked)
    generator = ScriptGenerator([None] * 3)
    worker = loop.worker(generator)
    running = asyncio.create_task(worker.run())
    assert await loop.proofs(1) == [1]
    await asyncio.sleep(0.1)
    assert not generator.requests
    await loop.append(versions[2])
    (made,) = await loop.written(kind, 1)
    await worker.stop()
    await running
    assert isinstance(made, Rollout | ProbeReport)
    assert (made.version_max if isinstance(made, Rollout) else made.policy_version) == 2


async def test_a_rollout_is_not_written_again_when_its_dead_letter_is_retried(
    published: Published, tmp_path: Path
) -> None:
    loop = Loop(published, tmp_path)
    await loop.append(published.versions()[0], TASK, request(0, 1))
    (record,) = await loop.store.scan("rollout_request")
    await loop.append(LetterRetried(letter=77, consumer="rollout", sequence=record.sequence))
    worker = loop.worker(ScriptGenerator([None] * 2))
    running = asyncio.create_task(worker.run())
    (answer,) = await loop.written(LetterAnswered, 1)
    made = await loop.written(Rollout, 1)
    await worker.stop()
    await running
    assert isinstance(answer, LetterAnswered)
    assert (answer.letter, answer.done, answer.outcome) == (77, True, "rollout")
    assert len(made) == 1


async def test_an_attempt_after_the_death_of_its_process_has_another_seed(
    published: Published, tmp_path: Path
) -> None:
    loop = Loop(published, tmp_path)
    await loop.append(published.versions()[0], TASK, request(0, 1))
    deadly, fine = Unlucky(1, kills=True), Unlucky(0)
    killed = asyncio.create_task(loop.worker(deadly).run())
    async with asyncio.timeout(WAIT_S):
        await deadly.hangs.wait()
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    worker = loop.worker(fine)
    running = asyncio.create_task(worker.run())
    (made,) = await loop.written(Rollout, 1)
    await worker.stop()
    await running
    assert isinstance(made, Rollout)
    assert made.tries > 1
    assert fine.seeds[0] != deadly.seeds[0]
