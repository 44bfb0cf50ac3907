import base64
import pickle
import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import protocols
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated
from coevolve.environments.tools.commands import Command, Reply
from coevolve.environments.tools.task import ToolTurn
from protocols import columns
from protocols.config import RunConfig
from protocols.journal import Message
from protocols.rollouts import Rollout, RolloutRequest, Tokens
from tests.protocols import strategies

UNIONS = {
    "message": Message,
    "command": Command,
    "reply": Reply,
    "evaluation": Evaluate | Evaluated,
}
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow])
"""Messages are large, and the machine may be busy."""


@pytest.mark.parametrize("union", UNIONS.values(), ids=UNIONS)
@PATIENT
@given(data=st.data())
def test_every_message_survives_the_journal_and_a_ray_call(union: Any, data: st.DataObject):
    message = data.draw(strategies.of(union))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=union) == message
    assert pickle.loads(pickle.dumps(message)) == message


@PATIENT
@given(message=strategies.of(Message), extra=st.integers(0, 2**63))
def test_a_journal_with_fields_from_the_future_is_still_read(message: Any, extra: int):
    tree = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    tree["a_field_from_the_future"] = extra
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(tree), type=Message) == message


def test_a_run_file_with_an_unknown_field_is_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"name": "a", "steps": 3}, RunConfig)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_int32_columns_give_back_what_they_were_given(values: list[int]):
    assert columns.from_int32(columns.int32(values)) == values
    assert len(columns.int32(values)) == 4 * len(values)


@given(st.lists(st.floats(allow_nan=False, width=32)))
def test_float32_columns_give_back_what_they_were_given(values: list[float]):
    assert columns.from_float32(columns.float32(values)) == values


def test_a_token_outside_int32_is_refused():
    with pytest.raises(OverflowError):
        columns.int32([2**31])


def test_token_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="token columns need equal lengths"):
        Tokens(token_ids=columns.int32([1, 2]), mask=b"\0", logprobs=b"", versions=b"")


def test_a_request_outside_its_group_is_refused():
    with pytest.raises(ValueError, match="index < group_size, got 2 of 2"):
        RolloutRequest(
            group_id="g",
            group=0,
            index=2,
            group_size=2,
            task_id="t",
            seed=0,
            policy_version_at_least=0,
        )


def test_results_that_do_not_line_up_with_the_calls_are_refused():
    with pytest.raises(ValueError, match="one result per reference call"):
        ToolTurn(instruction="go", reference=("ls()",), results=("a", "b"))


OF_ONE_CONVERSATION = base64.b85decode(
    "-T)Y+ba`-Pr*dy>Y;SdRsAqC-b#Py4WTIy=rDt+)b#MWtX>Md?cmk?ta&L8TUvp`CWdx^mVRLI=X=I{wF{E>4Wn==TbZ"
    "={AZgYjHbZ={AZeM9+bHpeL0000D0000G0000J0000M0000P0000S0000V0000Y0000b0001_ZDDh3#0mfa000000RaI"
    "4sBCX%aB^>AbHpeB0000000000000000000000000000000D!;%0D!;%0D!;%0D!=#c4cyNX>V?G#3=v&|NsC0|NsC0|N"
    "sC0|NsC0|NsC0|NjF3000930009300093006FIVPj}zUv_13b7^mGbHo6rVPkY@Z*FsttaNp9ZgXF7VRLh3WCE*nb#iWV"
    "UvzJDVQd1Xa%Fd6a%9Ut@Bjb+00021c4cyNX>V>{ZE0=;t9E5_b7^mGUu|J{1EpndWMyQiW@&C|b7*B`rgvd%Y+rNBKe?"
    "HinVFfIt8{g8ZeMeBVRCeHkpQP}b#!BIZDoO>VF9aeb#!BIZDn6;WqF{cVRdw9Z*rz^Z)|B}d8lb_b97;DV`TuSX>DnAV"
    "Pb4$!>@B`ZFOv6bZ>HBV{mm}bIU*A00000005<Qa%p9A0s"
)
"""The body of a rollout's record, as it was written when a rollout had one conversation."""


def test_a_rollout_of_one_conversation_is_read_as_before_and_takes_no_more_room() -> None:
    found = msgspec.msgpack.decode(OF_ONE_CONVERSATION, type=Message)
    assert isinstance(found, Rollout)
    assert found.conversations == (found.tokens,)
    assert (found.tokens.count, found.tokens.sampled, found.sampled_tokens) == (10, 4, 4)
    assert columns.from_int32(found.tokens.token_ids) == [*range(10, 40, 3)]
    assert (found.group_id, found.index, found.reward, found.version_min) == ("g1", 2, 1.0, 3)
    assert (found.author, found.imitable, found.tries, found.turn_starts) == (
        "policy",
        True,
        2,
        (0,),
    )
    assert msgspec.msgpack.decode(found.outcome) == {"a": 1}
    assert len(msgspec.msgpack.encode(found)) <= len(OF_ONE_CONVERSATION)


@given(strategies.of(Rollout), st.lists(strategies.tokens(), max_size=3))
def test_a_rollout_keeps_its_conversations_in_order(rollout: Rollout, further: list[Tokens]):
    given = msgspec.structs.replace(rollout, further=tuple(further))
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(given), type=Message)
    assert isinstance(found, Rollout)
    assert found.conversations == (rollout.tokens, *further)
    assert found.token_count == rollout.tokens.count + sum(each.count for each in further)


@given(strategies.of(Rollout), st.integers(1, 5))
def test_a_rollout_cannot_pass_more_turns_than_it_has(rollout: Rollout, more: int):
    with pytest.raises(ValueError, match="turns_passed <= turns_total"):
        msgspec.structs.replace(rollout, turns_passed=rollout.turns_total + more)


def test_the_package_docstring_lists_exactly_the_messages_of_the_journal():
    listed = set(re.findall(r"^\| `(\w+)`", protocols.__doc__ or "", re.MULTILINE))
    assert listed == {kind.__name__ for kind in strategies.tags(Message).values()}
