"""TRL's GRPO trainer on the rows that this project's learner trains on.

The tensors are those that TRL's `_generate_and_score_completions` passes to `_compute_loss` and to
`training_step`: the prompt padded on the left, the rest padded on the right, and a mask of the
tokens that the policy wrote (`tool_mask`, as in TRL's own conversations with tools). TRL has
importance weights only with its vLLM engine, so the switch is set after the trainer was made
without one.
"""

# TRL and datasets are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from transformers import AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from coevolve.learning.rows import Row
from coevolve.models.load import read_model

PAD = 0

ON_CPU: dict[str, Any] = {
    "use_cpu": True,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}
"""Arguments of TRL's configs with which a trainer runs on the CPU and writes nothing."""

Inputs = dict[str, torch.Tensor]
"""One micro-batch: letters B rows, P prompt positions, C positions from the first written token."""


class TrlPeer:
    """TRL's trainer of the model in a folder, on the CPU."""

    def __init__(self, folder: Path, output_dir: Path, *, rows: int, **settings: Any) -> None:
        """Load the model; ``settings`` are fields of `GRPOConfig`, ``rows`` the batch size."""
        fields: dict[str, Any] = ON_CPU | {
            "output_dir": str(output_dir),
            "bf16": False,
            "per_device_train_batch_size": rows,
            "num_generations": rows,
        }
        tokenizer: Any = cast("Any", AutoTokenizer).from_pretrained(folder)
        self.trainer: Any = GRPOTrainer(
            model=read_model(folder),
            reward_funcs=_no_reward,
            args=GRPOConfig(**(fields | settings)),
            train_dataset=Dataset.from_dict({"prompt": ["never asked"] * rows}),
            processing_class=tokenizer,
        )
        self.model: torch.nn.Module = self.trainer.model
        self.model.train()
        self._micro_batches: int = self.trainer.args.gradient_accumulation_steps
        self.trainer.current_gradient_accumulation_steps = self._micro_batches
        self._optimizer: torch.optim.Optimizer = self.trainer.create_optimizer()

    def use_importance_weights(self) -> None:
        """Multiply losses by ``importance_sampling_ratio``, which the inputs must then contain."""
        self.trainer.use_vllm = True

    def loss(self, inputs: Inputs) -> torch.Tensor:
        """Return the loss of one micro-batch."""
        return self.trainer.compute_loss(self.model, inputs)

    def step(self, inputs: Inputs) -> None:
        """Take the optimizer step that TRL takes on a generation batch of ``inputs``.

        TRL shuffles them, splits them into micro-batches, and keeps their padding.
        """

        def generated(_: object) -> Inputs:
            return inputs

        self.trainer._generate_and_score_completions = generated
        for _ in range(self._micro_batches):
            self.trainer.training_step(self.model, {}, None)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.trainer.args.max_grad_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()

    @torch.no_grad()
    def logprobs(self, inputs: Inputs) -> torch.Tensor:
        """Return logprobs_B_C under the model."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        count = inputs["completion_ids"].shape[1]
        return self.trainer._get_per_token_logps_and_entropies(self.model, ids, mask, count)[0]


def trl_inputs(rows: Sequence[Row]) -> Inputs:
    """Return ``rows`` padded as by TRL; each has a token before its first written one."""
    sides = [side for row in rows for side in row.sides]
    starts = [list(side.mask).index(1) for side in sides]
    prompts = [list(side.token_ids[:start]) for side, start in zip(sides, starts, strict=True)]
    rests = [list(side.token_ids[start:]) for side, start in zip(sides, starts, strict=True)]
    written = [list(side.mask[start:]) for side, start in zip(sides, starts, strict=True)]
    return {
        "prompt_ids": _left(prompts),
        "prompt_mask": _left([[1] * len(prompt) for prompt in prompts]),
        "completion_ids": _right(rests),
        "completion_mask": _right([[1] * len(rest) for rest in rests]),
        "tool_mask": _right(written),
        "advantages": torch.tensor([row.streams[0].targets[0] for row in rows]),
        "num_items_in_batch": torch.tensor(float(sum(map(sum, written)))),
    }


def written_columns(rows: Sequence[Row], columns: Sequence[Sequence[float]]) -> torch.Tensor:
    """Return values_B_C, one per position of ``rows``, at the places of `trl_inputs`."""
    starts = [list(side.mask).index(1) for row in rows for side in row.sides]
    values = [list(column)[start:] for column, start in zip(columns, starts, strict=True)]
    longest = max(map(len, values))
    return torch.tensor([value + [0.0] * (longest - len(value)) for value in values])


def _no_reward(completions: Sequence[str], **_: object) -> list[float | None]:
    return [0.0] * len(completions)


def _left(rows: Sequence[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[PAD] * (longest - len(row)) + row for row in rows])


def _right(rows: Sequence[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
