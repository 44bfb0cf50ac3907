"""Compares an engine's tensors and settings with the published files.

The engine reports checksums of its sampling tensors (`coevolve.weights.row_sums`). This module
reads and converts the version's files independently, and expects the same checksums. Tables that
are in no file, such as those of positions, are computed from the model's config, and so are the
settings that are not tensors (`coevolve.weights.settings`). An engine with its own layout, vLLM,
recomputes both for the comparison. A merged adapter is also checked by a second formula, because
engine and comparison merge it by the same one.

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
"""Maximum number of tensors that an alarm names."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Result of a comparison."""

    rows: int
    """Number of compared rows."""

    changed: float
    """Share of rows that differ from the version before, 0..1; 1 for the first version."""

    wrong: TensorsDiffer | SettingsDiffer | OldVersionServed | None = None


@dataclass
class TensorComparison:
    """Compares the tensors of one engine, version after version."""

    base: Base
    """The run's initial model."""

    precision: str
    """Precision that the engine must serve: ``float32``, ``bfloat16`` or ``float16``."""

    _base_sums: dict[str, Sums] = field(default_factory=dict[str, Sums])
    _base_digest: str = ""
    _served: ServedModel | None = None
    _config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Config of the version before, if it published one."""

    _before: Mapping[str, Sums] = field(default_factory=dict[str, Sums])
    _before_version: int = -1

    def compare(
        self, version: PolicyVersion, published: Published, served: ServedWeights
    ) -> Compared:
        """Compare the ``served`` weights with ``published``, the files of ``version``.

        Raises GeneratorError if the files do not fit the model.
        """
        if served.precision != self.precision:
            return _mismatch("precision", precision=served.precision)
        if version.base and version.base != self._digest():
            return _mismatch("base", [str(self.base.folder)], precision=self.precision)
        model = self.base.for_format(published.format)
        weights = published.weights(model.parameters)
        faults = _merge_faults(version.scale, published, model.parameters, weights)
        if faults:
            return _mismatch("merged", list(faults), sum(faults.values()), precision=self.precision)
        computed = self._expected_state(served)
        reason = self._config_mismatch(published) or _settings_mismatch(
            "engine", computed.settings, served.settings
        )
        found = _sums(served.rows)
        if reason is not None:
            return Compared(rows=sum(map(len, found.values())), changed=0.0, wrong=reason)
        expected = self._expected_sums(published, weights, served)
        constant = _sums(computed.rows) | _empty_adapter_slots(found, expected)
        compared = self._compare_sums(expected, constant, found, model.aliases)
        if compared.wrong is None:
            self._before, self._before_version = expected, version.version
        return compared

    def _compare_sums(
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

        differ = _count_differing_rows(with_all(expected), found)
        rows = sum(map(len, found.values()))
        changed = (
            sum(_count_differing_rows(expected, self._before).values()) if self._before else rows
        )
        share = min(1.0, changed / max(1, sum(map(len, expected.values()))))
        if not differ:
            return Compared(rows=rows, changed=share)
        if self._before and not _count_differing_rows(with_all(self._before), found):
            old = OldVersionServed(served=self._before_version, evidence="tensors")
            return Compared(rows=rows, changed=share, wrong=old)
        return _mismatch(
            "served", list(differ), sum(differ.values()), rows, precision=self.precision
        )

    def _expected_sums(
        self, published: Published, weights: Mapping[str, torch.Tensor], served: ServedWeights
    ) -> dict[str, Sums]:
        """Return the sums expected from the files, by name, in the served form."""
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

    def _expected_state(self, served: ServedWeights) -> Computed:
        """Return the expected tables and settings, of the valid state closest to ``served``."""
        if served.anew is not None:
            return served.anew
        states = computed_states(self._model().outline, served.settings)
        return Computed(
            rows=_nearest([state.rows for state in states], served.rows),
            settings=_nearest([state.settings for state in states], served.settings),
        )

    def _config_mismatch(self, published: Published) -> SettingsDiffer | None:
        """Return how a version's config differs from the initial model's; None if it does not."""
        if published.format != "full" or published.settings == self._config:
            return None
        try:
            outline = outline_of(published.settings, getattr(torch, self.precision)).eval()
        except ValueError as error:
            raise GeneratorError(
                f"{published.folder}: its config.json needs to be a model's: {error}"
            ) from error
        expected, found = (settings_of(each) for each in (self._model().outline, outline))
        reason = _settings_mismatch("files", expected, found)
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
    """Return, by name, the found value if any state has it; otherwise the first state's value."""
    nearest: dict[str, Stated] = {}
    for name in set[str]().union(*states):
        values = [state[name] for state in states if name in state]
        if found.get(name) in values:
            nearest[name] = found[name]
        elif name in found or len(values) == len(states):
            nearest[name] = values[0]
    return nearest


def _settings_mismatch(
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


def _empty_adapter_slots(
    found: Mapping[str, Sums], expected: Mapping[str, Sums]
) -> dict[str, Sums]:
    """Return zeros for the engine's adapter slots that the version has no tensors for."""
    names = (name for name in found.keys() - expected.keys() if LORA in name)
    return {name: np.zeros_like(found[name]) for name in names}


def _count_differing_rows(
    expected: Mapping[str, Sums], found: Mapping[str, Sums]
) -> dict[str, int]:
    """Return how many rows of each tensor differ; extra rows of zeros count as padding."""
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
    """Return, by weight, in how many rows the merged weight is not W + B A s.

    The check multiplies both sides with a vector of signs and allows for rounding to float32.
    ``scale`` is the learner's own, or 0 if unknown.
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


def _mismatch(
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
