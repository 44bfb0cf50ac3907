"""Lets processes join and leave the group of ranks."""

# torch is partly untyped, and does not list TCPStore among what it exports.
# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false

import os
import socket
from datetime import timedelta
from typing import Literal

import psutil
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

from coevolve.learning.sharded.ranks import Ranks
from protocols.errors import LearnerError

LOOPBACK = "127.0.0.1"


def open_meeting(address: str, count: int) -> distributed.TCPStore:
    """Open a store at this node's ``address``, through which ``count`` ranks find each other.

    Raises LearnerError if this process is already in such a group.
    """
    if distributed.is_initialized():
        raise LearnerError(
            "learner.devices above 1 needs a process without another torch.distributed group, "
            "found one; run the learner in its own process, as `coevolve.launch` does"
        )
    # A socket of our own, because torch's would listen on all interfaces.
    listening = socket.create_server((address, 0), family=_family(address))
    port = listening.getsockname()[1]
    return distributed.TCPStore(
        address,
        port,
        count,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
    )


def find_meeting(address: str, port: int, count: int) -> distributed.TCPStore:
    """Connect to the store that another process opened."""
    return distributed.TCPStore(address, port, count, is_master=False)


def join(
    store: distributed.TCPStore,
    *,
    rank: int,
    count: int,
    device: Literal["cpu", "cuda"],
    timeout_s: float,
    gpu: int = 0,
) -> Ranks:
    """Wait for the other ranks and return this one; with ``cuda`` it computes on GPU ``gpu``.

    Gloo and NCCL use the interface through which this node reaches the store, unless their own
    environment variables name another. Collective operations fail after ``timeout_s``.
    """
    interface = interface_to(store.host, store.port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if device == "cuda":
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
        torch.cuda.set_device(gpu)
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


def interface_to(address: str, port: int) -> str:
    """Return this node's network interface from which packets to ``address`` leave.

    For an address of this node, that is the interface that has the address.
    """
    with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))  # sends nothing
        own = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == own for each in addresses):
            return name
    raise LearnerError(f"learner.devices above 1 needs an interface with {own}, found none")


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
