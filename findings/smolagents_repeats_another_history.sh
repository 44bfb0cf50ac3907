#!/usr/bin/env bash
# smolagents 1.26.0: an agent's requests do not repeat what the model said in them before.
#
# A guess that fails: who serves or records an agent's conversation can find the model's messages in the
# next request, and keep their tokens or their cache. A `CodeAgent` writes the call of its interpreter into
# the model's message, so each one comes back with more than was said. A `ToolCallingAgent` writes calls as
# text, and leaves out the message whose tool raised: the error stands in the task's own message then, and
# the model does not see what it called. Seen, as what follows the system message:
#
#     code: user, assistant '<code>a = city("Paris")</code>\nCalling tools:\n[...]', user
#     called: user, assistant 'Calling tools:\n[...]', user
#     raised: user 'New task:\nHow warm?\nError:\n...'
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "smolagents==1.26.0"
cd "$place"
cat > check.py <<'PYTHON'
from importlib.metadata import version

from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction

CODE = '<code>a = city("Paris")</code>'


@tool
def city(place: str) -> int:
    """Return the degrees in a city.

    Args:
        place: the city.
    """
    return {"Paris": 20}[place]


def called(name: str, **arguments: object) -> ChatMessage:
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    call = ChatMessageToolCall(function=function, id=f"id-{name}", type="function")
    return ChatMessage(role="assistant", content=None, tool_calls=[call])


class Script(Model):
    """Says what it is given, and keeps the last request."""

    def __init__(self, *said: ChatMessage) -> None:
        super().__init__(model_id="script")
        self.said, self.heard = list(said), []

    def generate(self, messages, **_):
        heard = self._prepare_completion_kwargs(messages=messages)["messages"]
        self.heard = [(each["role"].value, each["content"][0]["text"]) for each in heard[1:]]
        return self.said.pop(0)


def heard(kind: type, *said: ChatMessage) -> list[tuple[str, str]]:
    model = Script(*said)
    kind(tools=[city], model=model, verbosity_level=-1).run("How warm?")
    return model.heard


print("smolagents", version("smolagents"))
END = called("final_answer", answer=20)
seen = {
    "code": heard(
        CodeAgent, *(ChatMessage("assistant", each) for each in (CODE, "<code>final_answer(a)</code>"))
    ),
    "called": heard(ToolCallingAgent, called("city", place="Paris"), END),
    "raised": heard(ToolCallingAgent, called("city", place="Rome"), END),
}
for name, messages in seen.items():
    print(name, *messages, sep="\n  ")
[_, (_, code), _], [_, (_, call), _], [(_, error)] = seen.values()
begun = code.startswith(f"{CODE}\nCalling tools:\n["), call.startswith("Calling tools:\n[")
if not (all(begun) and error.startswith("New task:\nHow warm?\nError:\n")):
    raise SystemExit("it has changed")
PYTHON
venv/bin/python check.py
