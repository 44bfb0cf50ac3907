"""The parts of the package ``bfcl-eval`` that are used as they are.

These are the eight simulator classes of the multi-turn categories, the two comparisons of its
multi-turn checker, and data files. They need nothing but the standard library and mpmath. Its
``utils`` and ``constants.eval_config`` are never imported: they make folders in ``site-packages``.
"""

import copy
import importlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from coevolve.environments import packages
from coevolve.environments.packages import Package, Requirements
from protocols.errors import DependencyError, SimulatorError

DOCUMENTS = {
    "GorillaFileSystem": "gorilla_file_system.json",
    "MathAPI": "math_api.json",
    "MessageAPI": "message_api.json",
    "TwitterAPI": "posting_api.json",
    "TicketAPI": "ticket_api.json",
    "TradingBot": "trading_bot.json",
    "TravelAPI": "travel_booking.json",
    "VehicleControlAPI": "vehicle_control.json",
}
"""The simulator classes and the files that document their tools."""

CLASSES = tuple(DOCUMENTS)

PACKAGE = Package(
    name="bfcl-eval",
    version="2026.3.23",
    module="bfcl_eval",
    # Its metadata pins numpy 1.26.4 and old SDKs, which only its model runners use.
    needs=("mpmath>=1.3",),
)
REQUIRES = Requirements(packages=(PACKAGE,))


@cache
def package_folder() -> Path:
    """Return the folder of the package, without importing anything of it; from now on it could be.

    Raises:
        DependencyError: The package is not installed.
    """
    return packages.use(PACKAGE, "bfcl") / PACKAGE.module


@cache
def simulator_class(name: str) -> type[Any]:
    """Return a simulator class.

    Raises:
        SimulatorError: There is no such class among the eight.
        DependencyError: The package, or one that it needs, is not installed.
    """
    if name not in DOCUMENTS:
        raise SimulatorError(f"unknown simulator class {name}; there are {', '.join(DOCUMENTS)}")
    if name == "TravelAPI":
        _module(_TRAVEL).datetime = _HeldClock
    modules = _module("constants.executable_backend_config").CLASS_FILE_PATH_MAPPING
    return getattr(_module(modules[name].removeprefix("bfcl_eval.")), name)


class Shared:
    """What worlds in one process share by mistake, as it is in a new process.

    ``post_tweet`` hands out its default arguments, which ``mention`` then extends; the cards and
    bookings of long contexts are the module's own. Each world has its own copy.
    """

    def __init__(self, class_name: str, *, long_context: bool) -> None:
        self._places = [
            (place.owner, place.attribute, copy.deepcopy(place.value))
            for place in _shared_places()
            if place.class_name == class_name and (long_context or not place.long_context)
        ]

    def install(self) -> None:
        """Make the simulators use this copy from now on."""
        for owner, attribute, value in self._places:
            setattr(owner, attribute, value)


class _Place(NamedTuple):
    class_name: str
    long_context: bool
    owner: object
    attribute: str
    value: object


@cache
def _shared_places() -> tuple[_Place, ...]:
    """Return the shared objects; called before any simulator is used, so they are unused."""
    tweet = simulator_class("TwitterAPI").post_tweet
    travel = _module(_TRAVEL)
    places = (
        ("TwitterAPI", False, tweet, "__defaults__"),
        ("TravelAPI", True, travel, "CREDIT_CARD_EXTENSION"),
        ("TravelAPI", True, travel, "BOOKING_RECORD_EXTENSION"),
    )
    return tuple(_Place(*place, copy.deepcopy(getattr(*place[2:]))) for place in places)


TODAY = (2026, 3, 23)
"""The package's release: what the simulators take for today's date."""


class _HeldClock(datetime):
    """A clock that stands still, so that no answer depends on the day."""

    @classmethod
    def today(cls) -> Self:
        """Return `TODAY`."""
        return cls(*TODAY)


def check_state(world: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """Compare two sets of simulators; empty where they are equal, else the checker's word."""
    return _word(_module(_CHECKER).state_checker(world, reference))


def load(name: str) -> None:
    """Import a class and the checker, so that no session has to wait for them."""
    simulator_class(name)
    _shared_places()
    _module(_CHECKER)


_TRAVEL = "eval_checker.multi_turn_eval.func_source_code.travel_booking"
_CHECKER = "eval_checker.multi_turn_eval.multi_turn_checker"


@cache
def _module(name: str) -> Any:
    package_folder()
    try:
        return importlib.import_module(f"bfcl_eval.{name}")
    except ImportError as error:
        raise DependencyError(
            f"{PACKAGE} in {package_folder()} cannot be used: {error}; install what it lacks"
        ) from error


def _word(verdict: dict[str, Any]) -> str:
    return "" if verdict["valid"] else verdict["error_type"].removeprefix("multi_turn:")
