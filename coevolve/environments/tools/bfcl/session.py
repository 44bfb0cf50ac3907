"""Runs BFCL's own simulators for one conversation and gives the verdict of BFCL's own checker.

A `World` is one fresh set of simulators; a `Session` holds the policy's world and the reference's,
and compares them after every turn with the package's ``state_checker`` and ``response_checker``.
Answers are byte for byte those of the package's executor. The verdict on a conversation is that of
its ``multi_turn_checker`` (bfcl-eval 2026.3.23), which is all that its evaluation looks at:

- a turn whose reference is empty always passes; calls made in it are carried out, and show in the
  comparison after the next turn. The package has an irrelevance checker for such turns, but its
  evaluation does not call it;
- a turn whose reference is not empty needs at least one call, though any well-formed call will do;
- every public attribute of every simulator must then be equal, and every answer of the turn's
  reference must be among the policy's answers so far, each as often as it occurs.

The verdict is the one of a process that judges nothing else: the package's own depends on what it
judged before (`bfcl.stock.Shared`).

Deviations:

- the policy's world and the reference's share nothing. In the package they share default arguments
  and the cards and bookings of long contexts, so that a policy could change what the reference ends
  in, and pass;
- it is always the same day (`bfcl.stock.TODAY`), which ages of travellers depend on;
- a withheld tool is answered like an unknown one until a turn reveals it, or until the reference
  itself uses it (one item, ``miss_func_49``, uses a tool two turns early). The package's executor
  carries such calls out. So the verdict is the package's on a conversation in which these calls
  named a tool that does not exist; for its verdict on the calls as they are, leave
  ``ToolTask.withheld`` empty;
- with ``checks_directory`` a turn must also end in the reference's working directory: by the path
  that it calls itself by, and by where it lies in the tree (`bfcl.directory`);
- a session whose world, or the reference's, becomes larger or deeper than one may be
  (`bfcl.weight`) has ended: its calls answer ``out of memory``, and its turns fail. So it
  is with a directory that was copied into itself, on which the package dies of a RecursionError at
  the next comparison. A session of more than ``MAX_CONVERSATION_CHARS`` ends in the same way;
- a comparison that the package cannot finish, because a simulator lacks an attribute that the
  reference's has, is a failed turn;
- a long call in a large world is refused (``MAX_CALL_WORK``);
- what the maths tools compute is bounded, and more than ``MAX_PRECISION`` digits of a logarithm or
  a square root are refused (`bfcl.arithmetic`);
- an answer longer than ``MAX_ANSWER_CHARS`` is replaced by an error, and a MemoryError is passed
  on, because it may be the machine's fault;
- what is no call at all, or not with literal arguments, is refused (`bfcl.calls`).

How large a world is, how long an answer, what a call computes: all of it is counted, and nothing
depends on the machine. The limits on CPU time and memory of `bfcl.child` stand behind.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from coevolve.environments.tools.bfcl.arithmetic import bounded
from coevolve.environments.tools.bfcl.calls import (
    NotACallError,
    RefusedCallError,
    as_far_as_read,
    parse_call,
)
from coevolve.environments.tools.bfcl.catalogue import tool_documents
from coevolve.environments.tools.bfcl.digest import digest, text_digest
from coevolve.environments.tools.bfcl.directory import places
from coevolve.environments.tools.bfcl.endings import OUT_OF_MEMORY, Ending
from coevolve.environments.tools.bfcl.stock import (
    Shared,
    check_answers,
    check_state,
    simulator_class,
)
from coevolve.environments.tools.bfcl.weight import OverweightError, weigh
from protocols.errors import DependencyError, SimulatorError
from protocols.simulation import Failed, Observed, Passed, Verdict
from protocols.tasks import ToolTask, ToolTurn

MAX_ANSWER_CHARS = 1_000_000

MAX_CALL_WORK = 2_000_000_000
"""Characters of a call times the weight of the world that it is made in, since some tools read an
argument again for each thing that there is. The longest call of a reference has 6,839 characters,
and could be made in any world of the benchmark."""

MAX_CONVERSATION_CHARS = 2_000_000
"""Of all calls of a session and their answers; the longest reference makes 70,957. A policy cannot
have so much in its context."""

CALL_CHARS = 100
"""What a call counts for beside its characters and its answer's."""

