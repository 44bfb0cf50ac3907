"""Whatever clients do to their histories, each sampled token is trained once, and nothing else."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevolve.gateway.session import GatewaySession
from tests.gateways import SplittingGenerator, ask, opened, trained, user

History = list[dict[str, Any]]
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "get", "arguments": {"a": 1, "b": [true]}}\n</tool_call>'
WORDS = ("Yes.", "No.", "<think>so</think>Maybe.", "", "Two words", f"I look. {CALL}", CALL)


def exact(history: History) -> History:
    return history


def spaced(history: History) -> History:
    return [each | {"content": f" {each['content'] or ''}\n"} for each in history[:-1]] + [
        history[-1]
    ]


def in_parts(history: History) -> History:
    return [
        each | {"content": [{"type": "text", "text": each["content"] or ""}]} for each in history
    ]


def written_anew(history: History) -> History:
    """Write the arguments of calls with other spaces, as pydantic-ai and langchain do."""
    return [_with_arguments(each, lambda text: text.replace(":", " :  ")) for each in history]


def corrected(history: History) -> History:
    return [_with_arguments(each, lambda _: '{"a": 2}') for each in history]


def called_in_text(history: History) -> History:
    """Write calls as text that holds their ids, as smolagents does."""
    found: History = []
    for each in history:
        calls = each.get("tool_calls")
        text = {"role": each["role"], "content": f"Calling tools:\n{calls!r}"}
        found.append(text if calls else each)
    return found


def without_last_answer(history: History) -> History:
    """Leave the policy's last message out, as mini-swe-agent does with a format error."""
    places = [at for at, each in enumerate(history) if each["role"] == "assistant"]
    return [each for at, each in enumerate(history) if at != (places or [-1])[-1]]


def edited(history: History) -> History:
    return [
        each | {"content": "Edited."} if each["role"] == "assistant" else each for each in history
    ]


def merged(history: History) -> History:
    """Merge two messages of the user into one, as smolagents does with a failed step."""
    users = [str(each["content"]) for each in history if each["role"] == "user"]
    return [user("\n".join(users[:2])), *history[1:]]


def summarized(history: History) -> History:
    return [user(f"A summary of {len(history)} messages."), history[-1]]


def of_another(history: History) -> History:
    return [user("Example."), {"role": "assistant", "content": "Nobody's."}, *history]


CHANGES: tuple[Callable[[History], History], ...] = (
    *(exact, exact, exact, exact, spaced, in_parts, written_anew, called_in_text),
    *(corrected, without_last_answer, edited, merged, summarized, of_another),
)


def _with_arguments(message: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    if not message.get("tool_calls"):
        return message
    calls = [
        call | {"function": call["function"] | {"arguments": change(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return message | {"tool_calls": calls}


class Client:
    """Talks with the policy in several conversations, and changes what it sends back."""

    def __init__(self, session: GatewaySession, draw: Callable[[Any], Any]) -> None:
        self.session = session
        self.draw = draw
        self.histories: list[History] = [[]]

    def request(self) -> tuple[History, dict[str, Any]]:
        history = self.histories[self.draw(st.integers(0, len(self.histories) - 1))]
        history = history[: self.draw(st.integers(0, len(history)))]
        while history and history[-1]["role"] == "assistant" and self.draw(st.booleans()):
            history = history[:-1]
        history = self.draw(st.sampled_from(CHANGES))(
            [*history, user(self.draw(st.sampled_from("ab")))]
        )
        if history[-1]["role"] == "assistant":
            history = [*history, user("c")]
        return history, {"tools": TOOLS} if self.draw(st.integers(0, 3)) else {}

    async def ask(self, *, hangs_up: bool, again: str) -> None:
        history, fields = self.request()
        asking = asyncio.ensure_future(ask(self.session, history, **fields))
        if hangs_up:
            await asyncio.sleep(0)
            asking.cancel()
            asking = asyncio.ensure_future(ask(self.session, history, **fields))
        said = await asking
        if again:
            repeated = await ask(self.session, history, is_retry=again == "retry", **fields)
            assert again != "retry" or repeated == said
        self.histories.append([*history, said])


def check(session: GatewaySession, engine: SplittingGenerator) -> None:
    conversations = [tuple(each.token_ids) for each in session.conversations()]
    assert sorted(trained(session)) == sorted(engine.sampled)
    for request, sampled in zip(engine.requests, engine.sampled, strict=True):
        whole = (*request.prompt_ids, *sampled)
        assert any(each[: len(whole)] == whole for each in conversations)
    masks = [each.tokens().mask for each in session.conversations()]
    assert all(1 in mask for mask in masks)
    assert len(conversations) == 1 + sum(session.traffic().branches.values())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_each_sampled_token_is_trained_once_whatever_clients_send_back(data: st.DataObject) -> None:
    script = [data.draw(st.sampled_from(WORDS)) for _ in range(40)]
    session, engine = opened(
        *script, seed=data.draw(st.integers(0, 9)), max_tokens=1 << 16, max_conversations=99
    )
    client = Client(session, data.draw)

    async def talk() -> None:
        for _ in range(data.draw(st.integers(1, 5))):
            await asyncio.gather(
                *(
                    client.ask(
                        hangs_up=data.draw(st.booleans()),
                        again=data.draw(st.sampled_from(("", "", "retry", "another"))),
                    )
                    for _ in range(data.draw(st.integers(1, 2)))
                )
            )

    asyncio.run(talk())
    check(session, engine)
