"""Counts which planted requests the gates admit, with each kind of reader.

The cases are those of `tests.meant`: natural English, written without a look at the gates. *Gates*
are the executed gates alone. *Perfect* adds a scripted reader that picks and writes what is meant,
an upper bound for an endpoint's model. *Policy* adds the tiny policy as a reader, in the file
system only: it admits what it confirms, and what it solves in one of four probes. *Voice* says the
same of the quickstart's own wordings: tasks of its grammar, and those tasks spoilt on purpose.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

import msgspec
from rich.console import Group, RenderableType

from coevolve.config.load import load_config
from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.gates.contrast import AskedReader
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.trial import TrialRun
from coevolve.models.model_folder import TINY_FOLDER
from coevolve.validation.gates import Findings, Sound
from protocols.config import RolloutConfig
from protocols.tasks import Seeded, Task
from tests.bench import output
from tests.meant.cases import GOOD, WORLDS, Case, cases
from tests.meant.knowing import KnowingModel
from tests.planted import candidate, draws
from tests.simulated import InProcessSimulator
from tests.spoiling.calibration import VARIANTS, unrecorded_reader
from tests.spoiling.kinds import KINDS, Kind

Fits = Callable[[ToolTask, Tried], bool]

PROBES = 4
CONTEXT = 256
"""Tokens of a conversation of the tiny policy."""

OWN, SPOILT = 120, 20
"""Tasks of the grammar, and spoilt ones of each kind."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of candidate, and how many are admitted."""

    kind: str
    candidates: int
    gates: int
    perfect: int
    confirmed: int | None
    """Confirmed by the policy; None if it does not read these, as below."""

    policy: int | None
    """Confirmed or solved by the policy."""


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one set of candidates."""

    name: str
    rows: tuple[Row, ...]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one candidate."""

    kind: str
    sound: bool
    perfect: bool
    confirmed: bool
    solved: bool


class Prober:
    """Probes candidates with the tiny policy, at temperature 1."""

    def __init__(self, folder: Path) -> None:
        self.generator = TransformersGenerator(
            TINY_FOLDER, folder, max_concurrent=64, max_length=CONTEXT
        )
        self._agent = ToolAgent(
            generator=self.generator,
            simulator=InProcessSimulator(),
            renderer=TinyRenderer.load(TINY_FOLDER),
            limits=RolloutConfig(),
            temperature=1.0,
        )

    async def solves(self, name: str, sound: Sound) -> bool:
        """Return whether one of `PROBES` attempts succeeds."""
        task = Task(task_id=name, split="train", origin=Seeded(source="planted"), body=sound.body)
        attempts = (
            self._agent.attempt(task, f"{name}-{seed}", seed=seed) for seed in range(PROBES)
        )
        return any(episode.succeeded for episode in await asyncio.gather(*attempts))


async def _found(case: Case, reader: InstructionReader | None, findings: Findings) -> Findings:
    gates = ToolGates(InProcessSimulator(), calls_per_turn=20, reader=reader)
    return await gates.read(candidate(case.body), findings)


async def _measured(
    case: Case, model: KnowingModel, policy: InstructionReader | None, prober: Prober
) -> Measured:
    asked = candidate(case.body)
    gates = ToolGates(InProcessSimulator(), calls_per_turn=20)
    findings = await gates.examine(asked)
    sound = findings.outcome
    if not isinstance(sound, Sound):
        return Measured(kind=case.kind, sound=False, perfect=False, confirmed=False, solved=False)
    perfect = await _found(case, AskedReader(model, rebuilds=1), findings)
    confirmed = solved = False
    if policy is not None:
        confirmed = (await _found(case, policy, findings)).reading.outcome == "confirmed"
        solved = not confirmed and await prober.solves(asked.candidate_id, sound)
    return Measured(
        kind=case.kind,
        sound=True,
        perfect=perfect.reading.outcome == "confirmed",
        confirmed=confirmed,
        solved=solved,
    )


def _own() -> Iterator[Case]:
    """Yield tasks of the grammar, and spoilt ones whose calls work."""
    tasks = [tool_task(task) for task in islice(draws(11), OWN)]
    yield from (Case(GOOD, task) for task in tasks)
    for name, kind in KINDS.items():
        spoilt = (_spoilt(kind, task, Random(f"{name}/{n}")) for n, task in enumerate(tasks))
        yield from (Case(name, body) for body in islice(filter(None, spoilt), SPOILT))


def _spoilt(kind: Kind, task: ToolTask, rng: Random) -> ToolTask | None:
    versions = islice(kind.spoil(task, rng), VARIANTS)
    return next((body for body in versions if _works(body, kind.fits)), None)


def _works(body: ToolTask, fits: Fits) -> bool:
    tried = TrialRun(body, [turn.reference for turn in body.turns]).play()
    failed = any(observed.failed for turn in tried.turns for observed in turn.observed)
    return not failed and fits(body, tried)


async def measure(worlds: int) -> tuple[Suite, ...]:
    """Return the rows of all suites, with so many worlds for each template."""
    policy = unrecorded_reader(load_config("quickstart"))
    with tempfile.TemporaryDirectory() as folder:
        prober = Prober(Path(folder))
        try:
            return (
                await _suite("filesystem", list(cases("filesystem", worlds)), policy, prober),
                await _suite("functions", list(cases("functions", worlds)), None, prober),
                await _suite("voice", list(_own()), policy, prober),
            )
        finally:
            await prober.generator.close()


async def _suite(
    name: str, found: Sequence[Case], policy: InstructionReader | None, prober: Prober
) -> Suite:
    model = KnowingModel(case.body for case in found if case.kind == GOOD)
    measured = [await _measured(case, model, policy, prober) for case in found]
    kinds = dict.fromkeys(case.kind for case in found)
    by_kind = {kind: [each for each in measured if each.kind == kind] for kind in kinds}
    bad = [each for each in measured if each.kind != GOOD]
    return Suite(
        name=name,
        rows=(
            *(_row(kind, of_kind, reads=policy is not None) for kind, of_kind in by_kind.items()),
            _row("all bad ones", bad, reads=policy is not None),
        ),
    )


def _row(kind: str, measured: Sequence[Measured], *, reads: bool) -> Row:
    return Row(
        kind=kind,
        candidates=len(measured),
        gates=sum(each.sound for each in measured),
        perfect=sum(each.perfect for each in measured),
        confirmed=sum(each.confirmed for each in measured) if reads else None,
        policy=sum(each.confirmed or each.solved for each in measured) if reads else None,
    )


def drawn(suites: Iterable[Suite]) -> RenderableType:
    """Return a table for each suite."""
    return Group(
        *(
            output.table(
                suite.name,
                ("kind", "candidates", "gates", "perfect", "policy confirms", "or solves"),
                [_cells(row) for row in suite.rows],
            )
            for suite in suites
        )
    )


def _cells(row: Row) -> list[str]:
    counts = (row.gates, row.perfect, row.confirmed, row.policy)
    return [row.kind, str(row.candidates), *("-" if n is None else str(n) for n in counts)]


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = output.parser_of("planted", __doc__)
    parser.add_argument("--worlds", type=int, default=WORLDS, help="cases of each template")
    given = parser.parse_args(arguments)
    output.show(asyncio.run(measure(given.worlds)), drawn, as_json=given.json)
