"""The model in training: its probabilities, and its weights on disk.

Letters: B rows, T positions (padded on the right), N tokens that the policy wrote, V vocabulary.

Dropout is off, and trainable weights are in float32. With ``policy.precision: fp32`` everything is
in float32, and the trainer's probabilities match those of a float32 engine. With ``bf16``, products
are computed in bfloat16 (autocast), and the frozen weights beside an adapter are stored in
bfloat16. Several GPUs then also gather all weights in bfloat16, so the hidden states between layers
are in bfloat16, and sum gradients in float32. Full weights are saved as `transformers` does, LoRA
weights as `peft` does; each library loads the folder without this project. The same weights always
make the same file.

The reference is the run's initial model. LoRA gets it by disabling the adapter; only full weights
need a second copy.

``policy.device: cuda`` was run on one GPU (`coevolve/docs/gpus.md`), not on several.
"""

# torch, transformers and peft are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
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
from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers
from safetensors.torch import save_file
from transformers import PreTrainedModel

from coevolve.base.foreign import boundary
from coevolve.learning.rows import Conversation, Row, sides
from coevolve.learning.scoring import score
from coevolve.learning.sharded.ranks import ALONE, Ranks, all_whole
from coevolve.learning.sharded.shards import read_safetensors
from coevolve.learning.shared_prefix import Prefix, can_share, saved
from coevolve.models.allocator import return_freed_memory
from coevolve.models.load import read_model, read_outline
from coevolve.models.model_folder import HUB_ID
from coevolve.models.weight_files import WEIGHTS_FILES
from protocols.config import PolicyConfig
from protocols.errors import LearnerError

PAD = 0
"""Any token works: causal attention never looks to the right, and the mask is 0 there."""

EMPTY = Conversation(token_ids=(PAD, PAD), mask=(0, 0))
"""A placeholder for a forward pass without rows."""

BF16 = torch.bfloat16

NO_ADAPTER = "policy.train: lora needs a model to which peft can add an adapter"
ANOTHER_MODEL = "; choose another model, or policy.train: full"

Model = PreTrainedModel | PeftModel


