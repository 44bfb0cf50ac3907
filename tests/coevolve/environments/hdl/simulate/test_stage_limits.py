import signal

from coevolve.environments.hdl.simulate.stage_limits import last_words
from coevolve.environments.sdk import Finished


def ended(status: int) -> Finished:
    return Finished(status=status, output="", limit="", cpu_s=0.1, wall_s=0.1)


def test_a_crash_names_its_likely_causes_after_what_was_printed():
    said = last_words(ended(-signal.SIGSEGV), "row 3")
    assert said.startswith("row 3\nthe simulation ended with signal 11; often that is $feof of")
    assert last_words(ended(-signal.SIGFPE), "") == "the simulation ended with signal 8"


def test_a_simulation_that_ends_itself_has_the_last_word():
    assert last_words(ended(2), "%Error: tb.sv:3") == "%Error: tb.sv:3"
    assert last_words(ended(2), "") == "the simulation ended with exit status 2"
