"""A scripted model that makes tasks with the services of the function-calling benchmark.

It knows a few requests of each kind: with a login, with a value to look up first, and with a turn
in which the right thing is to make no call, because a value or a tool is missing. It explores by
carrying out those whose tools exist, and makes tasks of those that worked. As a reader it knows
what its own requests ask for, but not what calls answer: it looks that up, as any reader must.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tests.chat_server import Messages

Kind = Literal["login", "discover", "ask", "refuse"]

REFLECTION = {
    "summary": "The agent made no call at all.",
    "failure_cause": "It does not begin.",
    "focus_pattern": ["logging in", "looking values up", "asking for what is missing"],
}


class Turn(NamedTuple):
    """What the user says, and calls in the form in which a reader is shown them.

    ``{name}`` is what an earlier answer has under that name.
    """

    instruction: str
    calls: tuple[str, ...] = ()
    revealed: tuple[str, ...] = ()


class Request(NamedTuple):
    """A task that the model knows."""

    kind: Kind
    turns: tuple[Turn, ...]

    @property
    def calls(self) -> tuple[str, ...]:
        """All calls, in order."""
        return tuple(call for turn in self.turns for call in turn.calls)

    @property
    def withheld(self) -> tuple[str, ...]:
        """The tools that a later turn reveals."""
        return tuple(tool for turn in self.turns for tool in turn.revealed)


def _missing(tool: str, instruction: str, call: str) -> Request:
    return Request("refuse", (Turn(instruction), Turn("", (call,), (tool,))))


REQUESTS = (
    Request(
        "login",
        (
            Turn(
                "Log me into the ticket system as mthompson, my password is 'Quartz-19'. Then open "
                "a ticket titled 'Printer is jammed' with priority 3.",
                (
                    "ticket_login(password='Quartz-19', username='mthompson')",
                    "create_ticket(priority=3, title='Printer is jammed')",
                ),
            ),
        ),
    ),
    Request(
        "login",
        (
            Turn(
                "I am Nora Field. Authenticate me for travelling, with read_write access: the "
                "client id is 'cl-77', the client secret 'se-12', the refresh token 'rt-5'. Then "
                "limit my budget to 900 dollars.",
                (
                    "authenticate_travel(client_id='cl-77', client_secret='se-12', "
                    "grant_type='read_write', refresh_token='rt-5', user_first_name='Nora', "
                    "user_last_name='Field')",
                    "set_budget_limit(access_token='{access_token}', budget_limit=900)",
                ),
            ),
        ),
    ),
    Request(
        "discover",
        (
            Turn(
                "Send Alice the message 'The report is ready'.",
                (
                    "get_user_id(user='Alice')",
                    "send_message(message='The report is ready', receiver_id='{user_id}')",
                ),
            ),
        ),
    ),
    Request(
        "discover",
        (
            Turn(
                "Put the stock of Omega Industries on my watchlist.",
                (
                    "get_symbol_by_name(name='Omega Industries')",
                    "add_to_watchlist(stock='{symbol}')",
                ),
            ),
        ),
    ),
    Request(
        "ask",
        (
            Turn("Put some money into my trading account."),
            Turn("Let it be 75 dollars.", ("fund_account(amount=75)",)),
        ),
    ),
    Request(
        "ask",
        (
            Turn("I need the fuel tank filled up a little."),
            Turn("By 2.5 gallons, please.", ("fillFuelTank(fuelAmount=2.5)",)),
        ),
    ),
    _missing(
        "set_navigation",
        "Navigate to 'Rivermist', please.",
        "set_navigation(destination='Rivermist')",
    ),
    _missing("mkdir", "Make a folder 'winter' in here.", "mkdir(dir_name='winter')"),
)


def services_brain(messages: Messages) -> str:
    """Answer a prompt of the synthesizer or of the reader."""
    task, asked = messages[0]["content"], messages[1]["content"]
    if '"failure_cause"' in task:
        return json.dumps(REFLECTION)
    if '"action"' in task:
        return _next_step(task, messages)
    if '"tasks"' in task:
        return json.dumps({"tasks": list(_tasks(_steps(asked)))})
    if '"calls_by_turn"' in task:
        return _rebuilt(asked)
    if '"picks"' in task:
        return _picked(asked)
    return '{"ok": true}'


def _next_step(task: str, messages: Messages) -> str:
    """Make the next call of the requests whose tools exist."""
    tools = set(re.findall(r'"name": "(\w+)"', task))
    plan = [each for each in REQUESTS if {call.partition("(")[0] for call in each.calls} <= tools]
    calls = [call for each in plan for call in each.calls]
    made = sum(message["role"] == "assistant" for message in messages)
    found = _found(message["content"] for message in messages if message["role"] == "user")
    while made < len(calls) and _filled(calls[made], found) is None:
        del calls[made]
    if made >= len(calls):
        return json.dumps({"reason": "Nothing is left.", "done": True})
    return json.dumps({"reason": "Next.", "action": _filled(calls[made], found)})


def _steps(text: str) -> list[dict[str, Any]]:
    """Return the calls that a prompt shows with their answers."""
    return [json.loads(line) for line in re.findall(r'^\{"step".*\}$', text, flags=re.MULTILINE)]


def _tasks(steps: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the requests whose calls all worked, with the values that they took."""
    worked = [str(step["call"]) for step in steps if not step["failed"]]
    for request in REQUESTS:
        made = [[_made(call, worked) for call in turn.calls] for turn in request.turns]
        if all(map(all, made)):
            turns = [
                {"instruction": turn.instruction, "calls": calls, "revealed": turn.revealed}
                for turn, calls in zip(request.turns, made, strict=True)
            ]
            yield {"turns": turns, "withheld": request.withheld}


