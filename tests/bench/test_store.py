import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.ray
@pytest.mark.exhaustive
def test_rollouts_of_the_asked_size_pass_through_the_store() -> None:
    asked = "['--actors', '1', '--groups', '8', '--rollouts', '512', '--rounds', '1', '--json']"
    found = subprocess.run(
        [sys.executable, "-c", f"from tests.bench.store import main; main({asked})"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    speeds = json.loads(found.stdout.strip().splitlines()[-1])
    assert [speed["line"] for speed in speeds] == ["socket", "Ray"]
    for speed in speeds:
        assert speed["megabytes_per_s"] > 0.02 * speed["rollouts_per_s"] > 0
        assert speed["all_ms"] > speed["store_ms"] > 0
