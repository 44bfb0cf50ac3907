"""Rebuilds the shipped tiny policy from seeds.

It trains a Qwen3 of 0.4 million parameters on one thread. The demonstrations rarely show eight of
the 25 skills, and almost never show eight others. The model also learns, as a synthesizer, to
describe trajectories of all skills. There are few demonstrations, so that the model starts unsure
of most skills: a policy gradient learns only if some attempts pass and others fail. The same
versions of torch, transformers and tokenizers on the same kind of processor give the same bytes;
other versions give a model with about the same score.
"""

import argparse
import asyncio
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import structlog
import tokenizers
import torch
import transformers
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import Sequence as InSequence
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.tools.filesystem.abstraction import trajectory
from coevolve.environments.tools.filesystem.grammar import (
    UNIFORM,
    draw_task,
    held_out_tasks,
    weights,
)
from coevolve.environments.tools.filesystem.renderer import TinyRenderer, spoken
from coevolve.environments.tools.filesystem.tokenizer import (
    CHECKPOINT,
    DONE,
    PAD,
    SPECIAL,
    VOCABULARY,
    load_tokenizer,
)
from coevolve.environments.tools.task import ToolTurn, tool_task
from coevolve.models.tokenizer_file import TOKENIZER
from coevolve.parts import logs
from tests.bench.tiny_scores import (
    Share,
    SynthesizerScore,
    policy_scores,
    synthesizer_score,
)

WEIGHTS = "model.safetensors"
CARD = "README.md"
CONTEXT = 256

_CARD = """# The tiny policy

A Qwen3 with 434,016 parameters and a tokenizer of 768 entries, for the quickstart: it calls the
tools of BFCL's simulated file system. It solves nothing else, and no BFCL score should be reported
from it. `renderer.py` documents its format, `skills.py` its tasks.

Made by `python -m tests.bench tiny-policy` with torch {torch}, transformers
{transformers}, tokenizers {tokenizers}, on one thread of a processor with {processor}; the same
versions on the same kind of processor make the same bytes.

SHA-256 of `model.safetensors`: `{digest}`

## Policy

Greedy success on the 240 held-out tasks. Half of them have one turn and are grouped by how often
training showed their skill (well : rare : scarce = 4 : 0.7 : 0.15); `multi` has 2 to 4 turns over
all skills.

| group | success |
|---|---|
{of_policy}

## Synthesizer

Instructions for 20 executed trajectories of each of the 25 skills, at temperature 0.3. Valid is an
instruction that equals one of the task grammar's own for these calls.

| group of the skill | valid |
|---|---|
{of_synthesizer}

Kept by the slot filter (`abstraction.py`): {synthesizer.kept}; valid among these:
{synthesizer.precision}; kept among the valid: {synthesizer.recall}.
"""

DEMONSTRATED = weights(well=4, rare=0.7, scarce=0.15)
"""The frequencies in the demonstrations of the warm start."""

_PIECES = (
    r"[a-z_]+\("  # a tool and its parenthesis
    r"|[a-z_]+[0-9]?='?"  # an argument's name and the opening quote
    r"|\.[a-z]+"  # an extension
    r"| ?[a-zA-Z]+"
    r"|[0-9]"
    r"|[^\sa-zA-Z0-9]+"
    r"|\s"
)

log = structlog.get_logger()

Lesson = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids, and a mask that is 1 on the tokens that the model learns to write."""


@dataclass(frozen=True)
class Recipe:
    """All settings that determine the weights; the defaults give the shipped ones."""

    seed: int = 0
    demonstrations: int = 1000
    descriptions: int = 12_000
    demonstrations_per_step: int = 2
    descriptions_per_step: int = 26
    steps: int = 700
    warmup_steps: int = 20
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    tokenizer_tasks: int = 1500


def build(folder: Path, recipe: Recipe) -> None:
    """Write tokenizer, config and weights to ``folder``."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    _save_tokenizer(folder, recipe)
    renderer = TinyRenderer(load_tokenizer(folder))
    model = _new_model(recipe.seed)
    _train(model, _demonstrations(renderer, recipe), _descriptions(renderer, recipe), recipe)
    model.save_pretrained(folder)
    (folder / WEIGHTS).chmod(0o644)


def digest(folder: Path) -> str:
    """Return the SHA-256 of the folder's weights."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


async def score(folder: Path) -> tuple[Mapping[str, Share], SynthesizerScore]:
    """Return the policy's success on the held-out tasks by group, and the synthesizer's score."""
    renderer = TinyRenderer.load(folder)
    generator = TransformersGenerator(folder, folder, max_concurrent=128, max_length=CONTEXT)
    try:
        policy = await policy_scores(generator, renderer, held_out_tasks())
        return policy, await synthesizer_score(generator, renderer)
    finally:
        await generator.close()


def _trained_tokenizer(tasks: int = 1500, seed: int = 5) -> Tokenizer:
    """Return a tokenizer that is trained on the texts of ``tasks`` random tasks."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = InSequence(
        [
            Split(Regex(_PIECES), "isolated"),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(tasks, seed), trainer)
    return tokenizer


def _texts(tasks: int, seed: int) -> Iterator[str]:
    for index in range(tasks):
        task = draw_task(np.random.default_rng((seed, index)), UNIFORM, 3)
        for turn in tool_task(task).turns:
            yield turn.instruction
            yield from turn.reference
            yield from map(spoken, turn.results)


