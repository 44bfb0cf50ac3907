import pytest

from tests.bench.scaling import costs, main


def test_every_cost_is_measured_at_every_size() -> None:
    found = list(costs([60, 200]))
    assert [cost.size for cost in found] == [60, 200] * 5
    assert len({cost.measure for cost in found}) == 5
    assert all(0 < cost.ms < 1000 for cost in found)


def test_an_earlier_commit_is_measured_beside_today_s_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--sizes", "60", "--rounds", "1", "--beside", "HEAD", "--json"])
    assert '"measure":"commit"' in capsys.readouterr().out
