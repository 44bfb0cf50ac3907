import threading
import time

import pytest

from coevolve.models.deadline import within


def test_an_endless_loop_ends_in_any_thread():
    ended: list[str] = []

    def loop() -> None:
        try:
            with within(0.05):
                while True:
                    pass
        except TimeoutError:
            ended.append(threading.current_thread().name)

    loop()
    other = threading.Thread(target=loop, name="other", daemon=True)
    other.start()
    other.join(20)
    assert ended == ["MainThread", "other"]


def test_a_block_that_ends_in_time_is_left_alone():
    with within(0.05):
        pass
    time.sleep(0.1)
    with pytest.raises(KeyError), within(1):
        raise KeyError