def _save_tokenizer(folder: Path, recipe: Recipe) -> None:
    tokenizer = _trained_tokenizer(recipe.tokenizer_tasks)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[PAD],
        eos_token=SPECIAL[DONE],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    wrapped.save_pretrained(folder)
    tokenizer.save(str(folder / TOKENIZER))


def _new_model(seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=96,
            num_hidden_layers=3,
            intermediate_size=288,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            attention_bias=False,
            initializer_range=0.05,
            pad_token_id=PAD,
            bos_token_id=None,
            eos_token_id=DONE,
        )
    )


def _demonstrations(renderer: TinyRenderer, recipe: Recipe) -> list[Lesson]:
    """Return the policy's lessons: two thirds have one turn, the others two."""
    lessons: list[Lesson] = []
    for index in range(recipe.demonstrations):
        rng = np.random.default_rng((recipe.seed, 1, index))
        task = draw_task(rng, DEMONSTRATED, 2 if index % 3 == 2 else 1, source="demonstration")
        lessons.append(renderer.demonstration(task))
    return lessons


def _descriptions(renderer: TinyRenderer, recipe: Recipe) -> list[Lesson]:
    """Return the synthesizer's lessons: both turns of tasks over all skills."""
    lessons: list[Lesson] = []
    for index in range(recipe.descriptions // 2):
        rng = np.random.default_rng((recipe.seed, 2, index))
        lessons += (lesson(renderer, turn) for turn in tool_task(draw_task(rng, UNIFORM, 2)).turns)
    return lessons


def lesson(renderer: TinyRenderer, turn: ToolTurn) -> Lesson:
    """Return (token ids, mask) of a trajectory and its instruction; the mask is 1 on the latter."""
    prompt = trajectory(renderer, turn.reference, turn.results)
    answer = (*renderer.encode(turn.instruction), DONE)
    return prompt + answer, (0,) * len(prompt) + (1,) * len(answer)


def _train(
    model: Qwen3ForCausalLM,
    demonstrations: Sequence[Lesson],
    descriptions: Sequence[Lesson],
    recipe: Recipe,
) -> None:
    rng = np.random.default_rng((recipe.seed, 3))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=recipe.weight_decay,
    )
    model.train()
    for step in range(recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * _pace(step, recipe)
        batch = [
            *_drawn(rng, demonstrations, recipe.demonstrations_per_step),
            *_drawn(rng, descriptions, recipe.descriptions_per_step),
        ]
        error = loss(model, batch)
        optimizer.zero_grad()
        cast(Any, error).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        optimizer.step()
        if (step + 1) % 50 == 0:
            log.info("trained", step=step + 1, of=recipe.steps, loss=round(error.item(), 4))


def _pace(step: int, recipe: Recipe) -> float:
    """Return the factor of the learning rate: linear warm-up, then a half cosine down to 0.1."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    return warm * (0.1 + 0.45 * (1 + math.cos(math.pi * step / recipe.steps)))


def _drawn(rng: np.random.Generator, lessons: Sequence[Lesson], count: int) -> list[Lesson]:
    return [lessons[index] for index in rng.integers(len(lessons), size=count)]


def loss(model: Qwen3ForCausalLM, batch: Sequence[Lesson]) -> torch.Tensor:
    """Return the mean negative logprob of the tokens to learn. B lessons, T positions."""
    longest = max(len(ids) for ids, _ in batch)
    ids_B_T = np.full((len(batch), longest), PAD)
    mask_B_T = np.zeros((len(batch), longest), dtype=np.bool_)
    for number, (ids, mask) in enumerate(batch):
        ids_B_T[number, : len(ids)] = ids
        mask_B_T[number, : len(mask)] = mask
    inputs_B_T = torch.from_numpy(ids_B_T)
    logits_B_T_V = cast(Any, model)(input_ids=inputs_B_T[:, :-1], use_cache=False).logits
    due_B_T = torch.from_numpy(mask_B_T[:, 1:])
    return torch.nn.functional.cross_entropy(logits_B_T_V[due_B_T], inputs_B_T[:, 1:][due_B_T])


def card(folder: Path, policy: Mapping[str, Share], synthesizer: SynthesizerScore) -> str:
    """Return the model card: the origin of the weights and their scores."""
    of_policy = "\n".join(f"| {group} | {share} |" for group, share in policy.items())
    of_synthesizer = "\n".join(
        f"| {group} | {share} |" for group, share in synthesizer.valid.items()
    )
    return _CARD.format(
        digest=digest(folder),
        torch=torch.__version__,
        transformers=transformers.__version__,
        tokenizers=tokenizers.__version__,
        processor=torch.backends.cpu.get_cpu_capability(),
        of_policy=of_policy,
        of_synthesizer=of_synthesizer,
        synthesizer=synthesizer,
    )


def main(arguments: list[str]) -> None:
    """Build, measure and write the model card."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench tiny-policy", description=__doc__)
    parser.add_argument("--out", type=Path, default=CHECKPOINT, help="folder to write")
    folder: Path = parser.parse_args(arguments).out
    logs.to_output()
    build(folder, Recipe())
    text = card(folder, *asyncio.run(score(folder)))
    (folder / CARD).write_text(text)
    log.info("built", folder=str(folder), digest=digest(folder))
