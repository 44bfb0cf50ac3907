"""Opens a task's world for one conversation and grades every turn.

A `World` is one new set of the task's tools (`tools.toolsets`). A `Session` holds the policy's
world and the reference's, and compares them after every turn as BFCL's checker does
(`multi_turn_checker` of bfcl-eval 2026.3.23):

- a turn with an empty reference always passes; its calls are executed, and the comparison after
  the next turn includes them;
- a turn with a reference needs at least one call, though any well-formed call will do;
- the state of every tool set must then be equal, and every answer of the turn's reference must be
  among the policy's answers so far, each as often as it occurs.

With BFCL's own simulators the verdict is that of its checker in a process that grades nothing else;
the package's own verdict depends on what it graded before (`bfcl.stock.Shared`).

Deviations:

- the policy's world and the reference's share nothing. In the package they share default arguments
  and the cards and bookings of long contexts, so that a policy could change the end state of the
  reference, and pass;
- the date is always the same (`bfcl.stock.TODAY`); ages of travellers depend on it;
- a withheld tool answers like an unknown one until a turn reveals it, or until the reference
  itself uses it (one item, ``miss_func_49``, uses a tool two turns early). The package's executor
  executes such calls. So the verdict equals the package's on a conversation in which these calls
  name a tool that does not exist. For the package's verdict on the calls as they are, leave
  ``ToolTask.withheld`` empty;
- with ``checks_directory`` a turn must also end in the reference's working directory: the path that
  the file system gives and the place in the tree must both match (`bfcl.directory`);
- with ``strict`` an answer of the turn's reference must be among the answers of the same turn, and
  a turn with an empty reference fails if its calls change the state;
- a session ends if its world, or the reference's, becomes larger or deeper than allowed
  (`tools.weight`): its calls then answer ``out of memory``, and its turns fail. This includes a
  directory that was copied into itself, on which the package dies of a RecursionError at the next
  comparison. A session of more than ``MAX_CONVERSATION_CHARS`` ends in the same way;
- if the package cannot finish a comparison, because a simulator lacks an attribute that the
  reference's has, the turn fails;
- a long call in a large world is refused (``MAX_CALL_WORK``);
- the work of the maths tools is bounded, and more than ``MAX_PRECISION`` digits of a logarithm or
  a square root are refused (`bfcl.arithmetic`);
- an answer longer than ``MAX_ANSWER_CHARS`` is replaced by an error; a MemoryError is raised again,
  because it may be the machine's fault;
- a text that is no call, or a call without literal arguments, is refused (`tools.calls`).

The size of a world, the length of an answer and the work of a call are counted, so these limits do
not depend on the machine. The limits on CPU time and memory in `tools.child` are the second
defence.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from coevolve.base.foreign import described
from coevolve.environments.tools.calls import (
    NotACallError,
    RefusedCallError,
    as_far_as_read,
    parse_call,
)
from coevolve.environments.tools.commands import Failed, Observed, Passed, Verdict
from coevolve.environments.tools.digest import digest, text_digest
from coevolve.environments.tools.endings import OUT_OF_MEMORY, Ending
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.toolset import OpenTools
from coevolve.environments.tools.toolsets import tool_documents, tool_set
from coevolve.environments.tools.weight import MAX_WEIGHT, VALUE_WEIGHT, OverweightError
from protocols.errors import DependencyError, SimulatorError

MAX_ANSWER_CHARS = 1_000_000

MAX_CALL_WORK = 2_000_000_000
"""Maximum product of a call's characters and the weight of its world, because some tools read an
argument again for each object. The longest call of a reference has 6,839 characters, and could be
made in any world of the benchmark."""

MAX_CONVERSATION_CHARS = 2_000_000
"""Maximum characters of all calls of a session and their answers; the longest reference makes
70,957. No policy has so large a context."""

CALL_CHARS = 100
"""Characters that a call counts besides its own and its answer's."""

_ERROR = "Error during execution: "


