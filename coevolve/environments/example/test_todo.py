"""Tests that the environment passes its conformance checks."""

import asyncio
from pathlib import Path

from coevolve.environments.registry import environment_named

TASKS = Path(__file__).parent / "tasks.jsonl"


def test_the_environment_keeps_what_it_promises():
    environment = environment_named("todo:Todo", tasks=str(TASKS))
    findings = asyncio.run(environment.conformance(100))
    assert not [finding for finding in findings if finding.state == "fails"]
