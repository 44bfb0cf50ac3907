"""Facts about vLLM that need no engine."""

import inspect
from dataclasses import fields
from typing import Any, get_args

import pytest

from protocols.numbers import MIN_TEMPERATURE

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


@pytest.mark.parametrize("asked", [0.001, 0.009])
def test_low_temperatures_are_raised(asked: float):
    """A temperature between 0 and 0.01 becomes 0.01 without an error.

    Needed by: protocols/numbers.py, coevolve/engine/vllm/core.py
    """
    from vllm import SamplingParams

    assert SamplingParams(temperature=asked).temperature == MIN_TEMPERATURE
    assert SamplingParams(temperature=0.0).temperature == 0.0


def test_adapters_of_one_name_are_equal():
    """Two requests for adapters of one name are equal, whatever their folders.

    Needed by: coevolve/engine/vllm/core.py
    """
    from vllm.lora.request import LoRARequest

    assert LoRARequest("policy@1", 1, "/a") == LoRARequest("policy@1", 1, "/b")
    assert LoRARequest("policy@1", 1, "/a") != LoRARequest("policy@2", 2, "/a")


def test_adapters_have_few_ranks():
    """Space for adapters can have the ranks 1, 8, 16, 32, 64, 128, 256, 320 and 512 alone.

    Needed by: coevolve/engine/vllm/arguments.py, coevolve/export/card.py
    """
    from vllm.config.lora import LoRAConfig

    from coevolve.engine.vllm.arguments import RANKS

    (kind,) = [each.type for each in fields(LoRAConfig) if each.name == "max_lora_rank"]
    assert set(RANKS) <= set(get_args(kind))


def test_some_architectures_run_with_transformers_code():
    """An architecture that vLLM does not implement is registered with transformers' own classes.

    Needed by: coevolve/engine/vllm/core.py
    """
    from vllm import ModelRegistry

    models: Any = ModelRegistry.models
    foreign = models["SmolLM3ForCausalLM"].module_name
    assert foreign == "vllm.model_executor.models.transformers"
    assert models["Qwen3ForCausalLM"].module_name.endswith("models.qwen3")


def test_a_final_output_names_the_versions_of_its_tokens():
    """A completion has `weight_versions`, spans of tokens with the version that sampled them.

    Needed by: coevolve/engine/vllm/core.py
    """
    from vllm.outputs import CompletionOutput, WeightVersionSpan

    assert "weight_versions" in inspect.signature(CompletionOutput).parameters
    assert {"version", "start", "end"} <= set(inspect.signature(WeightVersionSpan).parameters)


def test_flat_logprobs_are_lists_of_numbers():
    """`FlatLogprobs` keeps the logprobs of all tokens in one list.

    Needed by: coevolve/engine/vllm/core.py
    """
    from vllm.logprobs import FlatLogprobs

    found = FlatLogprobs()
    assert found.logprobs == []
    assert found.token_ids == []