class World:
    """A new set of simulators in the initial state of a task."""

    answers: list[str]
    """Digests of the answers to all calls so far, without texts that were no calls. The checker
    only asks whether two answers are equal."""

    weight: int
    """The current weight of the world (`tools.weight`)."""

    def __init__(self, body: ToolTask) -> None:
        """Load the initial state.

        Raises:
            SimulatorError: The task names an unknown class, or its world does not load or is too
                large.
            DependencyError: The simulators are not installed.
        """
        self._opened = _opened(body)
        self.answers = []
        try:
            self.weight = self._weighed()
        except OverweightError as error:
            raise SimulatorError(
                f"the task's world is too large: it weighs more than {MAX_WEIGHT:,}, where a value "
                f"weighs {VALUE_WEIGHT} and a character 1, or holds itself"
            ) from error
        self._tools = {
            document.name: tools
            for class_name, tools in self._opened.items()
            for document in tool_documents(class_name)
        }
        self._available = self._tools

    @property
    def instances(self) -> dict[str, Any]:
        """The simulators themselves, or their current state, by class name."""
        return {name: tools.state for name, tools in self._opened.items()}

    def withhold(self, tools: Iterable[str]) -> None:
        """Answer these tools, and no others, as if they did not exist."""
        hidden = set(tools)
        self._available = {name: tool for name, tool in self._tools.items() if name not in hidden}

    def call(self, text: str) -> Observed:
        """Execute one call.

        Raises:
            OverweightError: The call made the world too large.
            MemoryError: A simulator raised it.
        """
        # mpmath removes this limit, and does not restore it after a text that is no number.
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
        try:
            observed = self._execute(text)
        except NotACallError as error:
            return Observed(result=f"{_ERROR}{error}", failed=True)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 -- BFCL prints whatever a simulator raises
            observed = Observed(result=_short_enough(f"{_ERROR}{error}"), failed=True)
        self.answers.append(text_digest(observed.result))
        self.weight = self._weighed()
        return observed

    def _execute(self, text: str) -> Observed:
        call = parse_call(text, self._available)
        if len(text) * self.weight > MAX_CALL_WORK:
            raise RefusedCallError("the call is too long for a world of this size")
        return _observed(self._available[call.tool].call(call))

    def fault(self, reference: "World", *, checks_directory: bool) -> str:
        """Return how the state differs from that of ``reference``, in one word; empty if equal."""
        faults = (
            tools.fault(reference._opened[name], checks_directory=checks_directory)
            for name, tools in self._opened.items()
        )
        return next(filter(None, faults), "")

    @property
    def rewards(self) -> bool:
        """Whether the tools themselves reward an attempt."""
        return any(tools.rewards for tools in self._opened.values())

    def reward(self, body: ToolTask, words: str) -> float:
        """Return the lowest reward of the task's tools for the policy's last words, in [0, 1]."""
        return min(
            tools.reward(_as_given(body, name), words)
            for name, tools in self._opened.items()
            if tools.rewards
        )

    def _weighed(self) -> int:
        """Return the weight of all tools. Raises OverweightError."""
        weight = sum(tools.weigh() for tools in self._opened.values())
        if weight > MAX_WEIGHT:
            raise OverweightError
        return weight

    def digest(self) -> str:
        """Return a digest of the whole state; empty if it cannot be walked to its end.

        Raises SimulatorError if it cannot be compared.
        """
        digests = {name: tools.digest() for name, tools in self._opened.items()}
        return digest(digests) if all(digests.values()) else ""


