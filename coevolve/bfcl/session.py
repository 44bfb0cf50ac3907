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
judged before (`coevolve.bfcl.stock.Shared`).

Deviations:

- the policy's world and the reference's share nothing. In the package they share default arguments
  and the cards and bookings of long contexts, so that a policy could change what the reference ends
  in, and pass;
- it is always the same day (`coevolve.bfcl.stock.TODAY`), which ages of travellers depend on;
- a withheld tool is answered like an unknown one until a turn reveals it, or until the reference
  itself uses it (one item, ``miss_func_49``, uses a tool two turns early). The package's executor
  carries such calls out. So the verdict is the package's on a conversation in which these calls
  named a tool that does not exist; for its verdict on the calls as they are, leave
  ``ToolTask.withheld`` empty;
- with ``checks_directory`` a turn must also end in the reference's working directory;
- a comparison that the package cannot finish (``cp`` of a directory into itself makes a cyclic
  tree, on which it dies of a RecursionError; a simulator lacks an attribute that the reference's
  has) is a failed turn;
- more than ``MAX_PRECISION`` digits of a logarithm or a square root are refused: the decimal
  module's root cannot be interrupted;
- an answer longer than ``MAX_ANSWER_CHARS`` is replaced by an error, and a MemoryError is passed
  on, because it may be the machine's fault;
- what is no call at all, or not with literal arguments, is refused (`coevolve.bfcl.calls`).
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from coevolve.bfcl.calls import Call, NotACallError, RefusedCallError, parse_call
from coevolve.bfcl.catalogue import tool_documents
from coevolve.bfcl.digest import digest
from coevolve.bfcl.stock import Shared, check_answers, check_state, simulator_class
from protocols.errors import DependencyError, SimulatorError
from protocols.simulation import Failed, Observed, Passed, Verdict
from protocols.tasks import ToolTask, ToolTurn

MAX_ANSWER_CHARS = 1_000_000
MAX_PRECISION = 10_000

_ERROR = "Error during execution: "


class World:
    """A fresh set of simulators in the initial state of a task."""

    instances: dict[str, Any]
    """The simulators themselves, by class name."""

    answers: list[str]
    """Answers to all calls so far; what was no call at all is not among them."""

    def __init__(self, body: ToolTask) -> None:
        """Load the initial state.

        Raises:
            SimulatorError: The task names an unknown class, or its world does not load.
            DependencyError: The simulators are not installed.
        """
        self._shared = Shared(body.classes, long_context=body.long_context)
        self._shared.install()
        self.instances = _simulators(body)
        self.answers = []
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
        """Carry out one call. Raises MemoryError alone."""
        # mpmath lifts the limit, and leaves it lifted after a text that is no number.
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
        try:
            call = parse_call(text, self._available)
            _refuse_endless(call)
            self._shared.install()
            observed = _observed(self._available[call.tool](*call.positional, **call.named))
        except NotACallError as error:
            return Observed(result=f"{_ERROR}{error}", failed=True)
        except MemoryError:
            raise
        except RecursionError:  # Python words it differently from time to time
            observed = Observed(result=f"{_ERROR}maximum recursion depth exceeded", failed=True)
        except Exception as error:  # noqa: BLE001 -- BFCL prints whatever a simulator raises
            observed = Observed(result=f"{_ERROR}{error}", failed=True)
        self.answers.append(observed.result)
        return observed

    def directory(self) -> str:
        """Return the working directory; empty without a file system."""
        system = self.instances.get("GorillaFileSystem")
        return "" if system is None else system.pwd()["current_working_directory"]

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
        self._make_available()

    def act(self, text: str) -> Observed:
        """Carry out one call of the policy. Raises MemoryError alone."""
        return self.world.call(text)

    def grade(self) -> Verdict:
        """Judge the turn and go on to the next; after a failure every turn fails.

        Raises:
            SimulatorError: No turn is left.
        """
        if self._turn == len(self._turns):
            raise SimulatorError(f"the session's {self._turn} turns have all been graded")
        if self._failure is None and (reason := self._fault(self._turns[self._turn])):
            self.fail(reason)
        self._turn += 1
        self._calls_before = len(self.world.answers)
        self._make_available()
        return self._failure or Passed()

    def fail(self, reason: str) -> None:
        """Make this turn and every later one fail."""
        self._failure = Failed(reason=reason)

    def empty(self) -> None:
        """Let go of both worlds; only a session that has failed may go on without."""
        empty = ToolTask(classes=(), world="{}", turns=())
        self.world, self._reference = World(empty), World(empty)

    def _make_available(self) -> None:
        """Offer what the turn that begins reveals or its reference needs."""
        if self._withheld and self._turn < len(self._turns):
            turn = self._turns[self._turn]
            self._withheld.difference_update(turn.revealed, map(_tool, turn.reference))
            self.world.withhold(self._withheld)

    def _fault(self, turn: ToolTurn) -> str:
        """Return what is wrong after the turn in the checker's word; empty where nothing is."""
        expected = [self._reference.call(text).result for text in turn.reference]
        if not expected:
            return ""
        if len(self.world.answers) == self._calls_before:
            return "empty_turn_model_response"
        try:
            state = check_state(self.world.instances, self._reference.instances)
        except RecursionError:
            return "state_recursion"
        except AttributeError:
            return "instance_state_mismatch"
        return (
            state
            or check_answers(self.world.answers, expected, self._turn)
            or self._directory_fault()
        )

    def _directory_fault(self) -> str:
        if not self._checks_directory or self.world.directory() == self._reference.directory():
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


def _refuse_endless(call: Call) -> None:
    if call.tool in ("logarithm", "square_root"):
        digits = call.named.get("precision", call.positional[-1] if call.positional else 0)
        if isinstance(digits, (int, float)) and digits > MAX_PRECISION:
            raise RefusedCallError(f"the precision is at most {MAX_PRECISION} digits")


def _observed(answer: object) -> Observed:
    """Print an answer as BFCL's executor does."""
    text = _printed(answer)
    if len(text) > MAX_ANSWER_CHARS:
        raise RefusedCallError(f"the answer has {len(text)} characters")
    return Observed(result=text, failed=isinstance(answer, dict) and "error" in answer)


def _printed(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, dict):
        return str(answer)
    try:
        return json.dumps(cast(dict[str, Any], answer))
    except (TypeError, ValueError, RecursionError):
        return str(cast(object, answer))


def _tool(call: str) -> str:
    return call.partition("(")[0].strip()
