"""The cluster that a run joins: the one in the run file, or else in the environment."""

import os

from msgspec.structs import replace

from coevolve.base.foreign import shown
from protocols.config import RunConfig
from protocols.errors import ConfigError

VARIABLE = "RAY_ADDRESS"
"""Set in Ray jobs and in KubeRay's containers."""

LOCAL = "local"
"""Names a cluster of the run's own, whatever the environment says."""


def with_address(config: RunConfig) -> RunConfig:
    """Return the settings with the cluster that the run joins; an empty address is a local one.

    Raises ConfigError if the environment names something other than a cluster's head.
    """
    address = config.cluster.address or _inherited()
    address = "" if address == LOCAL else address
    return replace(config, cluster=replace(config.cluster, address=address))


def _inherited() -> str:
    address = os.environ.get(VARIABLE, "")
    if "://" in address:
        raise ConfigError(
            f"{VARIABLE}: needs HOST:PORT of the head of a Ray cluster, found {shown(address)}; "
            f"unset it, or set cluster.address ({LOCAL!r} starts a cluster of the run's own)"
        )
    return address