class Session:
    """One conversation about a task: the policy's world and the reference's."""

    world: World
    """The policy's world."""

    def __init__(self, body: ToolTask) -> None:
        """Open both worlds at the first turn. Raises as `World` does."""
        self.world = World(body)
        self._reference = World(body)
        self._body = body
        self._turns = body.turns
        self._checks_directory = body.checks_directory
        self._strict = body.strict
        self._withheld = set(body.withheld)
        self._turn = 0
        self._calls_before = 0
        self._failure: Failed | None = None
        self._ending: Ending | None = None
        self._conversation_chars = 0
        self._weight_at_first = self._weight()
        self._make_available()

    def act(self, text: str) -> Observed:
        """Execute one call of the policy. The only error that it raises is MemoryError."""
        if self._ending is not None:
            return self._ending.answer
        try:
            observed = self.world.call(text)
        except OverweightError:
            return self.end(OUT_OF_MEMORY).answer
        chars = len(as_far_as_read(text)) + len(observed.result)
        self._conversation_chars += CALL_CHARS + chars
        if self._conversation_chars > MAX_CONVERSATION_CHARS:
            return self.end(OUT_OF_MEMORY).answer
        return observed

    def grade(self, words: str = "") -> Verdict:
        """Grade the turn and go to the next; after a failure every turn fails.

        In the last turn, ``words`` are the policy's last words.

        Raises:
            SimulatorError: No turn is left. An ended session never raises it.
        """
        if self._ending is not None:
            return self._ending.verdict
        if self._turn == len(self._turns):
            raise SimulatorError(f"all {self._turn} turns of the session have been graded already")
        if self._failure is None:
            try:
                self._failure = self._turn_failure(self._turns[self._turn], words)
            except OverweightError:
                return self.end(OUT_OF_MEMORY).verdict
        self._turn += 1
        self._calls_before = len(self.world.answers)
        self._make_available()
        return self._failure or Passed()

    def digest(self) -> str:
        """Return a digest of the whole state of the policy's world; empty for an ended session."""
        return "" if self._ending is not None else self.world.digest()

    def growth(self) -> int:
        """Return how much heavier the session is than when it was opened."""
        return self._weight() - self._weight_at_first

    def end(self, ending: Ending) -> Ending:
        """Answer every later call and turn with ``ending``; drop both worlds."""
        if self._ending is None:
            empty = ToolTask(classes=(), world="{}", turns=())
            self.world, self._reference = World(empty), World(empty)
            self._ending = ending
        return self._ending

    def _weight(self) -> int:
        return self.world.weight + self._reference.weight

    def _make_available(self) -> None:
        """Offer the tools that the new turn reveals or that its reference needs."""
        if self._withheld and self._turn < len(self._turns):
            turn = self._turns[self._turn]
            self._withheld.difference_update(turn.revealed, map(_tool, turn.reference))
            self.world.withhold(self._withheld)

    def _turn_failure(self, turn: ToolTurn, words: str) -> Failed | None:
        """Return how the turn failed; None if it passed. The tools' own reward has precedence."""
        if not self.world.rewards:
            return self._mismatch(turn)
        if self._turn < len(self._turns) - 1:
            return None
        reward = self.world.reward(self._body, words)
        return None if reward >= 1.0 else Failed(reason=f"reward {reward:g}", reward=reward)

    def _mismatch(self, turn: ToolTurn) -> Failed | None:
        """Return the fault after the turn in the checker's word; None if there is none."""
        expected = [text_digest(self._reference.call(text).result) for text in turn.reference]
        if not (expected or self._strict):
            return None
        if expected and len(self.world.answers) == self._calls_before:
            return Failed(reason="empty_turn_model_response")
        state = self.world.fault(self._reference, checks_directory=self._checks_directory)
        counted = self.world.answers[self._calls_before if self._strict else 0 :]
        lacking = Counter(expected) - Counter(counted)
        if state or not lacking:
            return Failed(reason=state) if state else None
        calls = zip(turn.reference, expected, strict=True)
        call = next(call for call, answer in calls if lacking[answer])
        return Failed(reason="execution_response_mismatch", call=call)


def _as_given(body: ToolTask, tool_set: str) -> dict[str, Any]:
    """Return the task in the form of a task file."""
    worlds: dict[str, Any] = msgspec.json.decode(body.world, type=dict[str, Any])
    turns = [{"instruction": t.instruction, "reference": list(t.reference)} for t in body.turns]
    extra: dict[str, Any] = msgspec.json.decode(body.extra or "{}", type=dict[str, Any])
    return {"world": worlds.get(tool_set), "turns": turns, **extra}


def _opened(body: ToolTask) -> dict[str, OpenTools]:
    try:
        scenarios: dict[str, Any] = msgspec.json.decode(body.world, type=dict[str, Any])
        return {
            name: tool_set(name).open(scenarios.get(name, {}), long_context=body.long_context)
            for name in body.classes
        }
    except (MemoryError, DependencyError, SimulatorError):
        raise
    except Exception as error:
        raise SimulatorError(f"the task's world does not load: {described(error)}") from error


def _observed(answer: object) -> Observed:
    """Return an answer as BFCL's executor prints it."""
    text = _printed(answer)
    failed = len(text) > MAX_ANSWER_CHARS or (isinstance(answer, dict) and "error" in answer)
    return Observed(result=_short_enough(text), failed=failed)


def _short_enough(text: str) -> str:
    if len(text) > MAX_ANSWER_CHARS:
        return f"{_ERROR}the answer has {len(text)} characters"
    return text.encode(errors="replace").decode()


def _printed(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, dict):
        return str(answer)
    try:
        return json.dumps(cast(dict[str, Any], answer))
    except (TypeError, ValueError):
        return str(cast(object, answer))


def _tool(call: str) -> str:
    return call.partition("(")[0].strip()
