import pytest

from coevolve.runs.companions import restart_on_failure
from protocols.errors import JournalError


async def test_what_fails_begins_again_and_each_failure_is_logged(
    capsys: pytest.CaptureFixture[str],
):
    failures: list[Exception] = [
        JournalError("the disk is full"),
        ExceptionGroup("two", [ValueError("first"), ValueError("second")]),
    ]

    async def begin() -> None:
        if failures:
            raise failures.pop(0)

    await restart_on_failure("trackers", begin, pause_s=0.001)
    lines = [line for line in capsys.readouterr().out.splitlines() if "beside_the_run" in line]
    assert len(lines) == 2
    assert "trackers" in lines[0]
    assert "the disk is full" in lines[0]
    assert "first" in lines[1]
