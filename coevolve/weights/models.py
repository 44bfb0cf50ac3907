"""The parameters of the model that a run starts from."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from coevolve.models.load import read_model, read_outline
from coevolve.weights.settings import published_buffers
from protocols.learning import WeightsFormat


@dataclass(frozen=True, kw_only=True)
class Model:
    """What transformers calls a model's parameters."""

    parameters: Mapping[str, torch.Tensor]
    """By name, with the buffers that files hold beside them; of those that share a tensor the
    first. Without values where only shapes matter."""

    aliases: Mapping[str, str]
    """Further names of parameters: of an output that is tied to the embedding, for one."""


class Base:
    """The model that a run starts from, in float32, read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        """Name the model's folder."""
        self.folder = folder
        self._shapes: Model | None = None
        self._values: Model | None = None

    def for_format(self, format: WeightsFormat) -> Model:
        """Return what weights of ``format`` need: an adapter the values, full weights shapes."""
        if format == "lora":
            self._values = self._values or read_parameters(self.folder, with_values=True)
            return self._values
        self._shapes = self._shapes or read_parameters(self.folder, with_values=False)
        return self._shapes


def read_parameters(folder: Path, *, with_values: bool) -> Model:
    """Return the parameters of the model in ``folder``, in float32."""
    model = read_model(folder) if with_values else read_outline(folder)
    parameters = dict(model.named_parameters()) | published_buffers(model)
    names = {id(tensor): name for name, tensor in parameters.items()}
    aliases = {
        alias: names[id(tensor)]
        for alias, tensor in model.named_parameters(remove_duplicate=False)
        if alias not in parameters
    }
    return Model(parameters=parameters, aliases=aliases)


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """How transformers serves a model in some precision."""

    outline: torch.nn.Module
    """Freshly made, without weights."""

    exact: Collection[str]
    """Names of parameters that stay in float32."""


def served_model(outline: torch.nn.Module, dtype: torch.dtype) -> ServedModel:
    """Return how the model of ``outline`` samples in ``dtype``."""
    names = "|".join(map(re.escape, cast("Any", outline)._get_dtype_plan(dtype)))
    exact = re.compile(rf"(^|\.)({names})(\.|$)") if names else None
    return ServedModel(
        outline=outline.eval(),
        exact={name for name in outline.state_dict() if exact and exact.search(name)},
    )