class Policy:
    """A causal language model in training."""

    def __init__(
        self,
        config: PolicyConfig,
        base: Path,
        *,
        weights: Path | None = None,
        filled: bool = True,
        seed: int = 0,
        with_reference: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        """Load the model.

        Args:
            config: Whether to train all weights or an adapter.
            base: Folder of the run's initial model.
            weights: Folder that ``save`` wrote; without it, the policy is version 0.
            filled: Whether to load what is trained; without it, the caller sets `tensors`.
            seed: Seeds the initial weights of a new adapter.
            with_reference: Whether ``reference_logprobs`` will be called.
            ranks: The ranks that share the weights, including this process.
        """
        self._config = config
        self._base = base
        self._ranks = ranks
        self._device = torch.device(config.device)
        self._reference: Model | None = None
        frozen = torch.float32 if config.precision == "fp32" else BF16
        if config.train == "full":
            self._model = self._open(self._prepare, read=filled and weights is None)
            if with_reference:
                self._reference = self._open(_fixed, frozen)
        else:
            self._model = self._open(self._with_adapter(seed), frozen)
        self._model.train(config.gradient_checkpointing)
        if weights is not None:
            self.load(weights)
        self._vocabulary = int(cast("Any", self._model.config).vocab_size)
        is_whole = ranks.count == 1 and not config.gradient_checkpointing
        self._shares_prefixes = is_whole and can_share(self._model)

    @property
    def shares_prefixes(self) -> bool:
        """Return whether sequences of a micro-batch share what they begin with."""
        return self._shares_prefixes

    @property
    def vocabulary(self) -> int:
        """Return the number of tokens of the model; token ids are below it."""
        return self._vocabulary

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.named_parameters().values())

    def named_parameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the trainable parameters by name."""
        return {name: each for name, each in self._model.named_parameters() if each.requires_grad}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return this rank's parts of a version's tensors, by their names in its weights file.

        A tensor with two names has its first one.
        """
        if isinstance(self._model, PeftModel):
            return get_peft_model_state_dict(self._model)
        names: dict[int, str] = {}
        state = self._model.state_dict(keep_vars=True)
        for name, tensor in state.items():
            names.setdefault(id(tensor), name)
        return {name: state[name].detach() for name in names.values()}

    @property
    def device(self) -> torch.device:
        """Return the device on which the policy computes and returns its probabilities."""
        return self._device

    def logprobs(
        self,
        ids_B_T: torch.Tensor,
        mask_B_T: torch.Tensor,
        *,
        temperature: float,
        allowed_N_V: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (logprobs_N, entropies_N) of the masked tokens, row by row.

        The distribution is over the tokens of ``allowed_N_V`` (boolean), or over all tokens. The
        entropies have no gradient.
        """
        return self._score(self._model, ids_B_T, mask_B_T, temperature, allowed_N_V)

    @torch.no_grad()
    def reference_logprobs(
        self,
        ids_B_T: torch.Tensor,
        mask_B_T: torch.Tensor,
        *,
        temperature: float,
        allowed_N_V: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return version 0's logprobs of the masked tokens.

        Raises LearnerError if all weights are trained and the policy was loaded without a
        reference.
        """
        with self._as_reference() as model:
            return self._score(model, ids_B_T, mask_B_T, temperature, allowed_N_V)[0]

    def _score(
        self,
        model: Model,
        ids_B_T: torch.Tensor,
        mask_B_T: torch.Tensor,
        temperature: float,
        allowed_N_V: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ids_B_T, mask_B_T = ids_B_T.to(self._device), mask_B_T.to(self._device)
        if allowed_N_V is not None:
            allowed_N_V = allowed_N_V.to(self._device)
        with torch.autocast(
            self._device.type,
            dtype=BF16,
            enabled=self._config.precision == "bf16",
            # The cache holds the bfloat16 copies of all weights until the end of the forward pass.
            cache_enabled=not self._config.gradient_checkpointing,
        ):
            return score(
                model,
                ids_B_T,
                mask_B_T,
                temperature=temperature,
                allowed_N_V=allowed_N_V,
                shares=self._shares_prefixes,
            )

    def save(self, folder: Path) -> None:
        """Write weights and config into the existing ``folder``; one rank writes for all."""
        weights = all_whole(self.tensors(), self._ranks)
        if not self._ranks.writes:
            return
        if isinstance(self._model, PeftModel):
            save_file(
                {name: tensor.contiguous() for name, tensor in weights.items()},
                folder / WEIGHTS_FILES["lora"],
                metadata={"format": "pt"},
            )
            settings = self._model.peft_config["default"]
            settings.base_model_name_or_path = _base_name(self._config, self._base)
            settings.save_pretrained(str(folder))
        else:
            # Use the parameters' own names, because some published models use others.
            self._model.save_pretrained(
                folder, state_dict=weights, max_shard_size="1000GB", save_original_format=False
            )

    def load(self, folder: Path) -> None:
        """Load the weights that ``save`` wrote into ``folder``; each rank reads its parts."""
        read_safetensors(self.tensors(), folder, self._ranks)

    def _open(
        self,
        change: Callable[[PreTrainedModel], Model],
        dtype: torch.dtype = torch.float32,
        *,
        read: bool = True,
    ) -> Model:
        """Return the base, changed by ``change``, on the device, and sharded if there are ranks.

        Only rank 0 reads the base, and sends it to the others. Sharded weights that are not
        ``read`` have no values yet.
        """
        if self._ranks.count == 1:
            model = change(read_model(self._base, dtype))
            cast("torch.nn.Module", model).to(self._device)
            return model
        model = change(read_outline(self._base, dtype))
        in_bf16 = self._config.precision == "bf16" and self._device.type == "cuda"
        self._ranks.shard(model, BF16 if in_bf16 else None)
        if read:
            source = change(read_model(self._base, dtype)) if self._ranks.writes else None
            self._ranks.fill(model, source.state_dict() if source else {})
        return model

    def _prepare(self, model: PreTrainedModel) -> PreTrainedModel:
        if self._config.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    def _with_adapter(self, seed: int) -> Callable[[PreTrainedModel], Model]:
        """Return a function that adds an adapter, whose weights depend on ``seed`` alone."""

        def add(base: PreTrainedModel) -> Model:
            with (
                boundary(LearnerError, NO_ADAPTER, ANOTHER_MODEL),
                torch.random.fork_rng(devices=[]),
            ):
                torch.manual_seed(seed)
                lora = LoraConfig(
                    r=self._config.lora_rank,
                    lora_alpha=self._config.lora_alpha,
                    lora_dropout=0.0,
                    target_modules=_targets(base, self._config),
                    task_type="CAUSAL_LM",
                )
                return cast("PeftModel", get_peft_model(self._prepare(base), lora))

        return add

    @contextmanager
    def _as_reference(self) -> Generator[Model]:
        if isinstance(self._model, PeftModel):
            with self._model.disable_adapter():
                yield self._model
        elif self._reference is not None:
            yield self._reference
        else:
            raise LearnerError(
                "the run's initial model needs policy.train lora, or an objective that loads it "
                "(needs_initial_model, or is_on_policy with learner.kl_coefficient or "
                "learner.divergence_every above 0), found none of them; set the one that you need"
            )


def make_repeatable(threads: int) -> None:
    """Make this process compute the same bits every time, with this number of CPU threads.

    It also returns what it frees from now on.
    """
    return_freed_memory()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Every buffer is written before it is read, so filling it would only cost a fifth of a step.
    cast("Any", torch.utils.deterministic).fill_uninitialized_memory = False
    # Without this cuBLAS refuses deterministic operation; CUDA reads it at start-up.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def _fixed(model: PreTrainedModel) -> Model:
    return model.requires_grad_(False).eval()


def micro_batches(
    rows: Sequence[Row], budget_tokens: int, *, shares: bool = False
) -> Iterator[list[Row]]:
    """Split ``rows`` by length, which keeps padding small.

    A micro-batch computes at most ``budget_tokens`` positions, including padding, unless it is a
    single row. With ``shares`` its sequences' common prefix counts once.
    """
    pack: list[Row] = []
    count, prefix = 0, Prefix()
    for row in sorted(rows, key=lambda row: row.length):
        further = count + len(row.sides)
        sides = [(each.token_ids, each.mask) for each in row.sides] if shares else []
        joined = prefix.joined(sides)
        computed = further * row.length - saved(joined.length, further, row.length)
        if pack and computed > budget_tokens:
            yield pack
            pack, further = [], len(row.sides)
            joined = Prefix().joined(sides)
        pack.append(row)
        count, prefix = further, joined
    if pack:
        yield pack


def padded(rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (ids_B_T, mask_B_T) of ``rows``; the mask of a row's first token is 0.

    No position predicts that token. Each sequence of a row takes a row of the tensors. Without
    rows, the tensors have one empty row.
    """
    found = sides(rows) or [EMPTY]
    longest = max(len(side.token_ids) for side in found)
    ids_B_T = np.full((len(found), longest), PAD, dtype=np.int64)
    mask_B_T = np.zeros((len(found), longest), dtype=np.bool_)
    for number, side in enumerate(found):
        ids_B_T[number, : len(side.token_ids)] = side.token_ids
        mask_B_T[number, 1 : len(side.mask)] = side.mask[1:]
    return torch.from_numpy(ids_B_T), torch.from_numpy(mask_B_T)


def _base_name(config: PolicyConfig, base: Path) -> str:
    """Return a name by which the base can be loaded: its hub id, or its path on this machine."""
    on_hub = HUB_ID.fullmatch(config.model) and not Path(config.model).is_dir()
    return config.model if on_hub and not config.tiny_random else str(base.resolve())


def written(mask_B_T: torch.Tensor) -> list[int]:
    """Return the number of tokens that the policy wrote in each row of ``mask_B_T``."""
    return cast("list[int]", mask_B_T.sum(1).tolist())


def _targets(base: PreTrainedModel, config: PolicyConfig) -> list[str]:
    """Return the names of the layers that get an adapter. Raises LearnerError for invalid names."""
    layers = linear_layers(base)
    unfit = sorted(set(config.lora_targets) - set(layers))
    if unfit or not layers:
        raise LearnerError(
            "policy.lora_targets: an adapter can change linear layers other than the output head; "
            f"this model has {', '.join(layers) or 'none'}, found {', '.join(unfit) or 'nothing'}; "
            "name some of these, omit the setting, or choose policy.train: full"
        )
    return list(config.lora_targets) or layers


def linear_layers(model: PreTrainedModel) -> list[str]:
    """Return the names of the layers that can have an adapter, without their module paths.

    These are the linear layers except the output head, experts, and layers that share a name with
    experts.
    """
    head = model.get_output_embeddings()
    modules = cast("Iterable[tuple[str, torch.nn.Module]]", model.named_modules())
    linear = [name for name, each in modules if type(each) is torch.nn.Linear and each is not head]
    if not linear:
        return []
    settings = LoraConfig(target_modules=[name.rpartition(".")[2] for name in linear])
    # Removes the names of experts, because PEFT adapts their tensors differently.
    convert_peft_config_for_transformers(settings, model, None)
    return sorted(settings.target_modules or ())
