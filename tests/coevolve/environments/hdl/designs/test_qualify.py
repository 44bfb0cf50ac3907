from pathlib import Path

from coevolve.environments.hdl.designs.admission import Measured, Run
from coevolve.environments.hdl.designs.mutants import Bugs
from coevolve.environments.hdl.designs.qualify import Admission, table
from coevolve.environments.hdl.simulate.messages import Coverage, KindCount
from tests.commands import answered


def run(covered: int) -> Run:
    kinds = (KindCount(metric="line", covered=covered, total=1000),)
    return Run(coverages=(Coverage(points_hash="", hits=b"", kinds=kinds),))


ADMISSION = Admission(
    design_id="queue",
    family="fifos",
    split="train",
    secret=True,
    threshold=0.9,
    mutants=1,
    measured=Measured(
        count=123,
        sha256="ab" * 32,
        runs={"poor": run(300), "mid": run(505), "good": run(1000)},
        bugs={"good": Bugs(killed=("bug",))},
        random=(0.4, 0.45),
        long_random=0.612,
    ),
    refusals=(),
)


def test_the_table_is_markdown_with_a_row_for_each_design() -> None:
    assert table([ADMISSION]) == (
        "| design | family | split | points | poor | mid | good | random | threshold | secret |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| queue | fifos | train | 123 | 30.0 | 50.5 | 100.0 | 45.0 | 90 | 61.2 |\n"
    )


def test_a_folder_without_designs_is_refused(tmp_path: Path) -> None:
    answer = answered("hdl", "qualify", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr == (
        f"coevolve: {tmp_path}: needs a design.yaml, or folders that have one; found none\n"
    )
