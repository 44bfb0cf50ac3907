"""Compares the estimated with the measured memory of a learner's and of an engine's process.

`python -m tests.memory_peaks MODEL full` does so for a model on disk; ``lora`` trains an adapter.
"""

import asyncio
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from coevolve.engine.generator import TransformersGenerator
from coevolve.estimate.estimate import estimate
from coevolve.parts.status import peak_bytes
from protocols.config import RunConfig
from protocols.learning import PolicyVersion, WeightsFormat
from tests.coevolve.learning.learners import learner
from tests.delivering import STEPS, settings
from tests.learning import MemoryJournal, add_groups

VERSIONS = "versions.pickle"


def learn(config: RunConfig, folder: Path) -> None:
    """Take the steps of a run, and keep the records of its versions."""
    journal = MemoryJournal()
    add_groups(journal, range(2 * STEPS))
    asyncio.run(learner(config, folder, journal).run())
    (folder / VERSIONS).write_bytes(pickle.dumps(list(journal.all(PolicyVersion))))


async def serve(config: RunConfig, folder: Path) -> None:
    """Load every version into an engine."""
    engine = TransformersGenerator(
        Path(config.policy.model),
        folder,
        max_concurrent=config.conversations,
        max_length=config.rollout.max_tokens,
    )
    for version in pickle.loads((folder / VERSIONS).read_bytes()):
        await engine.load(version)
    await engine.close()


def peaks(model: Path, train: WeightsFormat, folder: Path) -> dict[str, tuple[int, int]]:
    """Return kind of part -> estimated and measured peak bytes, each in a process of its own."""
    known = estimate(settings(model, train)).processes
    found: dict[str, tuple[int, int]] = {}
    for part in ("learner", "engine"):
        words = [sys.executable, "-m", "tests.memory_peaks", str(model), train, part, str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        expected = known[part]
        assert expected is not None
        found[part] = expected, int(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure one part, or compare both."""
    model, train = Path(sys.argv[1]), "full" if sys.argv[2] == "full" else "lora"
    if len(sys.argv) == 3:
        with tempfile.TemporaryDirectory() as folder:
            for part, (expected, found) in peaks(model, train, Path(folder)).items():
                share = expected / found - 1
                sys.stdout.write(
                    f"{part}: estimate {expected / 1e9:.2f} GB, measured {found / 1e9:.2f} GB, "
                    f"error {share:+.0%}\n"
                )
        return
    config, folder = settings(model, train), Path(sys.argv[4])
    if sys.argv[3] == "learner":
        learn(config, folder)
    else:
        asyncio.run(serve(config, folder))
    sys.stdout.write(f"\n{peak_bytes()}\n")


if __name__ == "__main__":
    main()
