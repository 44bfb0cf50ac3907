"""Compares an engine's tensors and settings with what the published files give.

The engine states checksums of what it samples with (`coevolve.weights.row_sums`); this reads the
version's files by itself, converts them by itself, and expects the very same. Tables that no file
holds, such as those of positions, are computed from the model's config, and so are the settings
that are no tensors (`coevolve.weights.settings`). An engine with a layout of its own, vLLM,
computes both once more for the comparison. A merged adapter is checked by another formula as well,
since engine and comparison merge it by the same one.

Letters: O outputs, I inputs, r rank.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from coevolve.models.load import outline_of, read_outline
from coevolve.models.weight_files import model_digest
from coevolve.weights.models import Base, ServedModel, served_model
from coevolve.weights.published import Change, Published
from coevolve.weights.rotary import computed_states
from coevolve.weights.row_sums import Sums, row_sums
from coevolve.weights.settings import settings_of
from protocols.errors import GeneratorError
from protocols.learning import (
    Computed,
    OldVersionServed,
    PolicyVersion,
    ServedWeights,
    SettingsDiffer,
    TensorFault,
    TensorsDiffer,
)

LORA = ".lora_"
NAMES = 5
"""Tensors that an alarm names, at most."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison found."""

    rows: int
    """That were compared."""

    changed: float
    """Share of them that differ from those of the version before, 0..1; 1 for the first."""

    wrong: TensorsDiffer | SettingsDiffer | OldVersionServed | None = None


@dataclass
class TensorComparison:
    """Of one engine, version after version."""

    base: Base
    """The model that the run starts from."""

    precision: str
    """That the engine has to serve: ``float32``, ``bfloat16`` or ``float16``."""

    _base_sums: dict[str, Sums] = field(default_factory=dict[str, Sums])
    _base_digest: str = ""
    _served: ServedModel | None = None
    _config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the version before, where it published one."""

    _before: Mapping[str, Sums] = field(default_factory=dict[str, Sums])
    _before_version: int = -1

    def compare(
        self, version: PolicyVersion, published: Published, served: ServedWeights
    ) -> Compared:
        """Compare what is ``served`` with ``published``, the files of ``version``.

        Raises GeneratorError where the files do not fit the model.
        """
        if served.precision != self.precision:
            return _wrong("precision", precision=served.precision)
        if version.base and version.base != self._digest():
            return _wrong("base", [str(self.base.folder)], precision=self.precision)
        model = self.base.for_format(published.format)
        weights = published.weights(model.parameters)
        faults = _merge_faults(version.scale, published, model.parameters, weights)
        if faults:
            return _wrong("merged", list(faults), sum(faults.values()), precision=self.precision)
        computed = self._computed(served)
        reason = self._other_config(published) or _other_settings(
            "engine", computed.settings, served.settings
        )
        found = _sums(served.rows)
        if reason is not None:
            return Compared(rows=sum(map(len, found.values())), changed=0.0, wrong=reason)
        expected = self._expected(published, weights, served)
        constant = _sums(computed.rows) | _places_left(found, expected)
        compared = self._against(expected, constant, found, model.aliases)
        if compared.wrong is None:
            self._before, self._before_version = expected, version.version
        return compared

    def _against(
        self,
        expected: Mapping[str, Sums],
        constant: Mapping[str, Sums],
        found: Mapping[str, Sums],
        aliases: Mapping[str, str],
    ) -> Compared:
        def with_all(published: Mapping[str, Sums]) -> dict[str, Sums]:
            stated = {alias: name for alias, name in aliases.items() if alias in found}
            again = {alias: published[name] for alias, name in stated.items() if name in published}
            return {**published, **again, **constant}

        differ = _differing(with_all(expected), found)
        rows = sum(map(len, found.values()))
        changed = sum(_differing(expected, self._before).values()) if self._before else rows
        share = min(1.0, changed / max(1, sum(map(len, expected.values()))))
        if not differ:
            return Compared(rows=rows, changed=share)
        if self._before and not _differing(with_all(self._before), found):
            old = OldVersionServed(served=self._before_version, evidence="tensors")
            return Compared(rows=rows, changed=share, wrong=old)
        return _wrong("served", list(differ), sum(differ.values()), rows, precision=self.precision)

    def _expected(
        self, published: Published, weights: Mapping[str, torch.Tensor], served: ServedWeights
    ) -> dict[str, Sums]:
        """Return the sums that the files give, by name, in the form that is served."""
        precision = getattr(torch, self.precision)
        if published.format == "full":
            return {name: self._sums(name, tensor) for name, tensor in weights.items()}
        if not self._base_sums:
            base = self.base.for_format("lora").parameters
            self._base_sums = {name: self._sums(name, each) for name, each in base.items()}
        expected = dict(self._base_sums)
        for change in published.changes():
            if served.form == "whole":
                expected[change.weight] = self._sums(change.weight, weights[change.weight])
                continue
            down, up = change.names
            expected[down] = row_sums(change.down, precision)
            expected[up] = row_sums(change.up.to(precision) * published.scale)
        return expected

    def _sums(self, name: str, tensor: torch.Tensor) -> Sums:
        precision = "float32" if name in self._model().exact else self.precision
        return row_sums(tensor, getattr(torch, precision))

    def _computed(self, served: ServedWeights) -> Computed:
        """Return what is expected of tables and settings, as near to ``served`` as is right."""
        if served.anew is not None:
            return served.anew
        states = computed_states(self._model().outline, served.settings)
        return Computed(
            rows=_nearest([state.rows for state in states], served.rows),
            settings=_nearest([state.settings for state in states], served.settings),
        )

    def _other_config(self, published: Published) -> SettingsDiffer | None:
        """Return how a version's own config makes another model than the first one's."""
        if published.format != "full" or published.settings == self._config:
            return None
        try:
            outline = outline_of(published.settings, getattr(torch, self.precision)).eval()
        except ValueError as error:
            raise GeneratorError(
                f"{published.folder}: its config.json needs to be a model's: {error}"
            ) from error
        expected, found = (settings_of(each) for each in (self._model().outline, outline))
        reason = _other_settings("files", expected, found)
        if reason is None:
            self._config = published.settings
        return reason

    def _model(self) -> ServedModel:
        if self._served is None:
            precision = getattr(torch, self.precision)
            self._served = served_model(read_outline(self.base.folder, precision), precision)
        return self._served

    def _digest(self) -> str:
        if not self._base_digest:
            self._base_digest = model_digest(self.base.folder)
        return self._base_digest


Stated = TypeVar("Stated", str, bytes)


def _nearest(
    states: Sequence[Mapping[str, Stated]], found: Mapping[str, Stated]
) -> dict[str, Stated]:
    """Return ``found`` as far as some state agrees with it, otherwise what the first one has."""
    nearest: dict[str, Stated] = {}
    for name in set[str]().union(*states):
        values = [state[name] for state in states if name in state]
        if found.get(name) in values:
            nearest[name] = found[name]
        elif name in found or len(values) == len(states):
            nearest[name] = values[0]
    return nearest


def _other_settings(
    where: Literal["engine", "files"], expected: Mapping[str, str], found: Mapping[str, str]
) -> SettingsDiffer | None:
    names = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    words = (
        f"{name} {found.get(name, 'missing')}, not {expected.get(name, 'there')}" for name in names
    )
    differ = SettingsDiffer(where=where, settings=tuple(islice(words, NAMES)), count=len(names))
    return differ if names else None


def _sums(rows: Mapping[str, bytes]) -> dict[str, Sums]:
    return {name: np.frombuffer(sums, np.int64) for name, sums in rows.items()}


def _places_left(found: Mapping[str, Sums], expected: Mapping[str, Sums]) -> dict[str, Sums]:
    """Return zeros for the places of an engine's adapters that the version has nothing for."""
    names = (name for name in found.keys() - expected.keys() if LORA in name)
    return {name: np.zeros_like(found[name]) for name in names}


