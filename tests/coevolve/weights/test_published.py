import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import save_file

from coevolve.models.weight_files import version_digest
from coevolve.weights.published import read_published
from protocols.errors import GeneratorError
from protocols.learning import PolicyVersion
from tests.commands import ROOT

AT_MOST = 1.2
"""Memory of reading a version, as a multiple of its size."""


def publish(run_dir: Path, *, rows: int) -> PolicyVersion:
    """Write a version with two tensors of ``rows`` rows of 1,000 numbers."""
    folder = run_dir / "versions" / "v_1"
    folder.mkdir(parents=True)
    tensors = {f"weight.{n}": torch.full((rows, 1000), float(n)) for n in range(2)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text("{}")
    return recorded(folder)


def recorded(folder: Path) -> PolicyVersion:
    """Return the record of the version that is in the folder now."""
    return PolicyVersion(
        version=1,
        path="versions/v_1",
        digest=version_digest(folder, "full"),
        format="full",
        size_bytes=(folder / "model.safetensors").stat().st_size,
        kept=False,
    )


def test_tensors_stay_as_their_digest_says_when_the_file_changes(tmp_path: Path) -> None:
    version = publish(tmp_path, rows=100)
    found = read_published(version, tmp_path)
    file = tmp_path / version.path / "model.safetensors"
    file.write_bytes(b"")
    assert found.digest == version.digest
    assert torch.equal(found.tensors["weight.1"], torch.ones(100, 1000))
    found.tensors["weight.1"].zero_()
    with pytest.raises(GeneratorError, match="is not as recorded: SHA-256"):
        read_published(version, tmp_path)
    file.unlink()
    with pytest.raises(GeneratorError, match="cannot read the weights of version 1"):
        read_published(version, tmp_path)


def test_a_file_that_holds_no_weights_is_refused(tmp_path: Path) -> None:
    version = publish(tmp_path, rows=1)
    folder = tmp_path / version.path
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(GeneratorError, match="cannot be read as weights"):
        read_published(recorded(folder), tmp_path)


MEASURED = """
import sys
from pathlib import Path
import msgspec
from coevolve.weights.published import read_published
from protocols.learning import PolicyVersion

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

version = msgspec.json.decode(sys.argv[2], type=PolicyVersion)
before = kilobytes("VmRSS")
found = read_published(version, Path(sys.argv[1]))
assert sum(float(each.sum()) for each in found.tensors.values()) > 0
print(kilobytes("VmHWM") - before)
"""


def test_reading_a_version_needs_its_size_once(tmp_path: Path) -> None:
    version = publish(tmp_path, rows=30_000)
    words = (sys.executable, "-c", MEASURED, str(tmp_path), msgspec.json.encode(version).decode())
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT)
    size = (tmp_path / version.path / "model.safetensors").stat().st_size
    assert size <= int(done.stdout) << 10 < AT_MOST * size


def adapter(run_dir: Path, **settings: object) -> PolicyVersion:
    """Write a version that is an adapter of rank 16."""
    folder = run_dir / "versions" / "v_1"
    folder.mkdir(parents=True)
    pair = {"lora_A": torch.ones(16, 2), "lora_B": torch.ones(2, 16)}
    tensors = {f"base_model.model.layer.{name}.weight": each for name, each in pair.items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    whole = {"r": 16, "lora_alpha": 32, "peft_type": "LORA"} | settings
    (folder / "adapter_config.json").write_text(json.dumps(whole))
    return PolicyVersion(
        version=1,
        path="versions/v_1",
        digest=version_digest(folder, "lora"),
        format="lora",
        size_bytes=1,
        kept=False,
    )


@pytest.mark.parametrize(("rooted", "scale"), [(False, 2.0), (True, 8.0)])
def test_an_adapter_is_scaled_by_its_rank_or_its_root(
    tmp_path: Path, rooted: bool, scale: float
) -> None:
    found = read_published(adapter(tmp_path, use_rslora=rooted), tmp_path)
    assert found.scale == scale
    merged = found.weights({"layer.weight": torch.zeros(2, 2)})
    assert torch.equal(merged["layer.weight"], torch.full((2, 2), 16 * scale))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("use_dora", True),
        ("bias", "all"),
        ("modules_to_save", ["lm_head"]),
        ("rank_pattern", {"q_proj": 4}),
        ("alpha_pattern", {"q_proj": 4}),
        ("fan_in_fan_out", True),
        ("peft_type", "IA3"),
        ("r", 0),
        ("lora_alpha", "32"),
    ],
)
def test_an_adapter_that_means_something_else_is_refused(
    tmp_path: Path, setting: str, value: object
) -> None:
    version = adapter(tmp_path, **{setting: value})
    with pytest.raises(GeneratorError, match=rf"{setting} needs to be .*, found"):
        read_published(version, tmp_path)
