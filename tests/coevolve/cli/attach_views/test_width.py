"""Tables of attach can be read on a terminal of 80 columns."""

import pytest

from coevolve.cli.attach_views.letters import letters
from coevolve.cli.attach_views.status import status
from coevolve.cli.attach_views.views import signals, tasks
from protocols.control import DeadLetter
from protocols.learning import WeightsVerified
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.evolving import story
from tests.exporting import scored

LETTER = DeadLetter(
    consumer="synthesizer",
    sequence=7,
    unit="signal s-0123456789ab",
    subject="",
    attempts=3,
    reason="SimulatorError: the simulator's process ended",
)
PROOF = WeightsVerified(
    engine="rollout-10",
    version=12345,
    digest="0123456789abcdef",
    max_abs_difference=1.5e-6,
    wall_s=12.031,
    pause_s=1.004,
    proven_ns=1,
)


async def test_tables_fit_80_columns(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    stage.write([*story(), scored(8, 3), PROOF, LETTER])
    subject = stage.subject(running=True)
    await status(subject, as_json=False, journal=True)
    await signals(subject, kind=None, count=20, now_s=2e9, as_json=False)
    await tasks(subject, origin=None, count=20, as_json=False)
    await letters(subject, (), as_json=False)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    for whole in (
        *("learnable", "tokens/task", "USD/task", "1.5e-06 nats", "12031 ms", "0123456789ab"),
        *("waits for", "memory", "restarts", "made candidates", "in steps", "attempts"),
    ):
        assert whole in said, whole
