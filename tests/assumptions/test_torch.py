"""Facts about PyTorch and the files of safetensors."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def the_same_random_numbers_after_each_test() -> Iterator[None]:
    state = torch.random.get_rng_state()
    yield
    torch.random.set_rng_state(state)


def test_forked_random_numbers_leave_the_process_s_own():
    """What `fork_rng(devices=[])` encloses changes none of the random numbers that follow.

    Needed by: coevolve/learning/policy.py, coevolve/models/tiny_random/model.py
    """
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        torch.rand(100)
    assert torch.equal(torch.rand(4), expected)


def test_a_seed_gives_the_same_layer():
    """The initial weights of a layer depend on `manual_seed` alone.

    Needed by: coevolve/learning/policy.py
    """
    made: list[torch.Tensor] = []
    for _ in range(2):
        torch.manual_seed(5)
        made.append(torch.nn.Linear(7, 5).weight.detach())
    assert torch.equal(*made)


def test_a_meta_device_takes_no_memory():
    """Modules that are made under `torch.device("meta")` have shapes and no values.

    Needed by: coevolve/models/load.py
    """
    with torch.device("meta"):
        layer = torch.nn.Linear(1 << 20, 1 << 20)  # 4 TB
    assert layer.weight.is_meta
    assert layer.weight.numel() == 1 << 40


def test_a_recomputed_part_has_the_same_gradient():
    """A checkpoint without reentry passes on gradients, also with arguments that are no tensors.

    Needed by: coevolve/learning/scoring.py
    """
    head = torch.nn.Linear(4, 3)
    hidden = torch.rand(2, 4, requires_grad=True)

    def part(layer: torch.nn.Module, rows: torch.Tensor, nothing: None) -> torch.Tensor:
        assert nothing is None
        return layer(rows).logsumexp(-1)

    (expected,) = torch.autograd.grad(part(head, hidden, None).sum(), hidden)
    again = checkpoint(part, head, hidden, None, use_reentrant=False, preserve_rng_state=False)
    (found,) = torch.autograd.grad(again.sum(), hidden)
    assert torch.equal(found, expected)


def test_repeatable_arithmetic_fills_memory_unless_told_otherwise():
    """`fill_uninitialized_memory` exists and is on by default.

    Needed by: coevolve/learning/policy.py
    """
    fresh = "import torch; assert torch.utils.deterministic.fill_uninitialized_memory"
    subprocess.run([sys.executable, "-c", fresh], check=True)


def test_a_gradient_s_norm_is_that_before_clipping():
    """`clip_grad_norm_` returns the norm before it scales the gradient down.

    Needed by: coevolve/learning/optimizers.py
    """
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    assert float(torch.nn.utils.clip_grad_norm_([weight], 1.0)) == 5.0
    assert float(weight.grad.norm()) == pytest.approx(1.0, abs=1e-5)


def test_momentum_moves_weights_without_a_gradient():
    """AdamW goes on by its momentum at a step whose gradient is zero.

    Needed by: coevolve/learning/optimizers.py
    """
    weight = torch.nn.Parameter(torch.zeros(1))
    adam = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.0)
    weight.grad = torch.ones(1)
    adam.step()
    before = weight.detach().clone()
    weight.grad = torch.zeros(1)
    adam.step()
    assert not torch.equal(weight, before)


def test_zero_times_infinity_is_no_number():
    """A probability of 0 times its logarithm is NaN.

    Needed by: coevolve/learning/scoring.py
    """
    logprobs = torch.log_softmax(torch.tensor([0.0, float("-inf")]), dim=-1)
    assert torch.isnan(logprobs.exp() * logprobs)[1]


def test_the_same_tensors_make_the_same_file(tmp_path: Path):
    """`save_file` writes the same bytes for the same tensors, in whatever order they are given.

    Needed by: coevolve/learning/policy.py, coevolve/models/weight_files.py
    """
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "one", metadata={"format": "pt"})
    save_file(dict(reversed(tensors.items())), tmp_path / "other", metadata={"format": "pt"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_file_keeps_every_bit(tmp_path: Path):
    """Tensors that are read back have the same bits, odd numbers included.

    Needed by: coevolve/weights/published.py
    """
    odd = torch.tensor([float("nan"), -0.0, 1e-45, float("inf")])
    save_file({"odd": odd}, tmp_path / "file")
    assert load_file(tmp_path / "file")["odd"].view(torch.int32).tolist() == (
        odd.view(torch.int32).tolist()
    )


def test_a_tensor_that_is_a_view_has_to_be_made_contiguous_first(tmp_path: Path):
    """`save_file` refuses a tensor that is not contiguous.

    Needed by: coevolve/learning/policy.py
    """
    with pytest.raises(ValueError, match="contiguous"):
        save_file({"t": torch.rand(2, 3).T}, tmp_path / "file")
