from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from coevolve.models.weight_files import version_digest
from coevolve.weights.published import read_published
from protocols.errors import GeneratorError
from protocols.learning import PolicyVersion, Probe

MEGABYTES = 64


def published(place: Path) -> PolicyVersion:
    """Write a version of all weights, with a model's config that names nothing."""
    folder = place / "versions" / "1"
    folder.mkdir(parents=True)
    weights = {f"w{n}": torch.full((1024, 1024), float(n)) for n in range(MEGABYTES // 4)}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return PolicyVersion(
        version=1,
        path="versions/1",
        format="full",
        digest=version_digest(folder, "full"),
        size_bytes=MEGABYTES << 20,
        kept=False,
        probe=Probe(token_ids=b"", logprobs=b""),
    )


def anonymous_mb() -> float:
    """Return the memory of this process that is no mapped file."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def test_a_version_needs_no_memory_beside_its_file(tmp_path: Path):
    version = published(tmp_path)
    before = anonymous_mb()
    found = read_published(version, tmp_path)
    sums = [float(tensor.sum()) for tensor in found.tensors.values()]
    assert sorted(sums) == [n * 2.0**20 for n in range(MEGABYTES // 4)]
    assert anonymous_mb() - before < 0.2 * MEGABYTES


def test_tensors_stay_when_their_folder_is_removed(tmp_path: Path):
    version = published(tmp_path)
    found = read_published(version, tmp_path)
    (tmp_path / version.path / "model.safetensors").unlink()
    assert float(found.tensors["w3"].mean()) == 3.0


def test_a_file_that_differs_in_one_bit_or_is_gone_is_refused(tmp_path: Path):
    version = published(tmp_path)
    path = tmp_path / version.path / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(GeneratorError, match="is not as recorded"):
        read_published(version, tmp_path)
    path.unlink()
    with pytest.raises(GeneratorError, match="cannot read the weights"):
        read_published(version, tmp_path)
