"""Finds a training objective by the ``kind`` that a run file gives it.

``learner.objective`` is ``{kind: NAME, SETTING: VALUE, ...}``. The name is that of a file of
`coevolve.learning.objectives`, of an entry point of the group ``coevolve.objectives`` in an
installed package, or ``package.module:Class`` of one's own.
"""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Union, cast

import msgspec

from coevolve.base.foreign import shown
from coevolve.base.user_code import NamedClass
from coevolve.learning import objectives
from coevolve.learning.objective import Objective
from coevolve.learning.objective_trial import refuse_incomplete
from coevolve.yaml.structs import check_section, check_value
from protocols.errors import ConfigError
from protocols.learner_config import DEFAULT_OBJECTIVE, LearnerConfig

PATH = "$.learner.objective"
OWN = "; an objective of your own is written package.module:Class"
NAMED = NamedClass("learner.objective.kind", "an objective", group="coevolve.objectives")


@functools.cache
def built_in() -> Mapping[str, type[Objective]]:
    """Return name -> class of the objectives that coevolve carries."""
    found = pkgutil.iter_modules(objectives.__path__, f"{objectives.__name__}.")
    modules = [importlib.import_module(each.name) for each in found]
    return {module.__name__.rpartition(".")[2]: _class_in(module) for module in modules}


def objective_type(kind: str) -> type[Objective]:
    """Return the class that ``kind`` names. Raises ConfigError."""
    if kind in built_in():
        return built_in()[kind]
    found: Any = NAMED.load(kind, NAMED.path_of(kind, built_in()))
    if not isinstance(found, type) or not issubclass(found, Objective):
        raise ConfigError(
            f"learner.objective.kind: {shown(kind)} needs to be a subclass of "
            f"coevolve.learning.objective.Objective, found {shown(cast(object, found))}; "
            "coevolve/docs/learning.md has an example"
        )
    return found


def objective_of(learner: LearnerConfig) -> Objective:
    """Return the run's objective with its settings. Raises ConfigError."""
    settings = dict(learner.objective)
    kind = settings.pop("kind", DEFAULT_OBJECTIVE)
    try:
        return msgspec.convert(settings, objective_type(kind))
    except msgspec.ValidationError as error:
        raise ConfigError(f"learner.objective of kind {shown(kind)}: {error}") from error


def section(objective: Objective, kind: str = "") -> dict[str, Any]:
    """Return the section of a run file for an objective, with every setting written out."""
    spelled: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(objective))
    return {"kind": kind or objective.__struct_config__.tag} | {
        name: value for name, value in spelled.items() if name != "kind"
    }


def check_objective(given: Any, faults: list[str]) -> None:
    """Append to ``faults`` what is wrong with ``learner.objective``."""
    settings = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else None
    kind = DEFAULT_OBJECTIVE if settings is None else settings.get("kind", DEFAULT_OBJECTIVE)
    if settings is None or not (isinstance(kind, str) and (":" in kind or kind in NAMED.offered())):
        union = Union[tuple(built_in().values())]  # noqa: UP007 -- it is made from a list
        value = cast("object", given) if settings is None else {"kind": kind, **settings}
        before = len(faults)
        check_value(union, value, PATH, faults)
        faults[before:] = [each if "; " in each else f"{each}{OWN}" for each in faults[before:]]
        return
    try:
        own = objective_type(kind)
    except ConfigError as error:
        faults.append(f"$.{error}")
        return
    rest = {name: value for name, value in settings.items() if name != "kind"}
    before = len(faults)
    check_section(own, rest, PATH, faults)
    if len(faults) > before:
        return
    try:
        refuse_incomplete(msgspec.convert(rest, own))
    except ConfigError as error:
        faults.append(f"{PATH}: {error}")


def complete(learner: LearnerConfig) -> LearnerConfig:
    """Return the settings with all defaults of the objective filled in."""
    kind = learner.objective.get("kind", DEFAULT_OBJECTIVE)
    return msgspec.structs.replace(learner, objective=section(objective_of(learner), kind))


def _class_in(module: ModuleType) -> type[Objective]:
    (found,) = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Objective)
        and each.__module__ == module.__name__
    ]
    return found
