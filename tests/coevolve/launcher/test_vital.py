import subprocess
import sys
import time

from coevolve.launcher.vital import Vital


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_the_end_of_a_process_is_seen_at_once_and_the_cause_comes_before_its_effect():
    agent, raylet = sleeper(), sleeper()
    vital = Vital({"Ray's runtime-env agent": agent.pid, "Ray's raylet": raylet.pid})
    assert not vital.ended(0.0)
    for process in (raylet, agent):
        process.kill()
        process.wait()
    began = time.monotonic()
    said = vital.ended(30.0)
    vital.close()
    assert said == "Ray's runtime-env agent ended, and the run's local Ray cluster with it"
    assert time.monotonic() - began < 10.0


def test_without_processes_the_watch_only_waits():
    assert not Vital({}).ended(0.01)
