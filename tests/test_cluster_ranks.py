"""A learner whose ranks are on Ray nodes that share no files, compared with one process."""

import sys
import time
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.open_parts import OpenPart
from coevolve.learning.sharded.shards import INDEX_FILE
from coevolve.loop import PARTS
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols.learning import StepReport
from tests.nodes import HOME, Node, forbidden, nodes
from tests.sharded_nodes import ALL, Found, groups, settings

REASON = forbidden()

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(REASON), reason=f"nodes: {REASON}"),
]

START_S = 60.0


async def one_process(folder: Path) -> list[StepReport]:
    """Return the reports of a learner of one process on the same groups."""
    config = settings(devices=1, steps=ALL)
    journal = groups(range(ALL))
    files = LocalFiles(folder / "run")
    context = PartContext(config=config, files=files, store=journal, reader=journal)
    await OpenPart(PARTS["learner"], context).part.run()
    return [each for each in journal.all(StepReport) if isinstance(each, StepReport)]


def trained(report: StepReport) -> dict[str, float]:
    """Return a step's metrics that rounding changes little and that times do not enter."""
    return {
        name: value
        for name, value in report.metrics.items()
        if not name.startswith(("timing_s/", "perf/", "gradient_noise/"))
    }


def start_ray(machines: list[Node], logs: Path) -> None:
    for number, node in enumerate(machines):
        log = logs / str(number)
        node.join(log, *(("--labels", "group=worker") if number else ()))
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)


async def test_ranks_on_several_nodes_train_as_one_process_does(tmp_path: Path):
    with nodes(3) as machines:
        start_ray(machines, tmp_path)
        head = machines[0]
        said = head.run("python", "-m", "tests.sharded_nodes", str(HOME))
        written = {
            step: head.run("ls", "-A", f"{HOME}/run/checkpoints/step_{step}").split()
            for step in (3, 4, 5)
        }
    found = msgspec.json.decode(said.splitlines()[-1], type=Found)
    sys.stdout.write(f"a node lost: {found.lost_s:.1f} s to the second step after it\n")

    assert [report.step for report in found.reports] == list(range(1, ALL + 1))
    assert [report.devices for report in found.reports] == [2, 2, 2, 1, 3, 2, 2, 2]
    alone = await one_process(tmp_path)
    for expected, report in zip(alone, found.reports, strict=True):
        assert trained(report) == pytest.approx(trained(expected), rel=1e-4, abs=1e-5)
    norms = [
        abs(report.metrics["actor/grad_norm"] / expected.metrics["actor/grad_norm"] - 1)
        for expected, report in zip(alone, found.reports, strict=True)
    ]
    sys.stdout.write(f"gradient norms differ by {max(norms):.1e} at most, relatively\n")

    assert [len(set(each)) for each in found.nodes] == [2, 3, 2]
    assert [(each.step, each.devices) for each in found.checkpoints] == [
        (3, 2),
        (4, 1),
        (5, 3),
        (ALL, 2),
    ]
    for step, count in ((3, 2), (4, 1), (5, 3)):
        shards = [f"__{rank}_0.distcp" for rank in range(count)]
        assert sorted(written[step]) == sorted([INDEX_FILE, *shards, "trainer_state.json"])
    assert found.failures
