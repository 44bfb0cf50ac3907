"""Your own tools as a plain class: no base class, and nothing to register.

    class KeyValue:
        \"\"\"A little store.\"\"\"

        def reset(self, world: dict[str, str]) -> None:
            self.data = dict(world)

        def get(self, key: str) -> str:
            \"\"\"Return the value of a key.\"\"\"
            return self.data[key]

A run file names it: ``environment: {use: "keyvalue:KeyValue", tasks: tasks.jsonl}``.

- ``reset(world)`` begins a conversation; ``world`` is the task's world, any JSON value.
- Every other public method is a tool, also if it is inherited, and needs a docstring. Its type
  hints become a JSON Schema, against which each call is checked. It returns a text or a JSON value;
  the policy gets an exception as an error.
- ``state()`` is optional. It returns the whole state by which two worlds are compared; without it,
  all attributes of the object are compared, private ones included. The state is read after each
  call.
- ``reward(task)`` is optional. It returns the reward after the last turn, 0 to 1, instead of the
  comparison with the reference; 1 is success. ``task`` is the line of the task file.
- ``reward(task, answer)`` also gets the policy's answer: the text of its last message, cut to its
  last `tools.commands.MAX_WORDS_CHARS` characters. A class with it needs no tools, and without
  ``reset`` no world. The loop makes no tasks for it, because calls alone lead to no answer.
- ``lacks`` is optional. It is a tuple of the capabilities that the class does not have
  (`protocols.capabilities`), for example ``("deterministic_reward",)``.

The class runs in the simulators' own processes, which limit time and memory. After the import of
the class, they can open no file, socket or process (`tools.child`).
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from itertools import starmap
from pathlib import Path
from types import FunctionType
from typing import Any, get_type_hints

import msgspec

from coevolve.base.foreign import described
from coevolve.base.user_code import told
from coevolve.environments.tools.calls import Call
from coevolve.environments.tools.digest import STATE, digest
from coevolve.environments.tools.toolset import STATE_MISMATCH, ToolDocument, import_named
from coevolve.environments.tools.weight import weigh
from protocols.errors import ConfigError, SimulatorError

NOT_TOOLS = frozenset({"reset", "state", "reward"})

METHODS = (FunctionType, staticmethod, classmethod)

UNNAMED = frozenset(
    {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.POSITIONAL_ONLY,
    }
)
"""Kinds of parameters that a JSON object of arguments cannot provide."""

UNCOMPARED = "state_without_end"
"""The fault of a state that is too large to compare (`tools.digest`)."""

RETURN = "return"

REWARD = "reward()"

ANSWER = "answer"
"""The parameter that gives a class's reward the policy's last words."""


class ToolError(Exception):
    """A tool refused a call."""


def plain_class(name: str) -> type[Any]:
    """Return the class named by ``package.module:Class``. Raises SimulatorError."""
    try:
        return import_named(name)
    except Exception as error:
        raise SimulatorError(
            f"the tool set {name} cannot be imported: {described(error)}"
        ) from error


def folder_of(kind: type[Any]) -> Path:
    """Return the folder from which the class's package is imported."""
    module = sys.modules[kind.__module__]
    file = Path(module.__file__ or "").resolve()
    levels = kind.__module__.count(".") + (file.name == "__init__.py")
    return file.parents[levels]


def judges_answers(kind: type[Any]) -> bool:
    """Return whether the class's reward takes the policy's last words. Raises ConfigError."""
    if not hasattr(kind, "reward"):
        return False
    signature = inspect.signature(kind.reward)
    answer = {ANSWER: ""} if ANSWER in signature.parameters else {}
    _needs(kind, "reward", f"(self, task) or reward(self, task, {ANSWER})", {}, **answer)
    return bool(answer)


