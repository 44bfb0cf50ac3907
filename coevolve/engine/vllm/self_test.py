"""Compares a vLLM engine with transformers at start-up, and refuses to serve wrong numbers.

It compares the logprobs of greedy answers with one float32 forward of transformers over prompt and
answer, in three situations. In each of them, vLLM has computed wrong numbers without an error:

1. conversations with and without an adapter in one batch, if adapters are served;
2. after all weights were replaced by themselves, shifted by one row;
3. after they were replaced again, by the initial weights; if layers slide, also with a prompt that
   is longer than their window.

For this, the model is read a second time, on the CPU and in float32.

Letters: N conversations, T positions, A positions of the answer, V vocabulary; r rank, I inputs and
O outputs of a layer.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import vllm
from safetensors.torch import save

from coevolve.engine.fitting import in_short
from coevolve.engine.masks import length_beyond_window
from coevolve.engine.vllm.arguments import Limits
from coevolve.engine.vllm.core import Core
from coevolve.models.load import read_model
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.weight_files import SETTINGS_FILES, WEIGHTS_FILES, version_digest
from coevolve.weights.published import read_published
from protocols.config import VllmEngine
from protocols.errors import ConfigError, GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion

PROMPT_TOKENS = 24
ANSWER_TOKENS = 4
CONVERSATIONS = 4
TOLERANCE = {"float32": 2e-3, "bfloat16": 0.15, "float16": 0.05}
"""Mean absolute difference of logprobs, by precision. Each defect causes ten times as much."""

CHANGE = 0.5
"""Size of the adapter's change to a weight, in standard deviations of that weight."""

SHIFT = 1
"""Number of rows by which the second situation shifts every weight."""

NUMBER = 0
"""Policy version of the tested weights; afterwards the engine serves the run's own version 0."""

Spoken = tuple[GenerationRequest, Generation]


def check(core: Core[Any], folder: Path, settings: VllmEngine, limits: Limits, seed: int) -> None:
    """Compare ``core``, an idle engine of the model in ``folder``, with transformers.

    Raises GeneratorError if it differs or fails; otherwise it serves the initial weights again.
    """
    try:
        _check(core, folder, settings, limits, seed)
    except (GeneratorError, ConfigError):
        raise
    except Exception as error:
        raise GeneratorError(
            f"{folder}: vLLM {vllm.__version__} loads it but fails at its first tokens, with "
            f"rollout.engine.dtype {settings.dtype}: {type(error).__name__}: {in_short(error)}. "
            "Nothing is served; choose another dtype, or rollout.engine.kind transformers"
        ) from error


def _check(core: Core[Any], folder: Path, settings: VllmEngine, limits: Limits, seed: int) -> None:
    model = cast("Any", read_model(folder)).eval().requires_grad_(False)
    rng = np.random.default_rng(seed)
    length = min(PROMPT_TOKENS, limits.length - ANSWER_TOKENS)
    prompts = rng.integers(model.config.vocab_size, size=(CONVERSATIONS, length)).tolist()
    tolerance = TOLERANCE[settings.dtype]
    if limits.adapters:
        _check_adapter(core, model, prompts, limits, tolerance, rng)
    for shift, what in ((SHIFT, "after new weights"), (-SHIFT, "after the first weights again")):
        for parameter in model.parameters():
            parameter.copy_(parameter.roll(shift, 0))
        core.serve_weights(model.named_parameters(), NUMBER)
        _start(core, prompts, "weights")
        _compare(model, _answers(core), tolerance, what)
    longer = length_beyond_window(model.config, limits.length - ANSWER_TOKENS)
    if longer is not None:
        _start(core, [rng.integers(model.config.vocab_size, size=longer).tolist()], "longer")
        _compare(model, _answers(core), tolerance, "beyond the window of its layers")


