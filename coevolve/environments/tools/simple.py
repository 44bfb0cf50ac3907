"""Your own tools, as a plain class: no base class, and nothing to register.

    class KeyValue:
        \"\"\"A little store.\"\"\"

        def reset(self, world: dict[str, str]) -> None:
            self.data = dict(world)

        def get(self, key: str) -> str:
            \"\"\"Return the value of a key.\"\"\"
            return self.data[key]

A run file names it: ``environment: {use: "keyvalue:KeyValue", tasks: tasks.jsonl}``.

- ``reset(world)`` begins a conversation; ``world`` is what the task says, any JSON value.
- Every other public method with a docstring is a tool. Its type hints become a JSON Schema, and are
  checked before each call. It returns a text or a JSON value; an exception is told as an error.
- ``state()``, if there is one, returns all that two worlds are compared by; otherwise the object's
  attributes are compared.
- ``reward(task)``, if there is one, returns the reward after the last turn, 0 to 1, in place of the
  comparison with the reference; 1 is success. ``task`` is the line of the task file.
- ``reward(task, answer)`` gets what the policy said last, too: the text of its last message, of
  which the last `tools.commands.MAX_WORDS_CHARS` count. A class that has it needs no tools, and
  without ``reset`` no world. Its tasks are given: carrying out calls leads to no answer.
- ``lacks``, if there is one, is a tuple of the capabilities that the class does not have
  (`protocols.capabilities`), for example ``("deterministic_reward",)``.

The class is used in the simulators' own processes, which limit time and memory, and in which no
file, socket or process can be opened after the class was imported (`tools.child`).
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec

from coevolve.environments.tools.calls import Call
from coevolve.environments.tools.toolsets import STATE_MISMATCH, ToolDocument, import_named
from protocols.errors import ConfigError, SimulatorError

NOT_TOOLS = frozenset({"reset", "state", "reward"})

RETURN = "return"

ANSWER = "answer"
"""The parameter by which a class asks for the policy's last words."""


class ToolError(Exception):
    """A tool refused a call."""


def plain_class(name: str) -> type[Any]:
    """Return the class that ``package.module:Class`` names. Raises SimulatorError."""
    try:
        return import_named(name)
    except (ImportError, AttributeError) as error:
        raise SimulatorError(f"the tool set {name} cannot be imported: {error}") from error


def folder_of(kind: type[Any]) -> Path:
    """Return the folder that the class's package is imported from."""
    module = sys.modules[kind.__module__]
    file = Path(module.__file__ or "").resolve()
    levels = kind.__module__.count(".") + (file.name == "__init__.py")
    return file.parents[levels]


def judges_answers(kind: type[Any]) -> bool:
    """Return whether the class's reward is given the policy's last words. Raises ConfigError."""
    if not hasattr(kind, "reward"):
        return False
    signature = inspect.signature(kind.reward)
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = {
        name
        for name, each in signature.parameters.items()
        if each.default is each.empty and each.kind not in free
    }
    if len(required - {ANSWER}) > len(("self", "task")):
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs reward(self, task) or reward(self, task, "
            f"{ANSWER}), found reward{signature}"
        )
    return ANSWER in signature.parameters


class PlainToolSet:
    """A `coevolve.environments.tools.toolsets.ToolSet` over a plain class."""

    def __init__(self, kind: type[Any]) -> None:
        """Read the class. Raises ConfigError if no environment can be made of it."""
        self._kind = kind
        self._judges_answers = judges_answers(kind)
        self._methods = _methods(kind, needs_tools=not self._judges_answers)
        self.documents = tuple(_document(name, tool) for name, tool in self._methods.items())
        self.parameters = {name: tuple(_hints(tool)) for name, tool in self._methods.items()}

    def load(self) -> None:
        """Do nothing: the class is imported already."""

    def open(self, scenario: Any, *, long_context: bool) -> "PlainTools":
        """Return a fresh object, reset to the world."""
        judges_answers = self._judges_answers
        return PlainTools(self._kind, self._methods, scenario, judges_answers=judges_answers)


