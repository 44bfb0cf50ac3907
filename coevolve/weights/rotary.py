"""The states that a transformers model may be in without a change of its weights.

Rotary embeddings of two kinds replace their tables while they compute. Longrope has one table for
conversations up to the original length and one for longer ones. Dynamic NTK grows its table with
the longest conversation, whose length it stores, until a short one resets it. This module finds the
possible tables by letting new modules compute positions at those lengths.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from coevolve.weights.settings import modules_of, settings_of, tables_of
from protocols.learning import Computed

LONGROPE = "longrope"
DYNAMIC = "dynamic"
HELD = "max_seq_len_cached"
"""Name of the attribute with the length that a dynamic table was made for."""

_HISTORIES = ((), ("long",), ("long", "short"))
"""Sequences of conversation lengths that bring longrope into each of its states."""


def computed_states(model: torch.nn.Module, found: Mapping[str, str]) -> list[Computed]:
    """Return tables and settings of every state that a model like ``model`` may be in.

    ``model`` must be newly created; ``found`` holds the settings of the served model, by name.
    """
    plain = Computed(rows=tables_of(model), settings=settings_of(model))
    rotaries = {name: each for name, each in modules_of(model) if any(_changing_tables(each))}
    if not rotaries:
        return [plain]
    return [_state_after(plain, rotaries, history, found) for history in _HISTORIES]


def _state_after(
    plain: Computed,
    rotaries: Mapping[str, torch.nn.Module],
    history: Sequence[str],
    found: Mapping[str, str],
) -> Computed:
    rows, settings = dict(plain.rows), dict(plain.settings)
    for name, rotary in rotaries.items():
        used = copy.deepcopy(rotary)
        for layers, kind in _changing_tables(rotary):
            _use(used, layers, kind, history, found.get(f"{name}.{_prefix(layers)}{HELD}", ""))
        rows |= tables_of(used, name)
        settings |= settings_of(used, name)
    return Computed(rows=rows, settings=settings)


def _changing_tables(module: torch.nn.Module) -> Iterator[tuple[str | None, str]]:
    """Yield (layer type, kind) for each of a module's tables that change."""
    kinds: Any = getattr(module, "rope_type", None)
    by_layers = cast("dict[str | None, str]", kinds if isinstance(kinds, dict) else {None: kinds})
    for layers, kind in by_layers.items():
        if kind == LONGROPE or DYNAMIC in (kind or ""):
            yield layers, kind


def _use(rotary: Any, layers: str | None, kind: str, history: Sequence[str], held: str) -> None:
    if kind != LONGROPE:
        _compute(rotary, layers, int(held) if held.isdecimal() else 1)
        return
    settings = rotary.config.rope_parameters
    original = (settings if layers is None else settings[layers])[
        "original_max_position_embeddings"
    ]
    for length in history:
        _compute(rotary, layers, original + 1 if length == "long" else 1)


@torch.no_grad()
def _compute(rotary: Any, layers: str | None, length: int) -> None:
    """Let ``rotary`` compute the last position of a conversation."""
    named = {} if layers is None else {"layer_type": layers}
    rotary(torch.zeros(1), torch.tensor([[length - 1]]), **named)


def _prefix(layers: str | None) -> str:
    return "" if layers is None else f"{layers}_"
