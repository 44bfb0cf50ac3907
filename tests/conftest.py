import os
from pathlib import Path

# Two workers share the machine, and vLLM counts on one number of threads in a whole process; it is
# read when torch loads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import pytest

from coevolve.config import load_config
from protocols.config import RunConfig

ROOT = Path(__file__).parents[1]


@pytest.fixture
def quickstart() -> RunConfig:
    return load_config(ROOT / "configs" / "quickstart.yaml")
