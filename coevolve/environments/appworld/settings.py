"""The settings of the environment ``appworld``."""

from typing import Annotated, Literal

import msgspec

from protocols.numbers import MOST_MB, Count, Processes, Seed, Tries

Source = Literal["own", "official"]


class AppWorldConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks in AppWorld's apps, carried out by blocks of Python code."""

    source: Source = "own"
    """Where tasks come from. ``own``: templates over a world that is made on this machine, without
    a download. ``official``: the benchmark's tasks in the folder ``data``."""

    data: str = ""
    """With ``source: official``: the folder that ``appworld download data`` made."""

    templates: tuple[str, ...] = ()
    """With ``source: own``: names of the templates to draw tasks from. Empty: all."""

    difficulties: tuple[Literal[1, 2, 3], ...] = ()
    """How hard tasks may be: by the benchmark, or for own tasks 1 for one app and one change, and
    one more each for a second app and for a second change. The first variant decides for its
    scenario. Empty: all."""

    seeds: Count = 100
    """Maximum number of training tasks that the run starts with."""

    held_out: Count = 48
    """Maximum number of held-out tasks; they are the same in every run."""

    scenarios: Tries = 4
    """With ``source: own``: scenarios of each template in each split. A scenario has three
    variants."""

    world: Seed = 0
    """With ``source: own``: seed of the people and things of the world."""

    partial_credit: bool = False
    """With ``source: official``: whether a failed attempt earns the share of the evaluator's tests
    that it passes, without those that doing nothing passes."""

    episodes: Processes = 8
    """Attempts that a simulator advances at the same time."""

    engine_memory_mb: Annotated[int, msgspec.Meta(ge=1024, le=MOST_MB)] = 4096
    """Address space of each process of the engine; it has one for each open attempt."""
