"""What a command tells while it takes long."""

import threading

from coevolve.base.waiting import doing, told


def test_what_is_done_is_told_from_another_thread_until_it_ends():
    lines: list[str] = []
    heard = threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        heard.set()

    with told(say, first_s=0.01), doing(lambda: "it checks"), doing(lambda: " a call"):
        assert heard.wait(30)
    assert {line.rpartition(" (")[0] for line in lines} <= {"it checks", "it checks, a call"}
    assert lines[0].endswith(" s)")
