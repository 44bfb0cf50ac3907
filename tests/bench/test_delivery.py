import msgspec
import pytest

from tests.bench import delivery


@pytest.mark.parametrize("form", ["full", "merged"])
def test_right_versions_raise_no_alarm_and_a_deaf_engine_one_each(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = ["--engines", "transformers", "--forms", form, "--dtypes", "bfloat16"]
    delivery.main([*cell, "--versions", "8", "--json"])
    figures = msgspec.json.decode(capsys.readouterr().out, type=list[delivery.Figures])
    assert [each.rate for each in figures] == list(delivery.RATES)
    assert all(each.versions == 2 and each.alarms == 0 for each in figures)
    assert all(each.deaf_alarms == each.deaf > 0 for each in figures)
    assert all(0 < each.changed <= 1 and each.off_most < 0.5 for each in figures)
