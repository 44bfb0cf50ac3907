"""Runs the quickstart with an endpoint that misbehaves in every way, and with poisoned requests.

The synthesizer's model is `tests.misbehaving`: before each thing that it does wrong it gives one
answer that passes the check of a model. One rollout request raises an error at each attempt, and
one kills its process (`tests.poisoned`). *Met* counts the behaviours that requests met, *settled*
the signals that were used up, *failed calls* those that the journal has with their reasons, *rests*
how often the journal says that the model rests, and *restarts* the deaths of parts.
"""

import tempfile
from pathlib import Path

import msgspec
from rich.table import Table

from protocols.control import DeadLetter, PartFailed
from protocols.evolution import CallFailed, ModelRests, Signal, SignalSettled
from protocols.learning import StepReport
from tests.bench import output
from tests.launched import SMALL, launched
from tests.misbehaving import BEHAVIOURS, TAUNTS, misbehaving

SETTINGS = (
    *SMALL,
    "environment.use=tests.poisoned:Poisoned",
    "synthesizer.model.kind=endpoint",
    "synthesizer.model.model=bad",
    "synthesizer.model.timeout_s=0.2",
    "synthesizer.model.tries=1",
    "synthesizer.longest_rest_s=0.01",
)


class Survived(msgspec.Struct, frozen=True, kw_only=True):
    """What the run came to."""

    exit_code: int
    steps: int
    behaviours: int
    met: int
    signals: int
    settled: int
    failed_calls: int
    rests: int
    restarts: int
    letters: tuple[str, ...]
    """The dead letters: unit, attempts and reason."""

    shown: tuple[str, ...]
    """What `attach status` says that the run goes on without."""


def main(arguments: list[str]) -> None:
    """Run, and print a table or JSON."""
    parser = output.parser_of("endpoint", __doc__)
    parser.add_argument("--steps", type=int, default=60, help="steps of the run")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        survived = run(Path(place), options.steps)
    output.show([survived], _table, as_json=options.json)


def run(place: Path, steps: int) -> Survived:
    """Run to the end, and return what came of it."""
    with (
        misbehaving(TAUNTS) as server,
        launched(
            place,
            "endpoint",
            *SETTINGS,
            f"synthesizer.model.base_url={server.base_url}",
            f"learner.steps={steps}",
        ) as here,
    ):
        code = here.wait(1800.0)
        said = here.attach("status").stdout.splitlines()
        return Survived(
            exit_code=code,
            steps=here.count(StepReport),
            behaviours=len(BEHAVIOURS),
            met=sum(server.met[name] > 0 for name in BEHAVIOURS),
            signals=here.count(Signal),
            settled=here.count(SignalSettled),
            failed_calls=here.count(CallFailed),
            rests=here.count(ModelRests),
            restarts=here.count(PartFailed),
            letters=tuple(
                f"{each.unit}; {each.attempts} attempts: {each.reason}"
                for each in here.scan(DeadLetter)
            ),
            shown=tuple(line for line in said if "rests" in line or "dead letters" in line),
        )


def _table(rows: list[Survived]) -> Table:
    (survived,) = rows
    table = Table("what", "value", title="a misbehaving endpoint and poisoned requests")
    for name, value in msgspec.to_builtins(survived).items():
        table.add_row(name, "\n".join(value) if isinstance(value, list | tuple) else str(value))
    return table
