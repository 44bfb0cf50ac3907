#!/usr/bin/env bash
# ray 2.60.0: a method with `max_task_retries=0` overrides its actor's setting only for calls in flight.
#
# A guess that fails: a method's own 0 makes its calls behave alike whatever the actor has. What was in
# flight when the process died fails in both cases; but a call made while the actor restarts fails at
# once if the actor has 0, and waits and is carried out if the actor has -1. So work that must not be
# done twice can still wait for a restart: -1 on the actor, 0 on the method.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "ray==2.60.0"
cd "$place"
cat > calls.py <<'PYTHON'
import os
import signal
import sys
import time

import ray


class Worker:
    def __init__(self, mark: str) -> None:
        if os.path.exists(mark):
            time.sleep(4)  # a restart takes a while
        open(mark, "w").close()

    @ray.method(max_task_retries=0)
    def pid(self) -> int:
        return os.getpid()

    @ray.method(max_task_retries=0)
    def work(self) -> None:
        time.sleep(60)


def outcome(call: "ray.ObjectRef") -> str:
    try:
        ray.get(call, timeout=60)
    except ray.exceptions.RayError as error:
        return type(error).__name__
    return "carried out"


ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
seen = {}
for retries in (0, -1):
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": retries}
    worker = ray.remote(**options)(Worker).remote(os.path.abspath(f"mark{retries}"))
    process = ray.get(worker.pid.remote())
    in_flight = worker.work.remote()
    time.sleep(1)
    os.kill(process, signal.SIGKILL)
    time.sleep(1)
    later = worker.pid.remote()
    seen[retries] = (outcome(in_flight), outcome(later))
    print(
        f"ray {ray.__version__}, the actor's max_task_retries {retries}, the methods' 0: "
        f"in flight {seen[retries][0]}, made during the restart {seen[retries][1]}"
    )
failed = "ActorUnavailableError"
expected = {0: (failed, failed), -1: (failed, "carried out")}
sys.exit(0 if seen == expected else 1)
PYTHON
venv/bin/python calls.py 2> /dev/null
