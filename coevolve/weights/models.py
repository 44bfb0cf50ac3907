"""The parameters of the run's initial model."""

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
    """A model's parameters, by transformers' names."""

    parameters: Mapping[str, torch.Tensor]
    """Parameters by name, plus the buffers that are stored in files. Of several names for one
    tensor, only the first. Without values if only shapes are needed."""

    aliases: Mapping[str, str]
    """Further name -> parameter name, for example of an output layer tied to the embedding."""


class Base:
    """The run's initial model in float32, read on first use."""

    def __init__(self, folder: Path) -> None:
        """Use the model in ``folder``."""
        self.folder = folder
        self._shapes: Model | None = None
        self._values: Model | None = None

    def for_format(self, format: WeightsFormat) -> Model:
        """Return the model for weights of ``format``: with values for LoRA, else only shapes."""
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
    """A model as transformers serves it in some precision."""

    outline: torch.nn.Module
    """A newly created model without weights."""

    exact: Collection[str]
    """Names of parameters that stay in float32."""


def served_model(outline: torch.nn.Module, dtype: torch.dtype) -> ServedModel:
    """Return the model of ``outline`` as it samples in ``dtype``."""
    names = "|".join(map(re.escape, cast("Any", outline)._get_dtype_plan(dtype)))
    exact = re.compile(rf"(^|\.)({names})(\.|$)") if names else None
    return ServedModel(
        outline=outline.eval(),
        exact={name for name in outline.state_dict() if exact and exact.search(name)},
    )