_ERROR = "Error during execution: "


class World:
    """A fresh set of simulators in the initial state of a task."""

    instances: dict[str, Any]
    """The simulators themselves, by class name."""

    answers: list[str]
    """Digests of the answers to all calls so far; what was no call at all is not among them. The
    checker asks for no more than whether two are equal."""

    weight: int
    """What the world weighs now (`bfcl.weight`)."""

    def __init__(self, body: ToolTask) -> None:
        """Load the initial state.

        Raises:
            SimulatorError: The task names an unknown class, or its world does not load or is too
                large.
            DependencyError: The simulators are not installed.
        """
        self._shared = Shared(body.classes, long_context=body.long_context)
        self._shared.install()
        self.instances = _simulators(body)
        self.answers = []
        try:
            self.weight = weigh(self.instances)
        except OverweightError as error:
            raise SimulatorError("the task's world is too large") from error
        self._tools: dict[str, Callable[..., object]] = {
            document.name: getattr(instance, document.name)
            for class_name, instance in self.instances.items()
            for document in tool_documents(class_name)
        }
        self._available = self._tools

    def withhold(self, tools: Iterable[str]) -> None:
        """Answer these tools, and no others, as if they did not exist."""
        hidden = set(tools)
        self._available = {name: tool for name, tool in self._tools.items() if name not in hidden}

    def call(self, text: str) -> Observed:
        """Carry out one call.

        Raises:
            OverweightError: The world became too large by it.
            MemoryError: As a simulator raised it.
        """
        # mpmath lifts the limit, and leaves it lifted after a text that is no number.
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
        try:
            observed = self._carried_out(text)
        except NotACallError as error:
            return Observed(result=f"{_ERROR}{error}", failed=True)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 -- BFCL prints whatever a simulator raises
            observed = Observed(result=_short_enough(f"{_ERROR}{error}"), failed=True)
        self.answers.append(text_digest(observed.result))
        self.weight = weigh(self.instances)
        return observed

    def _carried_out(self, text: str) -> Observed:
        call = bounded(parse_call(text, self._available))
        if len(text) * self.weight > MAX_CALL_WORK:
            raise RefusedCallError("the call is too long for a world of this size")
        self._shared.install()
        return _observed(self._available[call.tool](*call.positional, **call.named))

    def directory(self) -> str:
        """Return the working directory; empty without a file system."""
        system = self.instances.get("GorillaFileSystem")
        return "" if system is None else system.pwd()["current_working_directory"]

    def places(self) -> set[tuple[str, ...]]:
        """Return where the working directory lies; empty without a file system."""
        system = self.instances.get("GorillaFileSystem")
        return set() if system is None else places(system)

    def digest(self) -> str:
        """Return a name for the whole state; empty where it cannot be walked to its end."""
        return digest(self.instances)


