"""Makes a process one of the ranks that take steps together, and lets it go again."""

# torch is partly untyped, and does not list TCPStore among what it exports.
# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false

import os
from datetime import timedelta
from typing import Literal

import psutil
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

from coevolve.learning.sharded.ranks import Ranks
from protocols.errors import LearnerError

LOOPBACK = "127.0.0.1"


def open_meeting(count: int) -> distributed.TCPStore:
    """Return the place on the loopback interface where ``count`` ranks find one another.

    Raises LearnerError where this process is in such a group already.
    """
    if distributed.is_initialized():
        raise LearnerError(
            "learner.devices above 1 needs a process without another group of torch.distributed, "
            "found one; let the learner have a process of its own, as `coevolve.launch` does"
        )
    return distributed.TCPStore(LOOPBACK, 0, count, is_master=True, wait_for_workers=False)


def find_meeting(port: int, count: int) -> distributed.TCPStore:
    """Return the place that another process opened."""
    return distributed.TCPStore(LOOPBACK, port, count, is_master=False)


def join(
    store: distributed.TCPStore,
    *,
    rank: int,
    count: int,
    device: Literal["cpu", "cuda"],
    timeout_s: float,
) -> Ranks:
    """Wait for the other ranks and return this one; rank N computes on the GPU N.

    An operation that all have to take part in fails after ``timeout_s``.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback_interface())
    if device == "cuda":
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=timeout_s),
    )
    return Ranks(rank=rank, count=count, mesh=init_device_mesh(device, (count,)))


def leave() -> None:
    """Take this process out of its group, if it is in one."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _loopback_interface() -> str:
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == LOOPBACK for each in addresses):
            return name
    raise LearnerError(f"learner.devices above 1 needs an interface {LOOPBACK}, found none")
