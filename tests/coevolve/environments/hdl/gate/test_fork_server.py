import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from coevolve.environments.hdl.gate.fork_server import (
    MOST_FRAMES,
    NO_MEMORY,
    RAISED,
    TOO_DEEP,
    ForkServer,
    Limits,
)
from protocols.errors import SimulatorError

pytestmark = pytest.mark.timeout(60)

LIMITS = Limits(cpu_s=1, memory_mb=512, stack_kb=512, wall_s=20)
SHORT = Limits(cpu_s=1, memory_mb=512, stack_kb=512, wall_s=1)


@pytest.fixture(scope="module")
def server() -> ForkServer:
    return ForkServer("tests.fork_server_answers")


def test_a_long_question_has_a_long_answer(server: ForkServer):
    rest = b"x" * 5_000_000
    answered = server.ask(b"return " + rest, LIMITS)
    assert (answered.status, answered.answer) == (0, rest)


@pytest.mark.parametrize(
    ("question", "limits", "status"),
    [
        (b"raise it", LIMITS, RAISED),
        (b"descend 1000000", LIMITS, TOO_DEEP),
        (b"allocate", LIMITS, NO_MEMORY),
        (b"spin", LIMITS, -signal.SIGXCPU),
        (b"sleep", SHORT, -signal.SIGALRM),
        (b"overflow", LIMITS, -signal.SIGSEGV),
    ],
)
def test_the_end_of_one_answer_is_reported_and_the_next_question_is_answered(
    server: ForkServer, question: bytes, limits: Limits, status: int
):
    assert server.ask(question, limits).status == status
    assert server.ask(b"return 1", LIMITS).answer == b"1"


def test_an_answer_has_so_many_frames_and_no_more(server: ForkServer):
    few, many = (b"descend %d" % frames for frames in (MOST_FRAMES - 50, MOST_FRAMES))
    assert server.ask(few, LIMITS).answer == b"%d" % (MOST_FRAMES - 50)
    assert server.ask(many, LIMITS).status == TOO_DEEP


def test_the_error_of_an_answer_is_reported(server: ForkServer):
    assert server.ask(b"raise it", LIMITS).answer == b"ValueError: b'raise'"


def test_threads_have_their_own_answers(server: ForkServer):
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(server.ask, b"return %d" % n, LIMITS) for n in range(40)]
        assert [each.result().answer for each in asked] == [b"%d" % n for n in range(40)]


def test_a_new_server_replaces_one_that_ended(server: ForkServer):
    assert server.ask(b"end_server 1", LIMITS).answer == b"1"
    assert _answer_of_another(server) == b"2"


def _answer_of_another(server: ForkServer) -> bytes:
    """Ask again while the question may still reach the server that is about to end."""
    while True:
        with contextlib.suppress(SimulatorError):
            return server.ask(b"return 2", LIMITS).answer


def test_an_answer_that_does_not_start_is_an_infrastructure_failure(server: ForkServer):
    endless = Limits(cpu_s=1, memory_mb=512, stack_kb=1 << 30, wall_s=20)
    with pytest.raises(SimulatorError, match="did not start"):
        server.ask(b"return 1", endless)


def test_a_server_that_does_not_start_is_an_infrastructure_failure():
    with pytest.raises(SimulatorError):
        ForkServer("tests.no_such_module").ask(b"return", LIMITS)
