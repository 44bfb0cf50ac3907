import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.ray
@pytest.mark.exhaustive
def test_the_benchmark_prints_three_rows_of_figures() -> None:
    statement = "from tests.bench.simulator import main; main(['--rounds', '1', '--json'])"
    found = subprocess.run(
        [sys.executable, "-c", statement], capture_output=True, text=True, check=True, cwd=ROOT
    )
    rows = json.loads(found.stdout.strip().splitlines()[-1])
    assert [row.pop("place") for row in rows] == ["in process", "child", "Ray actor"]
    assert all(value > 0 for row in rows for value in row.values())
    assert rows[0]["calls_per_s"] > rows[2]["calls_per_s"]