def _check_adapter(
    core: Core[Any],
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Limits,
    tolerance: float,
    rng: np.random.Generator,
) -> None:
    base = {name: tensor.clone() for name, tensor in model.named_parameters()}
    with scratch_folder() as scratch:
        version = _adapter(scratch.path, model, limits.rank, rng)
        _start(core, prompts, "base")
        # Use every adapter slot, because an empty slot hides the confusion with "no adapter".
        for number in range(limits.adapters):
            core.serve_adapter(scratch.path, version.version, f"{number}")
            _start(core, prompts[:1], f"adapter {number}")
        spoken = _answers(core)
        plain = [each for each in spoken if each[0].conversation_id.startswith("base")]
        _compare(model, plain, tolerance, "without an adapter, beside others with one")
        model.load_state_dict(read_published(version, scratch.path).weights(base), strict=False)
        adapted = [each for each in spoken if each not in plain]
        _compare(model, adapted, tolerance, "with an adapter, beside others without")
    model.load_state_dict(base, strict=False)
    core.serve_base()


def _adapter(folder: Path, model: Any, rank: int, rng: np.random.Generator) -> PolicyVersion:
    """Write an adapter of every linear layer except the output, as PEFT does."""
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    tensors: dict[str, torch.Tensor] = {}
    modules: set[str] = set()
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or name.endswith("lm_head"):
            continue
        modules.add(name.rpartition(".")[2])
        rows, columns = module.weight.shape
        down_r_I = torch.randn(rank, columns, generator=generator)
        up_O_r = torch.randn(rows, rank, generator=generator)
        tensors[f"base_model.model.{name}.lora_A.weight"] = down_r_I
        up_O_r *= CHANGE * float(module.weight.std()) / rank**0.5
        tensors[f"base_model.model.{name}.lora_B.weight"] = up_O_r
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [*modules]}
    (folder / SETTINGS_FILES["lora"]).write_text(json.dumps(settings))
    content = save(tensors)
    (folder / WEIGHTS_FILES["lora"]).write_bytes(content)
    return PolicyVersion(
        version=NUMBER,
        path="",
        format="lora",
        digest=version_digest(folder, "lora"),
        size_bytes=len(content),
        kept=False,
    )


def _start(core: Core[Any], prompts: Sequence[Sequence[int]], name: str) -> None:
    for number, prompt in enumerate(prompts):
        request = GenerationRequest(
            conversation_id=f"{name} {number}",
            prompt_ids=tuple(prompt),
            max_tokens=ANSWER_TOKENS,
            stop_ids=(),
            temperature=0.0,
            seed=0,
        )
        core.start(request, request)


def _answers(core: Core[Any]) -> list[Spoken]:
    spoken: list[Spoken] = []
    while core.busy:
        for request, said in core.tick():
            if isinstance(said, GeneratorError):
                raise said
            spoken.append((request, cast("Generation", said)))
    return spoken


def _compare(model: Any, spoken: Sequence[Spoken], tolerance: float, situation: str) -> None:
    ids_N_T = torch.tensor([request.prompt_ids + said.token_ids for request, said in spoken])
    said_N_A = ids_N_T[:, -ANSWER_TOKENS:]
    logits_N_A_V = model(input_ids=ids_N_T).logits[:, -ANSWER_TOKENS - 1 : -1]
    expected_N_A_V = torch.log_softmax(logits_N_A_V.float(), dim=-1)
    expected_N_A = expected_N_A_V.gather(2, said_N_A[..., None])[..., 0]
    found_N_A = torch.tensor([said.logprobs for _, said in spoken])
    difference = float((found_N_A - expected_N_A).abs().mean())
    if not difference <= tolerance:
        raise GeneratorError(
            f"vLLM {vllm.__version__} computes other numbers than transformers, {situation}: "
            f"logprobs differ by {difference:.4f} on average, the maximum is {tolerance:g}. "
            "Nothing is served; use a version listed in coevolve/engine/vllm/repairs.py, or "
            "rollout.engine.kind transformers"
        )
