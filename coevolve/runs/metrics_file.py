"""`metrics.jsonl`: one JSON object per step and per score, in journal order.

The file is a fold of the journal like `coevolve.runs.progress.Progress`, which counts its lines. A
run that resumes from a snapshot keeps as many lines as the snapshot counts, and writes the others
again.
"""

import contextlib
import json
from collections.abc import Generator, Mapping
from pathlib import Path

from coevolve.runs.instance_gap import Side, instance_gaps
from coevolve.runs.progress import Progress
from coevolve.runs.score import Score
from protocols.errors import RunError
from protocols.journal import Message
from protocols.learning import CanaryScores, Evaluation, StepReport

BLOCK_BYTES = 1 << 20

GAPS: Mapping[Side, tuple[str, str]] = {
    "held_out": ("val/instance_gap/held_out/mean", "val/instance_gap/held_out/std_error"),
    "trained": ("val/instance_gap/trained/mean", "val/instance_gap/trained/std_error"),
}
"""Side -> names of its instance gap and of the gap's standard error."""


class MetricsFile:
    """The file, open for writing."""

    def __init__(self, path: Path, lines: int = 0) -> None:
        """Open the file after its first ``lines`` lines; see `kept_bytes`. Raises RunError."""
        self._path = path
        with self._explained():
            self._file = path.open("a", encoding="utf-8", buffering=1)
            self._file.truncate(kept_bytes(path, lines) or 0)

    def write(self, message: Message, progress: Progress) -> None:
        """Write the line for a message that ``progress`` has folded; some kinds have none."""
        if (line := line_of(message, progress)) is not None:
            with self._explained():
                self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self._path}: cannot be written: {error}; free disk space, then continue the run "
                f"with `coevolve resume {self._path.parent}`"
            ) from error


def line_of(message: Message, progress: Progress) -> dict[str, float] | None:
    """Return the line for a message that ``progress`` has folded; None if its kind has none.

    ``step`` in it is that of the learner, or the policy version that was scored.
    """
    if not progress.has_line(message):
        return None
    match message:
        case StepReport():
            return {"step": message.step, **message.metrics, **progress.evolution}
        case Evaluation(version=version):
            line = {"step": version, "timing_s/testing": message.wall_s}
            for measure, means in progress.tables.items():
                shares = means.get(version, {})
                line |= {f"val/{measure}/{label}": x.mean for label, x in shares.items()}
                errors = {label: x.std_error for label, x in shares.items()}
                line |= {f"val/{measure}_std_error/{label}": x for label, x in errors.items()}
            for side, gap in instance_gaps(message).items():
                line |= dict(zip(GAPS[side], (gap.mean, gap.std_error), strict=True))
            return line
        case CanaryScores(version=version):
            return {"step": version, **_canaries(progress.canaries[version])}
        case _:
            return None


def _canaries(score: Score) -> dict[str, float]:
    return {"guard/canaries": score.mean, "guard/canaries_std_error": score.std_error}


def kept_bytes(path: Path, lines: int) -> int | None:
    """Return the size of the file's first lines; None if it does not have so many."""
    if not lines:
        return 0
    size_bytes = 0
    with contextlib.suppress(OSError), path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            ends = block.count(b"\n")
            if ends >= lines:
                return size_bytes + _end_of(block, lines)
            lines -= ends
            size_bytes += len(block)
    return None


def _end_of(block: bytes, lines: int) -> int:
    """Return where the first lines of a block end; it has at least so many."""
    end = 0
    for _ in range(lines):
        end = block.index(b"\n", end) + 1
    return end
