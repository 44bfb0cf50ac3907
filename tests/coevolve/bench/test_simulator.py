import json

import pytest

from coevolve.bench import simulator


@pytest.mark.ray
def test_the_benchmark_prints_three_rows_of_figures(capfd: pytest.CaptureFixture[str]) -> None:
    simulator.main(["--rounds", "1", "--json"])
    rows = json.loads(capfd.readouterr().out.strip().splitlines()[-1])
    assert [row.pop("place") for row in rows] == ["in process", "child", "Ray actor"]
    assert all(value > 0 for row in rows for value in row.values())
    assert rows[0]["calls_per_s"] > rows[2]["calls_per_s"] > 200