class Session:
    """One conversation with a task: the policy's world beside the reference's."""

    world: World
    """The policy's."""

    def __init__(self, body: ToolTask) -> None:
        """Open both worlds at the first turn. Raises as `World` does."""
        self.world = World(body)
        self._reference = World(body)
        self._turns = body.turns
        self._checks_directory = body.checks_directory
        self._withheld = set(body.withheld)
        self._turn = 0
        self._calls_before = 0
        self._failure: Failed | None = None
        self._ending: Ending | None = None
        self._conversation_chars = 0
        self._weight_at_first = self._weight()
        self._make_available()

    def act(self, text: str) -> Observed:
        """Carry out one call of the policy. Raises MemoryError alone."""
        if self._ending is not None:
            return self._ending.answer
        try:
            observed = self.world.call(text)
        except OverweightError:
            return self.end(OUT_OF_MEMORY).answer
        told = len(as_far_as_read(text)) + len(observed.result)
        self._conversation_chars += CALL_CHARS + told
        if self._conversation_chars > MAX_CONVERSATION_CHARS:
            return self.end(OUT_OF_MEMORY).answer
        return observed

    def grade(self) -> Verdict:
        """Judge the turn and go on to the next; after a failure every turn fails.

        Raises:
            SimulatorError: No turn is left. An ended session has no end of turns.
        """
        if self._ending is not None:
            return self._ending.verdict
        if self._turn == len(self._turns):
            raise SimulatorError(f"the session's {self._turn} turns have all been graded")
        if self._failure is None:
            try:
                reason = self._fault(self._turns[self._turn])
            except OverweightError:
                return self.end(OUT_OF_MEMORY).verdict
            self._failure = Failed(reason=reason) if reason else None
        self._turn += 1
        self._calls_before = len(self.world.answers)
        self._make_available()
        return self._failure or Passed()

    def digest(self) -> str:
        """Return a name for the whole state of the policy's world; empty for an ended session."""
        return "" if self._ending is not None else self.world.digest()

    def growth(self) -> int:
        """Return by how much the session is heavier than when it was opened."""
        return self._weight() - self._weight_at_first

    def end(self, ending: Ending) -> Ending:
        """Make every call and every turn from now on answer ``ending``; let go of both worlds."""
        if self._ending is None:
            empty = ToolTask(classes=(), world="{}", turns=())
            self.world, self._reference = World(empty), World(empty)
            self._ending = ending
        return self._ending

    def _weight(self) -> int:
        return self.world.weight + self._reference.weight

    def _make_available(self) -> None:
        """Offer what the turn that begins reveals or its reference needs."""
        if self._withheld and self._turn < len(self._turns):
            turn = self._turns[self._turn]
            self._withheld.difference_update(turn.revealed, map(_tool, turn.reference))
            self.world.withhold(self._withheld)

    def _fault(self, turn: ToolTurn) -> str:
        """Return what is wrong after the turn in the checker's word; empty where nothing is."""
        expected = [text_digest(self._reference.call(text).result) for text in turn.reference]
        if not expected:
            return ""
        if len(self.world.answers) == self._calls_before:
            return "empty_turn_model_response"
        try:
            state = check_state(self.world.instances, self._reference.instances)
        except AttributeError:
            return "instance_state_mismatch"
        return (
            state
            or check_answers(self.world.answers, expected, self._turn)
            or self._directory_fault()
        )

    def _directory_fault(self) -> str:
        if not self._checks_directory:
            return ""
        here, there = self.world.places(), self._reference.places()
        same_place = here == there or bool(here & there)
        if same_place and self.world.directory() == self._reference.directory():
            return ""
        return "working_directory_mismatch"


def _simulators(body: ToolTask) -> dict[str, Any]:
    try:
        scenarios: dict[str, Any] = msgspec.json.decode(body.world, type=dict[str, Any])
        return {
            name: _simulator(name, scenarios.get(name, {}), long_context=body.long_context)
            for name in body.classes
        }
    except (MemoryError, DependencyError, SimulatorError):
        raise
    except Exception as error:
        raise SimulatorError(f"the task's world does not load: {error!r}") from error


def _simulator(name: str, scenario: object, *, long_context: bool) -> object:
    simulator = simulator_class(name)()
    if name != "MathAPI":  # it alone has no state
        simulator._load_scenario(scenario, long_context=long_context)
    return simulator


def _observed(answer: object) -> Observed:
    """Print an answer as BFCL's executor does."""
    text = _printed(answer)
    failed = len(text) > MAX_ANSWER_CHARS or (isinstance(answer, dict) and "error" in answer)
    return Observed(result=_short_enough(text), failed=failed)


def _short_enough(text: str) -> str:
    if len(text) > MAX_ANSWER_CHARS:
        return f"{_ERROR}the answer has {len(text)} characters"
    return text


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