class PlainToolSet:
    """A `coevolve.environments.tools.toolset.ToolSet` for a plain class."""

    def __init__(self, kind: type[Any]) -> None:
        """Read the class. Raises ConfigError if it does not fit an environment."""
        self._kind = kind
        self._judges_answers = judges_answers(kind)
        self._methods = _methods(kind, needs_tools=not self._judges_answers)
        _check_whole(kind)
        self.documents = tuple(starmap(_document, self._methods.items()))
        self.parameters = {name: tuple(_hints(tool)) for name, tool in self._methods.items()}

    def load(self) -> None:
        """Do nothing: the class is imported already."""

    def open(self, scenario: Any, *, long_context: bool) -> "PlainTools":
        """Return a new object, reset to the world."""
        judges_answers = self._judges_answers
        return PlainTools(self._kind, self._methods, scenario, judges_answers=judges_answers)


class PlainTools:
    """A `coevolve.environments.tools.toolset.OpenTools` for one object."""

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
        self._has_world = hasattr(kind, "reset")
        if self._has_world:
            self._object.reset(world)
        self._tells_state = hasattr(kind, "state")
        self.rewards = hasattr(kind, "reward")

    @property
    def state(self) -> Any:
        """The result of ``state()``, or the attributes; None without a world.

        Raises SimulatorError.
        """
        if self._tells_state:
            return self._told_state()
        return object.__getstate__(self._object) if self._has_world else None

    def weigh(self) -> int:
        return weigh(self.state)

    def _told_state(self) -> object:
        try:
            state = self._object.state()
        except MemoryError:
            raise
        except Exception as error:
            raise SimulatorError(f"state() raised {described(error)}") from error
        if state is None:
            raise SimulatorError("state() has to return a state to compare, but returned None")
        return state

    def digest(self) -> str:
        if self._tells_state:
            return digest(self._told_state(), STATE)
        return digest(self._object if self._has_world else None)

    def call(self, call: Call) -> object:
        """Execute a call whose arguments match the method's types."""
        method = self._methods[call.tool]
        try:
            bound = inspect.signature(method).bind(self._object, *call.positional, **call.named)
            given = dict(list(bound.arguments.items())[1:])
            typed = {
                name: _typed(value, _hints(method)[name], name) for name, value in given.items()
            }
            return _answer_text(method(self._object, **typed))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error

    def fault(self, reference: "PlainTools", *, checks_directory: bool) -> str:
        here, there = self.digest(), reference.digest()
        if not (here and there):
            return UNCOMPARED
        return "" if here == there else STATE_MISMATCH

    def reward(self, task: dict[str, Any], words: str) -> float:
        """Return the class's own reward. Raises SimulatorError; a MemoryError passes unchanged."""
        answer = {ANSWER: words} if self._judges_answers else {}
        name = f"{type(self._object).__qualname__}.{REWARD}"
        try:
            reward = float(self._object.reward(task, **answer))
        except MemoryError:
            raise
        except Exception as error:
            raise SimulatorError(f"{name} raised {type(error).__name__}: {error}") from error
        if not 0.0 <= reward <= 1.0:
            raise SimulatorError(f"{name} has to return 0 to 1, but returned {reward}")
        return reward


def _methods(kind: type[Any], *, needs_tools: bool) -> dict[str, Callable[..., object]]:
    """Return the tools of a class, those of its base classes first. Raises ConfigError."""
    if needs_tools and not callable(getattr(kind, "reset", None)):
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs a method reset(self, world), or a method "
            f"reward(self, task, {ANSWER})"
        )
    names = dict.fromkeys(name for each in reversed(kind.__mro__[:-1]) for name in vars(each))
    static: dict[str, Any] = {name: inspect.getattr_static(kind, name) for name in names}
    public: dict[str, Any] = {
        name: each
        for name, each in static.items()
        if not name.startswith("_") and name not in NOT_TOOLS and _is_method(each)
    }
    if needs_tools and not public:
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs at least one public method besides reset, "
            f"state and reward as a tool, or a method reward(self, task, {ANSWER})"
        )
    for name, method in public.items():
        tool = f"environment.use: the tool {kind.__qualname__}.{name}"
        with told(f"{tool} cannot be read"):
            fault = _unfit(method)
        if fault:
            raise ConfigError(f"{tool} {fault}, or begin its name with _ if it is no tool")
    return public


