#!/usr/bin/env bash
# langchain 1.5.2 with langgraph 1.2.24: what a tool raises ends the agent; wrong arguments do not.
#
# A guess that fails: the model reads the error of its call and tries again, as it does when the arguments
# do not fit the tool's schema, and as with langgraph-prebuilt 0.6.5, whose `ToolNode` answers all errors.
# An exception in the tool itself, such as a KeyError for a city that it does not know, comes out of
# `agent.invoke`, so an attempt is lost that the model could have mended. `wrap_tool_call`, or a `ToolNode`
# with `handle_tool_errors=True`, answers it. Seen:
#
#     wrong arguments: the model reads "Error invoking tool 'degrees' w"
#     a tool that raises: KeyError: 'Nowhere'
#     the same with wrap_tool_call: the model reads "KeyError('Nowhere')"
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "langchain==1.5.2" "langgraph==1.2.24"
cd "$place"
cat > check.py <<'PYTHON'
from importlib.metadata import version

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool


class Script(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


@tool
def degrees(city: str) -> int:
    """Return the degrees in a city."""
    return {"Paris": 20}[city]


@wrap_tool_call
def told(request, handler):
    try:
        return handler(request)
    except Exception as error:
        return ToolMessage(content=repr(error), tool_call_id=request.tool_call["id"])


def outcome(arguments, *middleware):
    call = {"name": "degrees", "args": arguments, "id": "1", "type": "tool_call"}
    said = iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="Done.")])
    agent = create_agent(Script(messages=said), [degrees], middleware=middleware)
    try:
        messages = agent.invoke({"messages": [("user", "How warm?")]})["messages"]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f'the model reads "{messages[2].content[:31]}"'


print("langchain", version("langchain"), "langgraph", version("langgraph"))
seen = {
    "wrong arguments": outcome({"town": "Paris"}),
    "a tool that raises": outcome({"city": "Nowhere"}),
    "the same with wrap_tool_call": outcome({"city": "Nowhere"}, told),
}
for name, each in seen.items():
    print(f"{name}: {each}")
expected = ["the model reads", "KeyError: 'Nowhere'", "the model reads \"KeyError('Nowhere')"]
if not all(each.startswith(wanted) for each, wanted in zip(seen.values(), expected)):
    raise SystemExit(f"this has changed: expected {expected}")
PYTHON
venv/bin/python check.py
