"""Single faults in a policy version's files, a checkpoint and a run's config."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save_file

from coevolve.config.load import load_config
from coevolve.config.run_files import run_file
from coevolve.history.directory import RunDirectory
from coevolve.models.atomic_folder import folder_digest, folder_size, verify
from coevolve.models.weight_files import version_digest
from coevolve.weights.published import read_published
from protocols.learning import Checkpoint, PolicyVersion
from tests.faults import Verdict, in_a_child, refuses

KINDS = ("weights", "checkpoint", "config")
SIZE = 120_000
BLOCK_BYTES = 4096


class FaultyFiles:
    """A run's folder with a policy version, a checkpoint and a config."""

    def __init__(self, folder: Path) -> None:
        """Write the files into the new ``folder``."""
        self._folder = folder
        self._directory = RunDirectory(folder)
        for place in ("versions/0", "checkpoints/step_1"):
            (folder / place).mkdir(parents=True)
        self._directory.write_config(load_config(run_file("quickstart")))
        torch.manual_seed(0)
        tensors = {f"layer.{number}.weight": torch.randn(SIZE // 8) for number in range(8)}
        version, checkpoint = folder / "versions/0", folder / "checkpoints/step_1"
        save_file(tensors, version / "model.safetensors")
        (version / "config.json").write_bytes(msgspec.json.encode({"hidden_size": 8, "layers": 8}))
        torch.save(tensors, checkpoint / "trainer.pt")
        (checkpoint / "state.json").write_text('{"step": 1}')
        self._version = PolicyVersion(
            version=0,
            path="versions/0",
            format="full",
            digest=version_digest(version, "full"),
            size_bytes=(version / "model.safetensors").stat().st_size,
            kept=True,
        )
        self._checkpoint = Checkpoint(
            step=1,
            path="checkpoints/step_1",
            digest=folder_digest(checkpoint),
            size_bytes=folder_size(checkpoint),
        )
        self._read: dict[str, Callable[[], object]] = {
            "weights": self._weights,
            "checkpoint": self._verified,
            "config": self._directory.written_config,
        }
        self._right = {kind: read() for kind, read in self._read.items()}

    def tried(self, kind: str, chance: random.Random) -> Verdict:
        """Change one file, read the files in a child process, and put it back."""
        places = {"weights": "versions/0", "checkpoint": "checkpoints/step_1"}
        files = sorted((self._folder / places.get(kind, ".")).glob("*.*"))
        file = chance.choice([each for each in files if each.is_file()])
        whole = file.read_bytes()
        while (changed := _changed(whole, chance)) == whole:
            pass
        file.write_bytes(changed)
        outcome, said = in_a_child(lambda: refuses(self._read[kind], self._right[kind]))
        file.write_bytes(whole)
        return Verdict(kind, outcome, said)

    def _weights(self) -> list[list[float]]:
        published = read_published(self._version, self._folder)
        return [tensor.tolist() for _, tensor in sorted(published.tensors.items())]

    def _verified(self) -> list[bytes]:
        verify(self._folder, self._checkpoint)
        folder = self._folder / self._checkpoint.path
        return [path.read_bytes() for path in sorted(folder.iterdir())]


def _changed(content: bytes, chance: random.Random) -> bytes:
    """Return content with a changed bit, a zeroed or doubled block, or without its end."""
    at = chance.randrange(len(content))
    block = slice(at // BLOCK_BYTES * BLOCK_BYTES, (at // BLOCK_BYTES + 1) * BLOCK_BYTES)
    match chance.randrange(4):
        case 0:
            return (
                content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
            )
        case 1:
            zeroed = bytes(len(content[block]))
            return content[: block.start] + zeroed + content[block.stop :]
        case 2:
            return content[: block.start] + content[:BLOCK_BYTES] + content[block.stop :]
        case _:
            return content[:at]
