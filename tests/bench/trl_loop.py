"""A run's tasks, trained with TRL's own GRPOTrainer, generation and optimizer.

TRL calls its `rollout_func` for the completions of a batch of prompts. This one plays the
multi-turn conversations as a TRL user would write them: transformers' `generate` on the trainer's
model, one message at a time for all conversations of the batch, then the simulator's answers, and
`env_mask` for the tokens that the policy did not write.
"""

# TRL, datasets and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from transformers import AutoTokenizer, GenerationConfig, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from coevolve.environments.tools.chat.call_text import MalformedCallsError
from coevolve.environments.tools.commands import Failed
from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.task import ToolTask, read_body
from protocols.config import RolloutConfig, RunConfig
from protocols.tasks import Task
from tests.bench.trl_peer import ON_CPU, PAD


@dataclass
class _Conversation:
    """One rollout in progress."""

    body: ToolTask
    session: Session
    prompt_ids: list[int]
    errors_left: int
    """Unreadable messages that are still answered."""

    written: list[int] = field(default_factory=list[int])
    mask: list[int] = field(default_factory=list[int])
    turn: int = 0
    calls: int = 0
    passed: int = 0
    over: bool = False

    @property
    def ids(self) -> list[int]:
        """Return all tokens so far."""
        return self.prompt_ids + self.written

    @property
    def solved(self) -> bool:
        """Return whether every turn passed."""
        return self.passed == len(self.body.turns)

    def feed(self, ids: Sequence[int], *, policy: bool) -> None:
        """Add tokens of the policy or of its environment."""
        self.written.extend(ids)
        self.mask.extend([int(policy)] * len(ids))


class TrlLoop:
    """TRL's trainer over a fixed order of tasks."""

    generated_s = 0.0
    """Seconds in `rollout_func` so far."""

    tokens = 0
    """Tokens of all conversations so far."""

    def __init__(
        self,
        config: RunConfig,
        model: Any,
        folder: Path,
        output_dir: Path,
        *,
        renderer: Renderer,
        tasks: Sequence[Task],
        rate: float,
        answered_errors: int = 0,
    ) -> None:
        """Train ``model``, whose tokenizer is in ``folder``, on ``tasks``, a batch a step.

        ``rate`` is the learning rate, constant as is usual with TRL. ``answered_errors`` is the
        number of unreadable messages that a conversation answers.
        """
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        self._config = config
        self._renderer = renderer
        self._tasks = tasks
        self._answered_errors = answered_errors
        self._bf16 = config.policy.precision == "bf16"
        groups, size = config.learner.groups_per_step, config.rollout.group_size
        numbers = [str(number) for number in range(len(self._tasks))]
        self.trainer: Any = GRPOTrainer(
            model=model,
            reward_funcs=_reward,
            args=GRPOConfig(
                **ON_CPU,
                output_dir=str(output_dir),
                bf16=self._bf16,
                logging_strategy="no",
                per_device_train_batch_size=groups * size,
                num_generations=size,
                max_steps=len(tasks) // groups,
                learning_rate=rate,
                lr_scheduler_type="constant",
                adam_beta2=0.98,
                max_grad_norm=config.learner.max_grad_norm,
                temperature=config.rollout.temperature,
                max_completion_length=config.rollout.max_tokens,
                loss_type="dr_grpo",
                beta=0.0,
                epsilon_high=0.28,
                shuffle_dataset=False,
                seed=config.seed,
            ),
            train_dataset=Dataset.from_dict({"prompt": numbers}),
            processing_class=cast("Any", AutoTokenizer).from_pretrained(folder),
            rollout_func=self._roll_out,
        )

    @property
    def model(self) -> torch.nn.Module:
        """Return the model in training."""
        return self.trainer.model

    def train(self, callback: TrainerCallback) -> None:
        """Train to the end; ``callback`` is TRL's."""
        self.trainer.add_callback(callback)
        self.trainer.train()

    def _roll_out(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Return the conversations of a batch in TRL's format."""
        began = time.monotonic()
        model = trainer.accelerator.unwrap_model(trainer.model)
        open_ = [self._begin(self._tasks[int(number)]) for number in prompts]
        model.eval()
        with torch.autocast("cpu", torch.bfloat16) if self._bf16 else nullcontext():
            while live := [each for each in open_ if not each.over]:
                self._advance(model, live)
        model.train()
        self.generated_s += time.monotonic() - began
        self.tokens += sum(len(each.ids) for each in open_)
        return {
            "prompt_ids": [each.prompt_ids for each in open_],
            "completion_ids": [each.written for each in open_],
            "env_mask": [each.mask for each in open_],
            "logprobs": None,
            "passed": [float(each.solved) for each in open_],
        }

    def _begin(self, task: Task) -> _Conversation:
        body = read_body(task.body)
        opening = list(self._renderer.opening(body))
        return _Conversation(body, Session(body), opening, self._answered_errors)

    @torch.no_grad()
    def _advance(self, model: Any, live: Sequence[_Conversation]) -> None:
        """Let the policy write one message in every conversation."""
        limits = self._config.rollout
        longest = max(len(each.ids) for each in live)
        ids = [[PAD] * (longest - len(each.ids)) + each.ids for each in live]
        mask = [[0] * (longest - len(each.ids)) + [1] * len(each.ids) for each in live]
        output = model.generate(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            generation_config=GenerationConfig(
                max_new_tokens=limits.max_call_tokens,
                do_sample=True,
                temperature=limits.temperature,
                top_k=0,
                top_p=1.0,
                eos_token_id=list(self._renderer.stop_ids),
                pad_token_id=PAD,
            ),
        )
        for row, each in zip(output[:, longest:].tolist(), live, strict=True):
            self._take(each, row, limits)

    def _take(self, each: _Conversation, row: list[int], limits: RolloutConfig) -> None:
        """Add one message of the policy, and answer it."""
        stops = set(self._renderer.stop_ids)
        end = next((at for at, token in enumerate(row) if token in stops), None)
        said = row if end is None else row[: end + 1]
        each.feed(said, policy=True)
        each.over = True
        if end is None or len(each.ids) >= limits.max_tokens:
            return
        try:
            calls = self._renderer.parse(said, each.body.classes)
        except MalformedCallsError as error:
            if each.errors_left:
                each.errors_left -= 1
                self._answer(each, [f"Error: {error}"], said, limits)
            return
        except ValueError:
            return
        each.calls += len(calls)
        if each.calls > limits.max_calls_per_turn:
            return
        if calls:
            self._answer(each, [each.session.act(call).result for call in calls], said, limits)
        elif not isinstance(each.session.grade(), Failed):
            each.passed, each.calls = each.passed + 1, 0
            if not each.solved:
                each.feed(self._renderer.instruction(each.body, each.passed, said), policy=False)
                each.over = len(each.ids) >= limits.max_tokens

    def _answer(
        self, each: _Conversation, results: Sequence[str], said: list[int], limits: RolloutConfig
    ) -> None:
        each.feed(self._renderer.observation(results, said), policy=False)
        each.over = len(each.ids) >= limits.max_tokens


def _reward(passed: Sequence[float], **_: object) -> list[float | None]:
    return [*passed]
