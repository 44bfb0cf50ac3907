"""What differs for a command that Ray's job server started: ``ray job submit -- coevolve ...``.

The job server copies the working folder to a temporary one and removes it after the job. It gives
the command the cluster's address, and a runtime environment that the command's own has to agree
with.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Variable with the job's runtime environment; Ray sets it for the command of a job alone."""

STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
STOP_WAIT_S = 3.0
"""Seconds that ``ray job stop`` waits for a command if `STOP_WAIT` is not set."""


def in_job() -> bool:
    """Return whether Ray's job server started this process."""
    return JOB in os.environ


def lasting(runs: Path) -> Path:
    """Return the folder of all runs; in a job, a relative one is below the home folder."""
    return Path.home() / runs if in_job() else runs


def runtime_environment() -> Mapping[str, Any]:
    """Return the runtime environment of the job; empty outside of one."""
    job = cast("Mapping[str, Any]", json.loads(os.environ.get(JOB, "{}")))
    return job.get("runtime_env") or {}


def kill_warning(stop_s: float) -> str:
    """Return a sentence if ``ray job stop`` waits less than a run may take to stop, else nothing.

    Args:
        stop_s: Seconds that the run may take to stop.
    """
    waits_s = float(os.environ.get(STOP_WAIT, STOP_WAIT_S))
    if not in_job() or waits_s > stop_s:
        return ""
    return (
        f"`ray job stop` kills this run after {waits_s:g} s, before it can write a checkpoint "
        f"(cluster.stop_s = {stop_s:g}); stop it with `coevolve attach stop`, or submit it with "
        f'--runtime-env-json \'{{"env_vars": {{"{STOP_WAIT}": "{2 * stop_s:.0f}"}}}}\''
    )
