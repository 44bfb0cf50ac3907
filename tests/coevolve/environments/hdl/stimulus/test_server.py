import pytest

from coevolve.environments.hdl.stimulus.server import Dialogue
from coevolve.environments.sandbox.runner import Sandbox, StageLimits
from protocols.errors import SimulatorError

LIMITS = StageLimits(
    cpu_s=5.0, wall_s=30.0, memory_mb=500, file_mb=1, processes=8, output_bytes=4096
)
SOON_S = 20.0


def dialogue(work, script):
    sandbox = Sandbox([], "limits")
    return Dialogue(sandbox, ("/bin/sh", "-c", script), work=work, limits=LIMITS)


def test_an_answer_may_exceed_a_pipe_and_close_ends_the_program(tmp_path):
    echo = dialogue(tmp_path, "exec cat < in > out")
    question = bytes(range(256)) * 2000
    assert echo.ask(question, len(question), SOON_S) == question
    assert echo.alive
    echo.close(SOON_S)
    assert not echo.alive


def test_a_silent_program_fails_after_the_patience(tmp_path):
    mute = dialogue(tmp_path, "exec cat < in > /dev/null")
    with pytest.raises(SimulatorError, match="did not answer"):
        mute.ask(b"hello", 5, 0.3)
    mute.close(SOON_S)
    assert not mute.alive


def test_the_error_for_an_ended_program_states_its_end(tmp_path):
    brief = dialogue(tmp_path, "echo 'out of ideas'; exit 3")
    with pytest.raises(SimulatorError, match="status 3, limit '', 'out of ideas'"):
        brief.ask(b"hello", 5, SOON_S)
    brief.close(SOON_S)