class PlainTools:
    """A `coevolve.environments.tools.toolsets.OpenTools` over one object."""

    def __init__(
        self,
        kind: type[Any],
        methods: Mapping[str, Callable[..., object]],
        world: Any,
        *,
        judges_answers: bool,
    ) -> None:
        self._methods = methods
        self._judges_answers = judges_answers
        self._object = kind()
        self._has_world = hasattr(self._object, "reset")
        if self._has_world:
            self._object.reset(world)
        self.rewards = hasattr(self._object, "reward")

    @property
    def state(self) -> Any:
        """Return the object, or what it calls its state; nothing where there is no world."""
        if hasattr(self._object, "state"):
            return _State(self._object.state())
        return self._object if self._has_world else _State(None)

    def call(self, call: Call) -> object:
        """Carry out a call whose arguments have the types that the method asks for."""
        method = self._methods[call.tool]
        try:
            bound = inspect.signature(method).bind(self._object, *call.positional, **call.named)
            given = dict(list(bound.arguments.items())[1:])
            typed = {
                name: _typed(value, _hints(method)[name], name) for name, value in given.items()
            }
            return _told(method(self._object, **typed))
        except Exception as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error

    def fault(self, reference: "PlainTools", *, checks_directory: bool) -> str:
        """Return whether the states differ."""
        return "" if _plain(self.state) == _plain(reference.state) else STATE_MISMATCH

    def reward(self, task: dict[str, Any], words: str) -> float:
        """Return the class's own reward. Raises SimulatorError, and MemoryError as it does."""
        answer = {ANSWER: words} if self._judges_answers else {}
        try:
            reward = float(self._object.reward(task, **answer))
        except MemoryError:
            raise
        except Exception as error:
            raise SimulatorError(f"reward() raised {type(error).__name__}: {error}") from error
        if not 0.0 <= reward <= 1.0:
            raise SimulatorError(f"reward() needs to return 0 to 1, returned {reward}")
        return reward


class _State:
    """Holds what ``state()`` returned, as an attribute."""

    def __init__(self, state: object) -> None:
        self.state = state


def _plain(state: Any) -> object:
    attributes = cast("dict[str, object]", vars(state))
    return {name: value for name, value in attributes.items() if not name.startswith("_")}


def _methods(kind: type[Any], *, needs_tools: bool) -> dict[str, Callable[..., object]]:
    """Return the tools of a class. Raises ConfigError."""
    if needs_tools and not callable(getattr(kind, "reset", None)):
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs a method reset(self, world), or a method "
            f"reward(self, task, {ANSWER})"
        )
    public = {
        name: method
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and not name.startswith("_") and name not in NOT_TOOLS
    }
    if needs_tools and not public:
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs at least one public method beside reset, "
            f"state and reward: those are the tools; or a method reward(self, task, {ANSWER})"
        )
    for name, method in public.items():
        if not inspect.getdoc(method):
            raise ConfigError(
                f"environment.use: the tool {kind.__qualname__}.{name} needs a docstring, which "
                "is what the policy is told of it; write one, or begin the name with _"
            )
        untyped = set(tuple(inspect.signature(method).parameters)[1:]) - set(_hints(method))
        if untyped:
            raise ConfigError(
                f"environment.use: the tool {kind.__qualname__}.{name} needs a type hint for "
                f"every parameter, found none for {', '.join(sorted(untyped))}"
            )
    return public


def _hints(method: Callable[..., object]) -> dict[str, Any]:
    return {name: kind for name, kind in get_type_hints(method).items() if name != RETURN}


def _document(name: str, method: Callable[..., object]) -> ToolDocument:
    signature = inspect.signature(method).parameters
    properties: dict[str, Any] = {}
    for parameter, kind in _hints(method).items():
        properties[parameter] = msgspec.json.schema(kind)
        default = signature[parameter].default
        if default is not inspect.Parameter.empty:
            properties[parameter] |= {"default": msgspec.to_builtins(default)}
    required = [each for each in properties if "default" not in properties[each]]
    return ToolDocument(
        name=name,
        description=inspect.getdoc(method) or "",
        parameters={"type": "object", "properties": properties, "required": required},
    )


def _told(answer: object) -> str:
    """Return the answer as the policy reads it: a text as it is, everything else as JSON."""
    return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()


def _typed(value: object, kind: Any, name: str) -> object:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"{name}: {error}") from error
