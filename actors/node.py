"""The node on which this process runs."""

from typing import Any

import ray


def node_id() -> str:
    """Return Ray's id of the node on which this process runs."""
    context: Any = ray.get_runtime_context()
    return context.get_node_id()
