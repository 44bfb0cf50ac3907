from pathlib import Path

import pytest

from coevolve.journal.restarts import BREAKS, FILE, STARTS, STARTS_WITHIN_S, WITHIN_S, Restarts
from protocols.errors import JournalError


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def restarts(tmp_path: Path, clock: Clock) -> Restarts:
    fresh = Restarts(tmp_path, clock)
    fresh.begin(again=False)
    return fresh


def break_again(restarts: Restarts, clock: Clock, times: int, every_s: float) -> None:
    for _ in range(times):
        clock.now_s += every_s
        restarts.broke("the journal stopped: OverflowError")
        restarts.begin(again=True)


def start_again(restarts: Restarts, clock: Clock, times: int, every_s: float) -> None:
    for _ in range(times):
        clock.now_s += every_s
        restarts.begin(again=True)


def test_a_journal_that_breaks_again_and_again_ends_with_its_last_error(
    restarts: Restarts, clock: Clock
) -> None:
    break_again(restarts, clock, BREAKS - 1, 2.0)
    with pytest.raises(JournalError, match=r"broke 8 times within 120 s.*OverflowError"):
        break_again(restarts, clock, 1, 2.0)


def test_rare_breaks_never_add_up(restarts: Restarts, clock: Clock) -> None:
    break_again(restarts, clock, 4 * BREAKS, 1.01 * WITHIN_S / (BREAKS - 1))


def test_a_process_that_ends_without_a_word_ends_the_run_only_if_it_does_so_all_the_time(
    restarts: Restarts, clock: Clock
) -> None:
    start_again(restarts, clock, STARTS + 10, 1.01 * STARTS_WITHIN_S / (STARTS - 1))
    clock.now_s += STARTS_WITHIN_S
    start_again(restarts, clock, STARTS - 1, 2.0)
    with pytest.raises(JournalError, match="ended 60 times within 300 s"):
        start_again(restarts, clock, 1, 2.0)


def test_the_next_launch_begins_anew(restarts: Restarts, clock: Clock, tmp_path: Path) -> None:
    break_again(restarts, clock, BREAKS - 1, 0.0)
    Restarts(tmp_path, clock).begin(again=False)
    break_again(restarts, clock, BREAKS - 1, 0.0)


def test_a_damaged_file_and_a_missing_folder_count_as_empty(
    restarts: Restarts, clock: Clock, tmp_path: Path
) -> None:
    break_again(restarts, clock, BREAKS - 1, 0.0)
    (tmp_path / FILE).write_bytes(b"\xff{")
    break_again(restarts, clock, BREAKS - 1, 0.0)
    Restarts(tmp_path / "missing").broke("no room")
    assert not (tmp_path / "missing").exists()


def test_the_file_is_bounded(restarts: Restarts, clock: Clock, tmp_path: Path) -> None:
    break_again(restarts, clock, STARTS + 1, 60.0)
    full = (tmp_path / FILE).stat().st_size
    break_again(restarts, clock, 10, 60.0)
    assert (tmp_path / FILE).stat().st_size <= full
