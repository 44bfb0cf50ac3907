from pathlib import Path

import pytest

from coevolve.config import load_config
from protocols.config import RunConfig

ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]):
    """Keep the tests that start a Ray cluster in one worker, one after the other, and first."""
    for item in items:
        if item.get_closest_marker("ray"):
            item.add_marker(pytest.mark.xdist_group("ray"))
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)


@pytest.fixture
def quickstart() -> RunConfig:
    return load_config(ROOT / "configs" / "quickstart.yaml")
