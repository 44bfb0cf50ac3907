"""The adapter operations on the CPU, compared with those that vLLM ships."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

ADAPTERS, RANK, INPUTS, OUTPUTS = 3, 8, 24, 40


def stacked(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(ADAPTERS, 1, rows, columns)


def test_products_are_those_of_vllm_wherever_there_is_an_adapter():
    from vllm.lora.ops import torch_ops

    from coevolve.engine.vllm import repairs

    torch.manual_seed(0)
    adapter_N = torch.tensor([0, 2, 2, 1, 0, 2])
    inputs, down, up = torch.randn(6, INPUTS), stacked(RANK, INPUTS), stacked(OUTPUTS, RANK)
    ours, theirs = torch.zeros(6, RANK), torch.zeros(6, RANK)
    repairs.shrink(inputs, down, ours, adapter_N, 0.5)
    torch_ops.bgmv_shrink(inputs, down, theirs, adapter_N, 0.5)
    assert torch.allclose(ours, theirs, atol=1e-5)
    for add in (True, False):
        mine, its = torch.ones(6, OUTPUTS + 9), torch.ones(6, OUTPUTS + 9)
        repairs.expand_slice(ours, up, mine, adapter_N, 5, OUTPUTS, add)
        torch_ops.bgmv_expand_slice(ours, up, its, adapter_N, 5, OUTPUTS, add)
        assert torch.allclose(mine, its, atol=1e-5)
        repairs.expand(ours, up, mine, adapter_N, add)
        torch_ops.bgmv_expand(ours, up, its, adapter_N, add)
        assert torch.allclose(mine, its, atol=1e-5)


@pytest.mark.parametrize("adapters", [[-1, 0, -1, 2], [-1] * 4])
def test_rows_without_an_adapter_stay_as_they_are(adapters: list[int]):
    from coevolve.engine.vllm import repairs

    adapter_N = torch.tensor(adapters)
    output = torch.ones(4, OUTPUTS)
    repairs.expand(torch.randn(4, RANK), stacked(OUTPUTS, RANK), output, adapter_N)
    assert bool((output[adapter_N < 0] == 1).all())
    assert bool((output[adapter_N >= 0] != 1).any(1).all())


def test_many_rows_of_one_adapter_cost_one_product():
    from vllm.lora.ops import torch_ops

    from coevolve.engine.vllm import repairs

    rows, width = 512, 256
    inputs, down = torch.randn(rows, width), torch.randn(ADAPTERS, 1, 16, width)
    output, adapter_N = torch.zeros(rows, 16), torch.ones(rows, dtype=torch.long)

    def seconds(shrink: Callable[..., Any]) -> float:
        began = time.process_time()
        for _ in range(10):
            shrink(inputs, down, output, adapter_N, 1.0)
        return time.process_time() - began

    assert seconds(repairs.shrink) * 3 < seconds(torch_ops.bgmv_shrink)