def _is_method(found: object) -> bool:
    """Return whether a class's attribute is a method, or what a decorator made of one."""
    return isinstance(found, METHODS) or (callable(found) and hasattr(found, "__wrapped__"))


def _unfit(method: Any) -> str:
    """Return why a method cannot be a tool, and the remedy; empty if it can."""
    if not isinstance(method, FunctionType):
        return f"needs to be a plain method, found a {type(method).__name__}; write a plain def"
    if _waits(method):
        return "needs to return its answer, found async def or yield; write a plain def"
    parameters = tuple(inspect.signature(method).parameters.values())[1:]
    if unnamed := [f"{p} ({p.kind.description})" for p in parameters if p.kind in UNNAMED]:
        return f"needs named parameters, found {', '.join(unnamed)}; name each"
    if not inspect.getdoc(method):
        return "needs a docstring, which is what the policy is told of it; write one"
    if untyped := {each.name for each in parameters} - set(_hints(method)):
        return (
            "needs a type hint for every parameter, found none for "
            f"{', '.join(sorted(untyped))}; write them"
        )
    return ""


def _waits(method: Any) -> bool:
    return (
        inspect.iscoroutinefunction(method)
        or inspect.isgeneratorfunction(method)
        or inspect.isasyncgenfunction(method)
    )


def _check_whole(kind: type[Any]) -> None:
    """Refuse a class that cannot be used as described above. Raises ConfigError."""
    if inspect.isabstract(kind):
        raise ConfigError(
            f"environment.use: {kind.__qualname__} is abstract: write "
            f"{', '.join(sorted(kind.__abstractmethods__))}, or name a class that has them"
        )
    try:
        inspect.signature(kind).bind()
    except TypeError as error:
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs a constructor without arguments, found "
            f"{kind.__qualname__}{inspect.signature(kind)}; take variable parts from reset's world"
        ) from error
    if hasattr(kind, "reset"):
        _needs(kind, "reset", "(self, world)", None)
    if hasattr(kind, "state"):
        _needs(kind, "state", "(self)")


def _needs(kind: type[Any], name: str, form: str, *given: object, **named: object) -> None:
    """Refuse a method that cannot be called with these arguments. Raises ConfigError."""
    method = getattr(kind, name)
    signature = inspect.signature(method)
    fault = "it is async, or yields" if _waits(method) else ""
    try:
        signature.bind(None, *given, **named)
    except TypeError as error:
        fault = str(error)
    if fault:
        raise ConfigError(
            f"environment.use: {kind.__qualname__} needs {name}{form}, found {name}{signature}: "
            f"{fault}"
        )


def _hints(method: Callable[..., object]) -> dict[str, Any]:
    return {name: kind for name, kind in get_type_hints(method).items() if name != RETURN}


def _document(name: str, method: Callable[..., object]) -> ToolDocument:
    signature = inspect.signature(method).parameters
    properties: dict[str, Any] = {}
    for parameter, kind in _hints(method).items():
        with told(
            f"environment.use: the tool {name}: {parameter} needs a type and a default of JSON"
        ):
            properties[parameter] = msgspec.json.schema(kind)
            default = signature[parameter].default
            if default is not inspect.Parameter.empty:
                plain = msgspec.json.decode(msgspec.json.encode(default))
                properties[parameter] |= {"default": plain}
    required = [each for each in properties if "default" not in properties[each]]
    return ToolDocument(
        name=name,
        description=inspect.getdoc(method) or "",
        parameters={"type": "object", "properties": properties, "required": required},
    )


def _answer_text(answer: object) -> str:
    """Return the answer as the policy reads it: a text unchanged, everything else as JSON."""
    if isinstance(answer, str):
        return str.__str__(answer)  # only the text of a subclass
    try:
        return msgspec.json.encode(answer).decode()
    except TypeError as error:
        kind = type(answer).__name__
        raise TypeError(f"a tool has to return a text or a JSON value, found {kind}") from error


def _typed(value: object, kind: Any, name: str) -> object:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"{name}: {error}") from error
