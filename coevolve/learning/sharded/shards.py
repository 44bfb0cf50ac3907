"""Files of which each rank writes and reads its own part (`torch.distributed.checkpoint`).

Any number of ranks can read what another number wrote: every tensor's file says which part of the
tensor it is. Ranks on several machines need a folder that all of them see.

Tensors are read into the memory of given ones, so the optimizer and the model keep theirs.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateImportUsage=false

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from coevolve.learning.sharded.ranks import Ranks
from protocols.errors import CheckpointError

# One process has no group, and needs none.
warnings.filterwarnings("ignore", message="torch.distributed is disabled")

INDEX_FILE = ".metadata"
"""File that says where the parts of every tensor are; it is pickled, so its digest is to be checked
before it is read."""


def write_shards(tensors: Mapping[str, torch.Tensor], folder: Path, ranks: Ranks) -> None:
    """Write this rank's parts of ``tensors`` into ``folder``. Raises OSError if any rank fails."""
    writer = FileSystemWriter(folder)
    try:
        save(dict(tensors), storage_writer=writer, no_dist=ranks.count == 1)
    except CheckpointException as error:
        raise OSError(_reasons(error)) from error


def read_shards(tensors: Mapping[str, torch.Tensor], folder: Path, ranks: Ranks) -> None:
    """Set this rank's parts of ``tensors`` from what `write_shards` wrote.

    Raises CheckpointError if one is missing, or a file is.
    """
    _read(tensors, FileSystemReader(folder), ranks)


def read_safetensors(tensors: Mapping[str, torch.Tensor], folder: Path, ranks: Ranks) -> None:
    """Set this rank's parts of ``tensors`` from the safetensors files of ``folder``.

    Raises CheckpointError if one is missing.
    """
    _read(tensors, HuggingFaceStorageReader(str(folder)), ranks)


def names_of(folder: Path) -> Collection[str]:
    """Return the names of all tensors that `write_shards` wrote. Raises CheckpointError."""
    try:
        return FileSystemReader(folder).read_metadata().state_dict_metadata.keys()
    except OSError as error:
        raise CheckpointError(
            f"{folder}: holds no checkpoint that this version of coevolve can read: {error}; "
            "remove the folder, and the run continues from an earlier one"
        ) from error


def _read(tensors: Mapping[str, torch.Tensor], reader: FileSystemReader, ranks: Ranks) -> None:
    try:
        load(dict(tensors), storage_reader=reader, no_dist=ranks.count == 1)
    except CheckpointException as error:
        raise CheckpointError(
            f"{reader.path}: cannot be read: {_reasons(error)}; restore that folder"
        ) from error


def _reasons(error: CheckpointException) -> str:
    failures = cast("dict[int, tuple[BaseException, Any]]", error.failures)
    return "; ".join(f"rank {rank}: {reason}" for rank, (reason, _) in failures.items())
