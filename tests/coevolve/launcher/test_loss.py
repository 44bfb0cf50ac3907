"""A failure that the loss of the cluster causes is told as the loss."""

import socket
from pathlib import Path

import pytest

from coevolve.launcher import cluster
from coevolve.launcher.launch import _unless_lost
from protocols.errors import JournalError, LostError


async def failing() -> None:
    raise JournalError("the store's process does not start: its owner has died")


async def test_a_part_that_fails_before_the_loss_of_a_joined_cluster_is_seen_is_not_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cluster, "LOOK_S", 1.2)  # a loss counts after two looks
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as head:
        joined = cluster.Joined(
            address=f"127.0.0.1:{head.getsockname()[1]}", socket=str(tmp_path / "raylet")
        )
        with pytest.raises(LostError, match=r"\(raylet\) is gone; .*: coevolve resume run"):
            await _unless_lost(failing(), joined, "coevolve resume run", said.append)
    assert len(said) == 1
