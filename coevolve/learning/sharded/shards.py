"""Files of which each rank writes and reads its own part (`torch.distributed.checkpoint`).

Any number of ranks can read what another number wrote: every tensor's file says which part of the
tensor it is. Ranks on several machines need a folder that all of them see.

Tensors are read into the memory of given ones, so the optimizer and the model keep theirs.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateImportUsage=false, reportPrivateUsage=false

import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult

from coevolve.base.durable_files import sync
from coevolve.base.foreign import boundary, open_plain, shown
from coevolve.learning.sharded.ranks import Ranks
from protocols.errors import CheckpointError

# One process has no group, and needs none.
warnings.filterwarnings("ignore", message="torch.distributed is disabled")

INDEX_FILE = "index.json"
"""File that says where the parts of every tensor are. torch pickles its own; this one is data."""

DTYPES = {
    str(each).removeprefix("torch."): each
    for each in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64)
}
"""What a tensor may hold, by its name in the index."""

Lengths = tuple[Annotated[int, msgspec.Meta(ge=0)], ...]

PART_FILE = re.compile(r"__\d{1,6}_\d{1,6}\.distcp")
"""Names of the files with the parts, in the folder itself."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a tensor, and where its bytes are."""

    offsets: Lengths
    sizes: Lengths
    file: str
    start: int
    length: int


class _Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The type of a tensor, its whole size, and its parts."""

    dtype: str
    size: Lengths
    parts: tuple[_Part, ...]


def write_shards(tensors: Mapping[str, torch.Tensor], folder: Path, ranks: Ranks) -> None:
    """Write this rank's parts of ``tensors`` into ``folder``. Raises OSError if any rank fails."""
    writer = _Writer(folder)
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


class _Writer(FileSystemWriter):
    """Writes shards with an index that is data."""

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, from what each rank wrote. Raises OSError."""
        stored = {each.index: each.storage_data for one in results for each in one}
        tensors = {
            name: _written(name, cast("TensorStorageMetadata", kept), stored)
            for name, kept in metadata.state_dict_metadata.items()
        }
        path = Path(cast("Path", self.path), INDEX_FILE)
        path.write_bytes(msgspec.json.encode(tensors))
        sync(path)


def _written(name: str, kept: TensorStorageMetadata, stored: Mapping[Any, Any]) -> _Tensor:
    places = [stored[MetadataIndex(name, chunk.offsets)] for chunk in kept.chunks]
    return _Tensor(
        dtype=str(kept.properties.dtype).removeprefix("torch."),
        size=tuple(kept.size),
        parts=tuple(
            _Part(
                offsets=tuple(chunk.offsets),
                sizes=tuple(chunk.sizes),
                file=place.relative_path,
                start=place.offset,
                length=place.length,
            )
            for chunk, place in zip(kept.chunks, places, strict=True)
        ),
    )


class _Reader(FileSystemReader):
    """Reads shards, and trusts neither their index nor the folder."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the index. Raises ValueError or OSError for one that is not as written."""
        del args, kwargs
        folder = Path(cast("Path", self.path))
        with open_plain(folder / INDEX_FILE) as file:
            tensors = msgspec.json.decode(file.read(), type=dict[str, _Tensor])
        for part in {part.file for each in tensors.values() for part in each.parts}:
            if not PART_FILE.fullmatch(part) or (folder / part).is_symlink():
                raise ValueError(
                    f"{INDEX_FILE} names {shown(part)}, which is no file with parts of tensors"
                )
        return Metadata(
            state_dict_metadata={name: _kept(each) for name, each in tensors.items()},
            storage_data={
                MetadataIndex(name, part.offsets): _StorageInfo(part.file, part.start, part.length)
                for name, each in tensors.items()
                for part in each.parts
            },
            storage_meta=StorageMeta(load_id=self.load_id),
        )


def _kept(tensor: _Tensor) -> TensorStorageMetadata:
    """Raises ValueError for a type that no tensor of a learner has."""
    if tensor.dtype not in DTYPES:
        raise ValueError(f"{INDEX_FILE} names the type {shown(tensor.dtype)} of a tensor")
    return TensorStorageMetadata(
        properties=TensorProperties(dtype=DTYPES[tensor.dtype]),
        size=torch.Size(tensor.size),
        chunks=[
            ChunkStorageMetadata(offsets=torch.Size(part.offsets), sizes=torch.Size(part.sizes))
            for part in tensor.parts
        ],
    )


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
