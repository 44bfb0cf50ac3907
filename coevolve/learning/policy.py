"""The model that learns: its probabilities, and its weights on disk.

Letters: B rows, T positions (padded on the right), N tokens that the policy wrote, V vocabulary.

Weights are float32 and dropout is off, so that the trainer's probabilities are those of the engine
that samples. Full weights are saved as `transformers` does, LoRA weights as `peft` does; each loads
the folder without this project. The same weights always make the same file.
"""

# torch, transformers and peft are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from peft import (
    LoraConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
)
from safetensors.torch import save_file
from transformers import PreTrainedModel

from coevolve.learning.batch import Row
from coevolve.learning.reading import read_model
from protocols.config import PolicyConfig
from protocols.learning import WeightsFormat

PAD = 0
"""Any token will do: causal attention never looks to the right, and the mask is 0 there."""

WEIGHTS_FILES: dict[WeightsFormat, str] = {
    "full": "model.safetensors",
    "lora": "adapter_model.safetensors",
}
"""Names that `transformers` and `peft` give to the file with the weights."""

LOGITS_PER_MICRO_BATCH = 2**19
"""Entries of one micro-batch's logits: what bounds the memory of a step.

More rows at a time cost more padding than they save: 682 tokens at a time make the tiny policy's
step a third faster than all of its 4,400 at once.
"""


class Policy:
    """A causal language model in training."""

    def __init__(
        self,
        config: PolicyConfig,
        base: Path,
        *,
        weights: Path | None = None,
        seed: int = 0,
        threads: int = 1,
        with_reference: bool = False,
    ) -> None:
        """Load the model.

        Args:
            config: Whether all weights learn, or an adapter.
            base: Folder of the model that the run starts from.
            weights: Folder that ``save`` wrote; without it the policy is version 0.
            seed: Decides how a new adapter starts.
            threads: CPU threads of a step.
            with_reference: Whether ``reference_logprobs`` will be asked for.
        """
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(True)
        self._config = config
        self._reference: PreTrainedModel | None = None
        if config.train == "full":
            self._model: PreTrainedModel | PeftModel = read_model(weights or base)
            if with_reference:
                self._reference = read_model(base).requires_grad_(False)
        else:
            self._model = _with_adapter(read_model(base), config, weights, seed)
        self._model.eval()
        self._vocabulary = int(cast("Any", self._model.config).vocab_size)

    @property
    def vocabulary(self) -> int:
        """Return how many tokens the model knows; their ids are below it."""
        return self._vocabulary

    def parameters(self) -> list[torch.nn.Parameter]:
        """Return what learns."""
        return [each for each in self._model.parameters() if each.requires_grad]

    def logprobs(
        self, ids_B_T: torch.Tensor, mask_B_T: torch.Tensor, *, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (logprobs_N, entropies_N) of the masked tokens, row by row.

        The entropies carry no gradient.
        """
        return _logprobs(self._model, ids_B_T, mask_B_T, temperature)

    @torch.no_grad()
    def reference_logprobs(
        self, ids_B_T: torch.Tensor, mask_B_T: torch.Tensor, *, temperature: float
    ) -> torch.Tensor:
        """Return what version 0 thinks of the masked tokens."""
        with self._as_reference() as model:
            return _logprobs(model, ids_B_T, mask_B_T, temperature)[0]

    def micro_batches(self, rows: Sequence[Row]) -> Iterator[list[Row]]:
        """Split ``rows`` by length, so that little is padded and the logits fit."""
        budget = LOGITS_PER_MICRO_BATCH // self._vocabulary
        pack: list[Row] = []
        for row in sorted(rows, key=lambda each: len(each.token_ids)):
            if pack and (len(pack) + 1) * len(row.token_ids) > budget:
                yield pack
                pack = []
            pack.append(row)
        if pack:
            yield pack

    def save(self, folder: Path) -> None:
        """Write weights and config into ``folder``, which exists."""
        if isinstance(self._model, PeftModel):
            state = get_peft_model_state_dict(self._model)
            save_file(
                {name: tensor.contiguous() for name, tensor in state.items()},
                folder / WEIGHTS_FILES["lora"],
                metadata={"format": "pt"},
            )
            self._model.peft_config["default"].save_pretrained(str(folder))
        else:
            self._model.save_pretrained(folder, max_shard_size="1000GB")

    @contextmanager
    def _as_reference(self) -> Generator[PreTrainedModel | PeftModel]:
        if isinstance(self._model, PeftModel):
            with self._model.disable_adapter():
                yield self._model
        elif self._reference is not None:
            yield self._reference
        else:
            raise ValueError("a reference needs with_reference=True when the policy is loaded")


def padded(rows: Iterable[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (ids_B_T, mask_B_T) of ``rows``; nothing predicts a row's first token: mask 0."""
    rows = list(rows)
    longest = max(len(row.token_ids) for row in rows)
    ids_B_T = np.full((len(rows), longest), PAD, dtype=np.int64)
    mask_B_T = np.zeros((len(rows), longest), dtype=np.bool_)
    for number, row in enumerate(rows):
        ids_B_T[number, : len(row.token_ids)] = row.token_ids
        mask_B_T[number, 1 : len(row.mask)] = row.mask[1:]
    return torch.from_numpy(ids_B_T), torch.from_numpy(mask_B_T)


def _with_adapter(
    base: PreTrainedModel, config: PolicyConfig, weights: Path | None, seed: int
) -> PeftModel:
    if weights is not None:
        return PeftModel.from_pretrained(base, str(weights), is_trainable=True)
    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return cast("PeftModel", get_peft_model(base, lora))


def _logprobs(
    model: PreTrainedModel | PeftModel,
    ids_B_T: torch.Tensor,
    mask_B_T: torch.Tensor,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    logits_B_T_V: torch.Tensor = model(input_ids=ids_B_T[:, :-1], use_cache=False).logits
    chosen_B_T = mask_B_T[:, 1:]
    logprobs_N_V = torch.log_softmax(logits_B_T_V[chosen_B_T] / temperature, dim=-1)
    targets_N = ids_B_T[:, 1:][chosen_B_T]
    logprobs_N = logprobs_N_V.gather(1, targets_N[:, None])[:, 0]
    with torch.no_grad():
        entropies_N = -(logprobs_N_V.exp() * logprobs_N_V).sum(-1)
    return logprobs_N, entropies_N
