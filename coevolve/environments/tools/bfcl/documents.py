"""Reads the data files of the package ``bfcl-eval``, and the documentation of its tools."""

from typing import TypeVar

import msgspec

from coevolve.environments.tools.bfcl.stock import DOCUMENTS, package_folder
from coevolve.environments.tools.toolset import ToolDocument

T = TypeVar("T")


def read_documents(class_name: str) -> tuple[ToolDocument, ...]:
    """Return the documentation of every tool of a simulator class, in the benchmark's order."""
    return tuple(lines_of(f"multi_turn_func_doc/{DOCUMENTS[class_name]}", ToolDocument))


def lines_of(name: str, kind: type[T]) -> list[T]:
    """Return the lines of a data file of the package ``bfcl-eval``. Raises DependencyError."""
    content = (package_folder() / "data" / name).read_bytes()
    return msgspec.json.Decoder(kind).decode_lines(content)