def _differing(expected: Mapping[str, Sums], found: Mapping[str, Sums]) -> dict[str, int]:
    """Return how many rows of each tensor differ; further rows that are all zero are padding."""
    differ: dict[str, int] = {}
    for name in expected.keys() | found.keys():
        mine, its = expected.get(name), found.get(name)
        if mine is None or its is None or len(its) < len(mine):
            differ[name] = len(its if mine is None else mine) if its is not None else 1
            continue
        count = int((its[: len(mine)] != mine).sum()) + int(its[len(mine) :].any())
        if count:
            differ[name] = count
    return differ


def _merge_faults(
    scale: float,
    published: Published,
    base: Mapping[str, torch.Tensor],
    merged: Mapping[str, torch.Tensor],
) -> dict[str, int]:
    """Return in how many rows W + B A s is not that, by its product with a vector of signs.

    Rounding to float32 is allowed for; ``scale`` is the learner's own, 0 where it is not known.
    """
    faults: dict[str, int] = {}
    for change in published.changes() if published.format == "lora" else ():
        factor = scale or published.scale
        count = _faulty_rows(change, base[change.weight], merged[change.weight], factor)
        if not math.isclose(factor, published.scale):
            count = len(change.up)
        if count:
            faults[change.weight] = count
    return faults


def _faulty_rows(
    change: Change, weight_O_I: torch.Tensor, merged_O_I: torch.Tensor, scale: float
) -> int:
    down_r_I, up_O_r = change.down.double(), change.up.double()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=down_r_I.shape[1])
    signs_I, ones_I = torch.from_numpy(signs), torch.ones(down_r_I.shape[1], dtype=torch.float64)
    expected_O = weight_O_I.double() @ signs_I + scale * (up_O_r @ (down_r_I @ signs_I))
    sizes_O = up_O_r.abs() @ (down_r_I.abs() @ ones_I) * abs(scale)
    sizes_O += weight_O_I.double().abs() @ ones_I
    room_O = sizes_O * (len(down_r_I) + 4) * 2.0**-24
    difference_O = (merged_O_I.double() @ signs_I - expected_O).abs()
    return int((~(difference_O <= room_O)).sum())


def _wrong(
    cause: TensorFault,
    names: Sequence[str] = (),
    count: int = 0,
    rows: int = 0,
    *,
    precision: str,
) -> Compared:
    found = TensorsDiffer(
        tensors=tuple(sorted(names)[:NAMES]),
        rows_differ=count,
        rows=rows,
        precision=precision,
        cause=cause,
    )
    return Compared(rows=rows, changed=0.0, wrong=found)
