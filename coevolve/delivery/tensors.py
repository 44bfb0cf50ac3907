"""Compares an engine's tensors with what the published files give.

The engine states checksums of what it samples with (`coevolve.weights.row_sums`); this reads the
version's files by itself, converts them by itself, and expects the very same. Tables that no file
holds, such as those of positions, are computed from the model's config. Those of vLLM, which lays
them out in its own way, have to stay what they were when it compared itself with transformers. A
merged adapter is checked by another formula as well, since engine and comparison merge it by the
same one.

Letters: O outputs, I inputs, r rank.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import torch

from coevolve.models.weight_files import model_digest
from coevolve.weights.models import Base, ServedModel, read_served_model
from coevolve.weights.published import Change, Published
from coevolve.weights.row_sums import Sums, row_sums
from protocols.learning import OldVersionServed, PolicyVersion, Served, TensorFault, TensorsDiffer

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

    wrong: TensorsDiffer | OldVersionServed | None = None


@dataclass
class TensorComparison:
    """Of one engine, version after version."""

    base: Base
    """The model that the run starts from."""

    precision: str
    """That the engine has to serve: ``float32``, ``bfloat16`` or ``float16``."""

    own_layout: bool = False
    """Whether the engine lays a model out in its own way, with tensors that no file holds."""

    _base_sums: dict[str, Sums] = field(default_factory=dict[str, Sums])
    _base_digest: str = ""
    _served: ServedModel | None = None
    _constant: dict[str, Sums] | None = None
    """Of what no file publishes."""

    _before: Mapping[str, Sums] = field(default_factory=dict[str, Sums])
    _before_version: int = -1

    def compare(self, version: PolicyVersion, published: Published, served: Served) -> Compared:
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
        found = {name: np.frombuffer(sums, np.int64) for name, sums in served.rows.items()}
        expected = self._expected(published, weights, served)
        constant = self._constant
        if constant is None:
            published_names = expected.keys() | model.aliases.keys()
            constant = self._unpublished(found, published_names)
        compared = self._against(expected, constant, found, model.aliases)
        if compared.wrong is None:
            self._before, self._before_version = expected, version.version
            self._constant = constant
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
        self, published: Published, weights: Mapping[str, torch.Tensor], served: Served
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

    def _unpublished(self, found: Mapping[str, Sums], published: Set[str]) -> dict[str, Sums]:
        """Return the sums that are expected of what no file holds."""
        if not self.own_layout:
            return {name: row_sums(table) for name, table in self._model().tables.items()}
        constant = {name: found[name] for name in found.keys() - published}
        # Where an engine has room for an adapter that the version has none for.
        return constant | {name: np.zeros_like(constant[name]) for name in constant if LORA in name}

    def _model(self) -> ServedModel:
        if self._served is None:
            precision = getattr(torch, self.precision)
            self._served = read_served_model(self.base.folder, precision)
        return self._served

    def _digest(self) -> str:
        if not self._base_digest:
            self._base_digest = model_digest(self.base.folder)
        return self._base_digest


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
