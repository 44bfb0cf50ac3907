"""The memory and the precision of one rank, without others."""

import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from coevolve.learning.policy import Policy
from coevolve.learning.sharded.ranks import Ranks, whole
from coevolve.learning.sharded.rendezvous import LOOPBACK, join, leave, open_meeting
from coevolve.models.load import read_model, read_outline
from protocols.config import PolicyConfig
from tests import exposure
from tests.learning import small_model

BYTES = 4
"""Of a float32."""


class Memory(TorchDispatchMode):
    """Measures the most bytes that tensors with memory had at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._live: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            tensor = leaf.to_local() if isinstance(leaf, DTensor) else leaf
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        address = storage.data_ptr()
        if storage.nbytes() and address not in self._live:
            self._live[address] = storage.nbytes()
            weakref.finalize(storage, self._live.pop, address)
            self.most = max(self.most, sum(self._live.values()))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return small_model(tmp_path)


@pytest.fixture
def one_of_four(model: Path) -> Generator[Ranks]:
    """Yield rank 1 of a group whose other ranks do not exist; ``model`` is written before."""
    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
    yield Ranks(rank=1, count=4, mesh=init_device_mesh("cpu", (4,)))
    distributed.destroy_process_group()


@pytest.fixture
def first(model: Path) -> Generator[Ranks]:
    """Yield the only rank of a group; ``model`` is written before."""
    distributed.init_process_group("gloo", store=open_meeting(LOOPBACK, 1), rank=0, world_size=1)
    yield Ranks(mesh=init_device_mesh("cpu", (1,)))
    distributed.destroy_process_group()


def test_ranks_of_one_machine_meet_on_loopback():
    join(open_meeting(LOOPBACK, 1), rank=0, count=1, device="cpu", timeout_s=60.0)
    try:
        assert exposure.listening(psutil.Process())
        assert exposure.reachable_sockets([psutil.Process()]) == []
    finally:
        leave()


def test_a_rank_computes_in_bfloat16_and_keeps_float32(first: Ranks, model: Path):
    exact, sharded = read_model(model), read_outline(model)
    first.shard(sharded, torch.bfloat16)
    first.fill(sharded, exact.state_dict())
    logits: list[torch.Tensor] = []
    for each in (exact, sharded):
        logits.append(each(input_ids=torch.arange(12)[None]).logits)
        logits[-1].float().logsumexp(-1).sum().backward()
    assert logits[1].dtype == torch.bfloat16
    torch.testing.assert_close(logits[1].float(), logits[0], atol=0.02, rtol=0.02)
    for mine, its in zip(exact.parameters(), sharded.parameters(), strict=True):
        assert mine.grad is not None
        assert its.grad is not None
        assert its.dtype == its.grad.dtype == torch.float32
        assert whole(its).equal(mine)
        found = torch.nn.functional.cosine_similarity(
            whole(its.grad).flatten(), mine.grad.flatten(), dim=0
        )
        assert found > 0.99


def test_a_rank_has_memory_for_its_shards_alone_even_while_it_loads(
    one_of_four: Ranks, model: Path
):
    whole = sum(each.numel() for each in read_model(model).parameters())
    with Memory() as memory:
        policy = Policy(PolicyConfig(), model, filled=False, ranks=one_of_four)
    assert policy.vocabulary
    assert BYTES * whole / 4 <= memory.most < BYTES * whole / 3
