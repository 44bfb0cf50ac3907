import pytest

from tests.bench.__main__ import BENCHES, main


def test_an_unknown_bench_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in ([], ["jornal"]):
        assert main(arguments) == 2
        found = arguments[0] if arguments else "nothing"
        known = ", ".join(sorted(BENCHES))
        assert known.startswith(
            "appworld, appworld-gates, appworld-templates, calls, chaos, delivery, endpoint, "
        )
        assert capsys.readouterr().err == f"bench: needs one of {known}, got {found}\n"


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert f"python -m tests.bench {name}" in capsys.readouterr().out
