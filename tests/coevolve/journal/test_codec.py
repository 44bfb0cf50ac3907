from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.journal import codec
from coevolve.journal.codec import decode, decode_as, encode
from protocols.control import RunFinished
from protocols.errors import ContractError, JournalError
from protocols.evolution import OnPattern, OnTask, Signal
from protocols.journal import Message, Record, StoredRecord
from protocols.learning import Checkpoint, PolicyVersion
from protocols.rollouts import FailedRollout, RolloutRequest
from protocols.tasks import Synthesized, Task
from tests.fakes import tool_task
from tests.learning import rollout
from tests.protocols import strategies


def stored(record: Record) -> StoredRecord:
    return StoredRecord(sequence=1, topic=record.topic, time_ns=0, body=record.body)


@given(message=strategies.of(Message))
def test_every_message_survives_being_a_record(message: Any) -> None:
    record = encode(message)
    assert record.topic in codec.TOPICS
    assert decode(stored(record)) == message
    assert decode_as(stored(record), type(message)) == message


@given(message=strategies.of(Message), extra=st.text())
def test_a_record_with_fields_from_the_future_is_still_read(message: Any, extra: str) -> None:
    record = encode(message)
    tree = msgspec.msgpack.decode(record.body)
    tree["a_field_from_the_future"] = extra
    future = msgspec.structs.replace(record, body=msgspec.msgpack.encode(tree))
    assert decode(stored(future)) == message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ended": "gave up"}, r"a rollout cannot be recorded: Invalid enum value 'gave up'"),
        ({"wall_s": "long"}, r"Expected `float`, got `str` - at `\$.wall_s`"),
        ({"wall_s": object()}, "a rollout cannot be recorded"),
        ({"outcome_key": 10**30}, "a rollout cannot be recorded"),
    ],
)
def test_a_message_that_cannot_be_decoded_is_not_recorded(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ContractError, match=words):
        encode(msgspec.structs.replace(rollout(0, 0, size=4), **changes))


OUTSIDE = (
    *("/etc", "..", "../other", "versions/../../other", "versions/..", "~root/x/../..", "./../x"),
    *("//host/x", "versions//..", "versions/v_1/", r"versions\..\x", "v\0", "v_1\n", ".git"),
)


@pytest.mark.parametrize("kind", [PolicyVersion, Checkpoint])
@pytest.mark.parametrize("path", OUTSIDE)
def test_a_record_whose_folder_is_outside_of_the_run_is_refused(
    kind: type[PolicyVersion] | type[Checkpoint], path: str
) -> None:
    record = encode(_with_folder(kind))
    tree = msgspec.msgpack.decode(record.body) | {"path": path}
    hostile = msgspec.structs.replace(record, body=msgspec.msgpack.encode(tree))
    with pytest.raises(JournalError, match="needs the path of a folder inside the run's"):
        decode(stored(hostile))


@pytest.mark.parametrize("path", ["versions/v_12", "checkpoints/step_3", "weights", "a/b-c/d.e.."])
def test_a_record_whose_folder_is_in_the_run_is_read(path: str) -> None:
    for kind in (PolicyVersion, Checkpoint):
        found = msgspec.structs.replace(_with_folder(kind), path=path)
        assert decode(stored(encode(found))) == found


def _with_folder(kind: type[PolicyVersion] | type[Checkpoint]) -> PolicyVersion | Checkpoint:
    if kind is Checkpoint:
        return Checkpoint(step=1, path="checkpoints/step_1", digest="d", size_bytes=1)
    return PolicyVersion(
        version=1, path="versions/v_1", format="full", digest="d", size_bytes=1, kept=True
    )


def test_there_is_one_topic_for_each_kind_of_message() -> None:
    assert len(set(codec.TOPICS)) == len(get_args(Message))


def test_outcomes_of_a_group_are_found_together_and_apart_from_its_requests() -> None:
    request = RolloutRequest(
        group_id="g",
        group=0,
        index=0,
        group_size=2,
        task_id="t",
        seed=0,
        policy_version_at_least=0,
    )
    failed = FailedRollout(
        group_id="g",
        group=0,
        index=0,
        group_size=2,
        task_id="t",
        reason="",
        tries=1,
    )
    assert encode(request).keys == ((codec.REQUESTS_BY_GROUP, "g"),)
    assert encode(failed).keys == ((codec.ROLLOUTS_BY_TASK, "t"), (codec.ROLLOUTS_BY_GROUP, "g"))


def test_a_synthesized_task_is_found_by_the_signal_that_it_descends_from() -> None:
    task: Task = tool_task("do it", task_id="t")
    child = msgspec.structs.replace(task, origin=Synthesized(candidate_id="c", signal_id="s"))
    assert encode(task).keys == ((codec.TASKS_BY_ID, "t"),)
    assert encode(child).keys == ((codec.TASKS_BY_ID, "t"), (codec.TASKS_BY_SIGNAL, "s"))


def test_a_signal_is_found_by_its_task_where_it_is_about_one() -> None:
    signal = Signal(
        signal_id="s",
        kind="rare",
        about=OnTask(task_id="t"),
        score=1.0,
        rule="",
        evidence=(),
        policy_version=0,
    )
    assert (codec.SIGNALS_BY_TASK, "t") in encode(signal).keys
    pattern = OnPattern(kind="tool", pattern="cd")
    elsewhere = msgspec.structs.replace(signal, about=pattern)
    assert encode(elsewhere).keys == (
        (codec.SIGNALS_BY_ID, "s"),
        (codec.SIGNALS_BY_KIND, "rare"),
    )


def test_another_topic_than_the_wanted_one_is_refused() -> None:
    with pytest.raises(JournalError, match="needs topic 'policy_version' and has 'run_finished'"):
        decode_as(stored(encode(RunFinished(steps=1))), PolicyVersion)


def test_a_topic_that_nobody_knows_is_refused() -> None:
    with pytest.raises(JournalError, match=r"record 1 has topic 'gossip'.*does not know"):
        decode(stored(Record(topic="gossip", body=b"")))


def test_a_body_that_is_no_message_is_refused() -> None:
    with pytest.raises(JournalError, match=r"record 1 of topic 'run_finished' cannot be read"):
        decode(stored(Record(topic="run_finished", body=b"\xff")))
