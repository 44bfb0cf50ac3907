"""Files of which each rank writes and reads its own part (`torch.distributed.checkpoint`).

Any number of ranks can read what another number wrote: every tensor's file says which part of the
tensor it is. Ranks on several machines need a folder that all of them see.

Tensors are read into the memory of given ones, so the optimizer and the model keep theirs.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateImportUsage=false

import pickle
import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from coevolve.foreign import boundary, open_plain, shown
from coevolve.learning.sharded.ranks import Ranks
from protocols.errors import CheckpointError

# One process has no group, and needs none.
warnings.filterwarnings("ignore", message="torch.distributed is disabled")

INDEX_FILE = ".metadata"
"""File that says where the parts of every tensor are. It is pickled; `_Reader` lets it name no
types but `INDEX_TYPES`."""

_METADATA = "torch.distributed.checkpoint.metadata"

INDEX_TYPES = {
    (_METADATA, "Metadata"),
    (_METADATA, "TensorStorageMetadata"),
    (_METADATA, "TensorProperties"),
    (_METADATA, "_MEM_FORMAT_ENCODING"),
    (_METADATA, "ChunkStorageMetadata"),
    (_METADATA, "MetadataIndex"),
    (_METADATA, "StorageMeta"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("torch", "float32"),
    ("torch", "float16"),
    ("torch", "bfloat16"),
    ("torch", "float64"),
    ("torch", "int64"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
}
"""What an index may name: module and name. Objects other than tensors are not among them, because
torch unpickles those without limits."""

PART_FILE = re.compile(r"__\d{1,6}_\d{1,6}\.distcp")
"""Names of the files with the parts, in the folder itself."""


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
    _read(tensors, _Reader(folder), ranks)


def read_safetensors(tensors: Mapping[str, torch.Tensor], folder: Path, ranks: Ranks) -> None:
    """Set this rank's parts of ``tensors`` from the safetensors files of ``folder``.

    Raises CheckpointError if one is missing.
    """
    _read(tensors, HuggingFaceStorageReader(str(folder)), ranks)


def names_of(folder: Path) -> Collection[str]:
    """Return the names of all tensors that `write_shards` wrote. Raises CheckpointError."""
    remedy = "; remove the folder, and the run continues from an earlier one"
    what = f"{folder}: holds no checkpoint that this version of coevolve can read"
    with boundary(CheckpointError, what, remedy):
        return _Reader(folder).read_metadata().state_dict_metadata.keys()


class _Reader(FileSystemReader):
    """Reads shards, and trusts neither their index nor the folder."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the index. Raises UnpicklingError or OSError for one that is not as written."""
        del args, kwargs
        folder = Path(cast("Path", self.path))
        with open_plain(folder / INDEX_FILE) as file:
            found: Any = _IndexUnpickler(file).load()
        if not isinstance(found, Metadata):
            raise pickle.UnpicklingError(f"{INDEX_FILE} holds no index of tensors")
        for part in {each.relative_path for each in found.storage_data.values()}:
            if not PART_FILE.fullmatch(part) or (folder / part).is_symlink():
                raise pickle.UnpicklingError(
                    f"{INDEX_FILE} names {shown(part)}, which is no file with parts of tensors"
                )
        found.storage_meta = StorageMeta(load_id=self.load_id)
        return found


class _IndexUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) in INDEX_TYPES:
            return super().find_class(module_name, global_name)
        named = shown(f"{module_name}.{global_name}")
        raise pickle.UnpicklingError(f"{INDEX_FILE} names {named}, which an index does not need")


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
