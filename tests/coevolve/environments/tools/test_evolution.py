"""Tests of the validator as a run builds it, with an endpoint that reads instructions."""

import asyncio
import json
from pathlib import Path

import msgspec

from coevolve.environments.open_parts import OpenPart
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.loop import PARTS
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from protocols.evolution import (
    CandidateVerdict,
    ModelCall,
    ProbeRequest,
    Refused,
    SynthesizerSwapped,
)
from protocols.journal import Append, Receipt
from protocols.synthesizers import EndpointModel, ReaderModel, SynthesizerReader
from tests.chat_server import serving
from tests.evolving import signal
from tests.one_process import everything
from tests.planted import candidate

CONTENTS = {
    "a.txt": {"type": "file", "content": "one\ntwo\nthree"},
    "b.txt": {"type": "file", "content": "four\nfive"},
}
WORLD = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": CONTENTS}}}}


def shows_a_file(instruction: str) -> ToolTask:
    return ToolTask(
        classes=("GorillaFileSystem",),
        world=json.dumps(WORLD),
        turns=(ToolTurn(instruction=instruction, reference=("cat(file_name='a.txt')",)),),
    )


async def validated(config: RunConfig, folder: Path, *swaps: SynthesizerSwapped) -> LocalStore:
    """Let a validator judge a task that means what it says, and one that does not."""
    store = LocalStore(Journal.open(folder / "store"))
    right = candidate(shows_a_file("Show me 'a.txt'."), "right")
    wrong = candidate(shows_a_file("Count the lines of 'a.txt'."), "wrong")
    signals = [signal(each.signal_id) for each in (right, wrong)]
    await store.append(
        Append(
            records=tuple(map(encode, (*swaps, *signals, right, wrong))),
            receipt=Receipt(producer="test", counter=1),
        )
    )
    context = PartContext(config=config, files=LocalFiles(folder), store=store, reader=store)
    workers = [environment_of(config).simulator()]
    validator = OpenPart(PARTS["validator"], context, workers).part
    running = asyncio.create_task(validator.run())
    for topic in ("probe_request", "candidate_verdict"):
        assert await store.wait((topic,), 0, 60)
    await validator.stop()
    await running
    for worker in workers:
        await worker.close()
    return store


async def test_a_swap_of_the_synthesizer_swaps_its_reader(
    quickstart: RunConfig, tmp_path: Path
) -> None:
    with serving() as server:
        endpoint = EndpointModel(base_url=server.base_url, model="scripted")
        swap = SynthesizerSwapped(request_id="s", model=endpoint, synthesizer="scripted")
        probing = msgspec.structs.replace(quickstart.validator, probe_share=1.0)
        config = msgspec.structs.replace(quickstart, validator=probing)
        store = await validated(config, tmp_path, swap)
    (probe,) = await everything(store, ProbeRequest)
    assert probe.candidate_id.startswith("right")
    assert probe.reading.outcome == "confirmed"
    calls: list[ModelCall] = await everything(store, ModelCall)
    assert {call.model for call in calls} == {"scripted"}


async def test_a_reader_confirms_what_is_meant_and_keeps_out_the_rest(
    quickstart: RunConfig, tmp_path: Path
) -> None:
    with serving() as server:
        endpoint = EndpointModel(base_url=server.base_url, model="scripted")
        readers: tuple[ReaderModel, ...] = (SynthesizerReader(), endpoint)
        for number, reader in enumerate(readers):
            config = msgspec.structs.replace(
                quickstart,
                synthesizer=msgspec.structs.replace(quickstart.synthesizer, model=endpoint),
                validator=msgspec.structs.replace(
                    quickstart.validator, reader=reader, probe_share=1.0
                ),
            )
            store = await validated(config, tmp_path / str(number))
            probes: list[ProbeRequest] = await everything(store, ProbeRequest)
            verdicts: list[CandidateVerdict] = await everything(store, CandidateVerdict)
            calls: list[ModelCall] = await everything(store, ModelCall)
            assert [each.candidate_id.partition("-")[0] for each in probes] == ["right"]
            assert probes[0].reading.outcome == "confirmed"
            assert [each.candidate_id.partition("-")[0] for each in verdicts] == ["wrong"]
            outcome = verdicts[0].outcome
            assert isinstance(outcome, Refused)
            assert outcome.gate == "means_otherwise", outcome.found
            assert [(call.purpose, call.model) for call in calls] == [("read", "scripted")] * 4
