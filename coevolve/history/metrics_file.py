"""`metrics.jsonl`: one JSON object per step and per score, in journal order.

The file is a fold of the journal like `coevolve.history.progress.Progress`, which counts its lines.
A run that resumes from a snapshot keeps as many lines as the snapshot counts, and writes the others
again. Without a usable snapshot it keeps the lines before those of the first step that the journal
still has (`first_left`).
"""

import asyncio
import contextlib
import json
from collections.abc import Generator, Mapping
from pathlib import Path

from coevolve.base.durable_files import no_link
from coevolve.history.instance_gap import SIDES, InstanceGap, Side, instance_gaps, memorized
from coevolve.history.progress import Progress
from coevolve.history.score import Score
from coevolve.journal.codec import decode_as, topic_of
from protocols.errors import RunError
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import CanaryScores, Evaluation, StepReport

BLOCK_BYTES = 1 << 20

GAPS: Mapping[Side, tuple[str, str]] = {
    "held_out": ("val/instance_gap/held_out/mean", "val/instance_gap/held_out/std_error"),
    "trained": ("val/instance_gap/trained/mean", "val/instance_gap/trained/std_error"),
}
"""Side -> names of its instance gap and of the gap's standard error."""


OTHER_LINES = frozenset(("timing_s/testing", "guard/canaries"))
"""Names of which one is in each line that is not that of a step's report."""


class MetricsFile:
    """The file, open for writing."""

    def __init__(self, path: Path, lines: int = 0, first_step: int = 0) -> None:
        """Open the file after its first ``lines`` lines; see `kept_bytes`. Raises RunError.

        These have the lines of all messages before the report of ``first_step``.
        """
        self._path = path
        self._first_step = first_step
        with self._explained():
            self._file = open(  # noqa: SIM115 - see close
                path, "a", encoding="utf-8", buffering=1, opener=no_link
            )
            self._file.truncate(kept_bytes(path, lines) or 0)

    def write(self, message: Message, progress: Progress) -> None:
        """Write the line for a message that ``progress`` has folded; some kinds have none."""
        if (line := line_of(message, progress)) is None:
            return
        if progress.step < self._first_step:
            progress.lines -= 1  # the file has it, and counts it
        else:
            with self._explained():
                self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
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
            tasks = {"tasks/unearned": progress.unearned} if progress.unearned else {}
            return {"step": message.step, **message.metrics, **progress.evolution, **tasks}
        case Evaluation(version=version):
            line = {"step": version, "timing_s/testing": message.wall_s}
            for measure, means in progress.tables.items():
                shares = means.get(version, {})
                line |= {f"val/{measure}/{label}": x.mean for label, x in shares.items()}
                errors = {label: x.std_error for label, x in shares.items()}
                line |= {f"val/{measure}_std_error/{label}": x for label, x in errors.items()}
            return line | _gaps(instance_gaps(message))
        case CanaryScores(version=version):
            return {"step": version, **_canaries(progress.canaries[version])}
        case _:
            return None


def _gaps(gaps: Mapping[Side, InstanceGap]) -> dict[str, float]:
    line: dict[str, float] = {}
    for side, gap in gaps.items():
        line |= dict(zip(GAPS[side], (gap.mean, gap.std_error), strict=True))
    if len(gaps) == len(SIDES):
        found = memorized(gaps["trained"], gaps["held_out"])
        line |= {"val/memorized/mean": found.mean, "val/memorized/std_error": found.std_error}
    return line


def _canaries(score: Score) -> dict[str, float]:
    return {"guard/canaries": score.mean, "guard/canaries_std_error": score.std_error}


async def first_left(reader: Reader, path: Path) -> tuple[int, int]:
    """Return the first step that the journal has, and the number of lines before its own.

    Both are 0 if the journal dropped no step, or if the file does not have this one's line.
    """
    reports = await reader.scan(topic_of(StepReport), limit=1)
    step = decode_as(reports[0], StepReport).step if reports else 1
    lines = await asyncio.to_thread(_lines_before, path, step) if step > 1 else 0
    return (step, lines) if lines else (0, 0)


def _lines_before(path: Path, step: int) -> int:
    with contextlib.suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            found = json.loads(line)
            if found.get("step") == step and not OTHER_LINES.intersection(found):
                return number
    return 0


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
