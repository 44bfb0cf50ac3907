"""A model's state besides the tensors of its files: settings as text, and tables.

Settings are all attributes of a model's modules: numbers such as the attention scale or a soft cap
of logits, switches, functions, and the modules' classes; and the fields of its config. Tables are
tensors that are in no file, because they are computed from the config.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, cast

import torch

from coevolve.models.weight_files import PLACES
from coevolve.weights.row_sums import row_sums

_ELSEWHERE = frozenset({*PLACES, "architectures", "dtype", "name_or_path", "warnings_issued"})
"""Names without effect on sampling, and the precision, which is compared separately."""


def settings_of(model: torch.nn.Module, prefix: str = "") -> dict[str, str]:
    """Return the settings of ``model``, by module and name; ``prefix`` is the model's own name."""
    found = {} if prefix else config_settings(model)
    for name, module in modules_of(model, prefix):
        found |= module_settings(name, module)
    return found


def modules_of(model: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the modules of ``model`` under all of their names."""
    yield from cast("Any", model).named_modules(prefix=prefix, remove_duplicate=False)


def config_settings(model: torch.nn.Module) -> dict[str, str]:
    return _prefix_names("config", _describe(cast("Any", model).config.to_dict(), _ELSEWHERE))


def module_settings(
    name: str, module: torch.nn.Module, leaving_out: Collection[str] = ()
) -> dict[str, str]:
    """Return one module's settings and its class; all names begin with ``name``."""
    stated = _describe(vars(module), _ELSEWHERE.union(leaving_out))
    return {f"{name}:": type(module).__qualname__} | _prefix_names(name, stated)


def tables_of(model: torch.nn.Module, prefix: str = "") -> dict[str, bytes]:
    """Return the row sums of tables, by module and name."""
    return {name: row_sums(table).tobytes() for name, table in _tables(model, prefix)}


def published_buffers(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers that are stored in files."""
    names, buffers = model.state_dict().keys(), model.named_buffers(remove_duplicate=False)
    return {name: each for name, each in buffers if name in names}


def _tables(model: torch.nn.Module, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    published = model.state_dict(prefix=f"{prefix}." if prefix else "").keys()
    for name, module in modules_of(model, prefix):
        buffers = module.named_buffers(recurse=False, remove_duplicate=False)
        # Transformers stores some tables as plain attributes.
        values: Iterable[tuple[str, Any]] = (*buffers, *vars(module).items())
        for each, value in values:
            path = f"{name}.{each}" if name else each
            if isinstance(value, torch.Tensor) and value.dim() and path not in published:
                yield path, value


def _prefix_names(owner: str, settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {f"{owner}.{name}" if owner else name: text for name, text in settings}


def _describe(
    values: Mapping[str, Any], leaving_out: Collection[str], depth: int = 1
) -> Iterator[tuple[str, str]]:
    """Yield the values that have a text form; for other objects, their attributes."""
    for name, value in values.items():
        if name.startswith("_") or name in leaving_out:
            continue
        text = _text(value)
        if text is not None:
            yield name, text
        elif depth and not name.endswith("config"):
            held: Mapping[str, Any] = getattr(value, "__dict__", {})
            yield from _prefix_names(name, _describe(held, leaving_out, depth - 1)).items()


def _text(value: Any) -> str | None:
    """Return a value as text; None for an object or a tensor with dimensions."""
    match value:
        case None | bool() | int() | float() | str() | torch.dtype() | Enum():
            return repr(value)
        case torch.Tensor() if not value.dim():
            return repr(value.item())
        case list() | tuple() | set() | frozenset():
            return _join(_text(each) for each in cast("Iterable[Any]", value))
        case dict():
            pairs = sorted(cast("dict[Any, Any]", value).items(), key=str)
            return _join(_text(each) for pair in pairs for each in pair)
        case _:
            return _callable(value)


def _callable(value: Any) -> str | None:
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name is not None else None


def _join(texts: Iterable[str | None]) -> str | None:
    found = list(texts)
    stated = [each for each in found if each is not None]
    return f"[{', '.join(stated)}]" if len(stated) == len(found) else None
