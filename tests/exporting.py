"""Runs on disk for tests of exports: a journal, weights of versions, and chat models."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT
from coevolve.environments.tools.task import tool_task
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.learning.checkpoint_folder import TrainerState, write_checkpoint_files
from coevolve.learning.optimizers import Optimizers
from coevolve.learning.policy import Policy
from coevolve.learning.sharded.ranks import ALONE
from coevolve.models.atomic_folder import folder_digest, folder_size
from coevolve.models.model_folder import model_folder
from coevolve.models.weight_files import WEIGHTS_FILES, version_digest
from coevolve.runs import starting
from protocols import columns
from protocols.config import RunConfig
from protocols.journal import Append, Message, Receipt
from protocols.learning import CanaryScores, Checkpoint, Evaluation, PolicyVersion, TaskScore
from protocols.rollouts import Action, Ending, Rollout, Tokens
from protocols.tasks import Task
from tests import evolving

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def chat_model(folder: Path, texts: Sequence[str], *, vocabulary: int = 1024) -> Path:
    """Write a random Qwen3 of some 100,000 parameters with a tokenizer trained on ``texts``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=16384,
        tie_word_embeddings=True,
        initializer_range=0.2,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def settings(config: RunConfig, **changes: object) -> RunConfig:
    """Return the config of a small run named ``trial``, with ``changes`` to its sections."""
    tree = cast("dict[str, Any]", msgspec.to_builtins(config))
    tree |= {"name": "trial", "arm": "static"}
    tree["environment"] |= {"held_out": 4, "seeds": 6}
    for section, values in changes.items():
        tree[section] |= values
    return msgspec.convert(tree, RunConfig)


def write_run(path: Path, config: RunConfig, messages: Sequence[Message]) -> RunDirectory:
    """Write the folder of a finished run with a journal of ``messages``."""
    directory = starting.create(path, config)
    journal = Journal.open(directory.store)
    evolving.write(journal, messages)
    journal.close()
    return directory


def write_versions(
    path: Path, config: RunConfig, numbers: Sequence[int], *, folder: str = "versions/v_{}"
) -> list[PolicyVersion]:
    """Write weights to ``folder``, each version further from the base; return their records."""
    found: list[PolicyVersion] = []
    for number in numbers:
        policy = Policy(config.policy, model_folder(config.policy.model), seed=number)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(number)
            for parameter in policy.parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.add_(0.02 * number * noise)
        target = path / folder.format(number)
        target.mkdir(parents=True)
        policy.save(target)
        weights = target / WEIGHTS_FILES[config.policy.train]
        found.append(
            PolicyVersion(
                version=number,
                path=f"versions/v_{number}",
                format=config.policy.train,
                digest=version_digest(target, config.policy.train),
                size_bytes=weights.stat().st_size,
                kept=True,
            )
        )
    return found


def policy_of(directory: RunDirectory, number: int) -> Policy:
    """Return the run's own model at a version."""
    config = directory.config()
    weights = directory.path / f"versions/v_{number}"
    return Policy(config.policy, model_folder(config.policy.model), weights=weights)


def move_to_checkpoint(directory: RunDirectory, number: int) -> None:
    """Leave a version's weights in a checkpoint only."""
    policy = policy_of(directory, number)
    optimizers = Optimizers(policy.named_parameters(), directory.config().learner)
    state = TrainerState(step=number, seed=0, learning_rate=0.0, replay=())
    path = f"checkpoints/step_{number}"
    folder = directory.path / path
    folder.mkdir(parents=True)
    write_checkpoint_files(folder, state, policy, optimizers, ALONE)
    shutil.rmtree(directory.path / f"versions/v_{number}")
    digest, size = folder_digest(folder), folder_size(folder)
    record = Checkpoint(step=number, path=path, digest=digest, size_bytes=size, devices=1)
    journal = Journal.open(directory.store)
    receipt = Receipt(producer="checkpoints", counter=number + 1)
    journal.append(Append(records=(encode(record),), receipt=receipt)).result(10)
    journal.close()


def scored(version: int, passed: int, total: int = 4) -> Evaluation:
    """Return an evaluation in which ``passed`` of ``total`` held-out tasks passed."""
    return Evaluation(version=version, scores=_marks("h", passed, total), errors=0, wall_s=1.0)


def watched(version: int, passed: int, total: int = 4) -> CanaryScores:
    """Return scores in which ``passed`` of ``total`` tasks of the guard passed."""
    return CanaryScores(version=version, scores=_marks("c", passed, total), errors=0)


def _marks(kind: str, passed: int, total: int) -> tuple[TaskScore, ...]:
    return tuple(
        TaskScore(task_id=f"{kind}{number}", turns_passed=int(number < passed), turns_total=1)
        for number in range(total)
    )


def tiny_rollout(
    task: Task,
    index: int,
    *,
    ended: Ending = "finished",
    passed: int | None = None,
    cut: int = 0,
    tail: Sequence[int] = (),
    actions: int | None = None,
) -> Rollout:
    """Return a rollout in which the tiny policy makes the calls of the reference of ``task``.

    The last ``cut`` tokens are replaced by ``tail``; ``actions`` calls were executed.
    """
    body = tool_task(task)
    ids, mask = TinyRenderer.load(CHECKPOINT).demonstration(task)
    end = len(ids) - cut
    ids, mask = (*ids[:end], *tail), (*mask[:end], *[1] * len(tail))
    done = [
        Action(turn=number, text=call, result=result, failed=False)
        for number, turn in enumerate(body.turns)
        for call, result in zip(turn.reference, turn.results, strict=True)
    ]
    total = len(body.turns)
    won = total if passed is None else passed
    return Rollout(
        group_id=f"g-{task.task_id}",
        group=0,
        index=index,
        group_size=4,
        task_id=task.task_id,
        seed=index,
        tokens=Tokens(
            token_ids=columns.int32(ids),
            mask=columns.uint8(mask),
            logprobs=columns.float32(-0.25 * each for each in mask),
            versions=columns.int32(3 if each else -1 for each in mask),
        ),
        actions=tuple(done[:actions]),
        turns_passed=won,
        turns_total=total,
        reward=float(won == total),
        version_min=3,
        version_max=3,
        ended=ended,
        wall_s=0.5,
    )
