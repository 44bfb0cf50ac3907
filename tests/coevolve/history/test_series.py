import json
from pathlib import Path

import pytest

from coevolve.history.series import read_series
from coevolve.report.sections.metrics import by_group, metrics_data
from protocols.errors import RunError


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_series_holds_the_newest_value_of_each_step(tmp_path: Path):
    path = written(
        tmp_path / "m", {"step": 1, "a": 1.0}, {"step": 2, "a": 2}, {"step": 2, "a": 5, "b": 7}
    )
    found = read_series(path, "run")
    assert found.width == 1
    assert (found.metrics["a"].steps, found.metrics["a"].means) == ((1, 2), (1.0, 5.0))
    assert found.metrics["b"].newest == 7
    assert "step" not in found.metrics


def test_a_long_series_is_binned_with_its_range(tmp_path: Path):
    path = written(tmp_path / "m", *({"step": n, "a": n % 10} for n in range(1, 2001)))
    found = read_series(path, "run", points=500)
    assert found.width == 5
    series = found.metrics["a"]
    assert series.steps[:2] == (4, 9)
    assert series.means[:2] == (2.5, 7.0)
    assert (series.lows[1], series.highs[1], series.newest) == (5, 9, 0)
    assert len(series.steps) <= 500


def test_what_is_not_finite_or_not_yet_written_is_left_out(tmp_path: Path):
    path = written(tmp_path / "m", {"step": 1, "a": float("nan"), "b": 1.0})
    path.write_text(path.read_text() + '{"step": 2, "b"')
    found = read_series(path, "run")
    assert list(found.metrics) == ["b"]
    assert found.metrics["b"].steps == (1,)
    assert read_series(tmp_path / "none", "run").metrics == {}


@pytest.mark.parametrize("line", ["no json", "[]", '{"a": 1}', '{"step": 1, "a": "x"}', "3"])
def test_a_broken_line_is_named(tmp_path: Path, line: str):
    (tmp_path / "m").write_text(f'{{"step": 1, "a": 1}}\n{line}\n')
    with pytest.raises(RunError, match="m, line 2: needs a JSON object of numbers"):
        read_series(tmp_path / "m", "run")


def test_runs_are_laid_side_by_side(tmp_path: Path):
    one = read_series(written(tmp_path / "1", {"step": 1, "actor/lr": 0.123456789}), "one")
    two = read_series(written(tmp_path / "2", {"step": 1, "my/own": 1}), "two")
    assert by_group([one, two]) == {"Losses and optimizer": ["actor/lr"], "Other": ["my/own"]}
    assert metrics_data([one, two]) == {
        "runs": ["one", "two"],
        "metrics": {"actor/lr": [[[1], [0.12346]], None], "my/own": [None, [[1], [1.0]]]},
    }
