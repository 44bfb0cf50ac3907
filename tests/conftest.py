from pathlib import Path

import pytest

from coevolve.config import load_config
from protocols.config import RunConfig

ROOT = Path(__file__).parents[1]


@pytest.fixture
def quickstart() -> RunConfig:
    return load_config(ROOT / "configs" / "quickstart.yaml")