def _made(call: str, worked: Iterable[str]) -> str:
    """Return the call as it was made; empty if it was not."""
    return next((each for each in worked if _fits(each, call)), "")


def _picked(prompt: str) -> str:
    """Pick the options that make the calls of the request; a looked-up value may be any."""
    asked, *options = re.split(r"^Option \d+:$", _instructions(prompt), flags=re.MULTILINE)
    request = _request(_by_turn(asked))
    wanted = ["; ".join(turn.calls) for turn in request.turns] if request else []
    picks = [
        number
        for number, option in enumerate(options, 1)
        if request and all(map(_fits, _by_turn(option), wanted))
    ]
    return json.dumps({"reason": "It does this.", "picks": picks})


def _rebuilt(prompt: str) -> str:
    """Write the calls of the request, up to the first that takes what is not known yet."""
    asked, _, answered = _instructions(prompt).partition("What your calls so far answer:")
    turns = _by_turn(asked)
    request = _request(turns)
    found = _found(step["result"] for step in _steps(answered))
    calls_by_turn: list[list[str]] = []
    finished = True
    for turn in request.turns if request else [Turn("")] * len(turns):
        calls_by_turn.append([])
        for call in turn.calls:
            filled = _filled(call, found)
            finished = finished and filled is not None
            if finished and filled is not None:
                calls_by_turn[-1].append(filled)
    return json.dumps({"reason": "", "calls_by_turn": calls_by_turn, "finished": finished})


def _instructions(prompt: str) -> str:
    return prompt.rpartition("The instructions:")[2]


def _by_turn(text: str) -> list[str]:
    return re.findall(r"^turn \d+: ?(.*)$", text, flags=re.MULTILINE)


def _request(instructions: Sequence[str]) -> Request | None:
    said = tuple(instructions)
    return next((r for r in REQUESTS if tuple(turn.instruction for turn in r.turns) == said), None)


def _found(answers: Iterable[str]) -> dict[str, str]:
    """Return the texts that answers have under a name."""
    return dict(re.findall(r'"(\w+)": "(\w+)"', "\n".join(answers)))


def _filled(call: str, found: Mapping[str, str]) -> str | None:
    """Return the call with what was found; None if something was not."""
    names = re.findall(r"\{(\w+)\}", call)
    if not all(name in found for name in names):
        return None
    return call.format(**found) if names else call


def _fits(call: str, wanted: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", r"\\w+", re.escape(wanted))
    return re.fullmatch(pattern, call) is not None
