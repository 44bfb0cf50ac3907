"""Lets processes join and leave the group of ranks."""

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
    """Open a store on the loopback interface, through which ``count`` ranks find each other.

    Raises LearnerError if this process is already in such a group.
    """
    if distributed.is_initialized():
        raise LearnerError(
            "learner.devices above 1 needs a process without another torch.distributed group, "
            "found one; run the learner in its own process, as `coevolve.launch` does"
        )
    return distributed.TCPStore(LOOPBACK, 0, count, is_master=True, wait_for_workers=False)


def find_meeting(port: int, count: int) -> distributed.TCPStore:
    """Connect to the store that another process opened."""
    return distributed.TCPStore(LOOPBACK, port, count, is_master=False)


def join(
    store: distributed.TCPStore,
    *,
    rank: int,
    count: int,
    device: Literal["cpu", "cuda"],
    timeout_s: float,
) -> Ranks:
    """Wait for the other ranks and return this one; rank N computes on GPU N.

    Collective operations fail after ``timeout_s``.
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
    """Remove this process from its group, if it is in one."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _loopback_interface() -> str:
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == LOOPBACK for each in addresses):
            return name
    raise LearnerError(f"learner.devices above 1 needs an interface {LOOPBACK}, found none")
