"""The tiny policy in its second role as a reader: would it describe the calls by this instruction?

It reads each turn by itself, as the synthesizer writes it (`filesystem.abstraction`): the calls and
their answers are given, and the instruction's words get a probability. A right wording is one of a
few that the policy knows for such calls, so the words around the names are probable; names are
checked by the other gates. The agreement of a candidate is that probability, in its least probable
turn. From a limit on it confirms; below, the policy cannot tell a wrong instruction from one in
words that it does not know, so it refutes nothing.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from coevolve.base.foreign import boundary
from coevolve.environments.tools.filesystem.abstraction import trajectory
from coevolve.environments.tools.filesystem.belief import Description
from coevolve.environments.tools.filesystem.describing import description
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import DONE
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.synthesis.accounts import FindAccount
from coevolve.environments.tools.synthesis.reader import FIRST_ORDINAL
from coevolve.environments.tools.synthesis.structured_call import ordinal_of
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.models.architecture import read_config
from coevolve.models.model_files import DOWNLOAD_AGAIN
from protocols.errors import ConfigError, OverBudgetError
from protocols.evolution import Candidate, ModelCall, Reading

AGREEMENT = 0.01
"""Minimum probability of a turn's wording that confirms, if a run does not say otherwise.

Of 200 tasks of the grammar the least probable has 0.1; of 540 tasks spoilt on purpose that pass the
other gates, all but six are below 0.001.
"""

Lesson = tuple[tuple[int, ...], tuple[int, ...]]
"""The tokens of a prompt, and those of the instruction after it."""


class PolicyReader:
    """A `gates.instructions.InstructionReader` with the weights that a run begins with."""

    name = "policy@0"

    def __init__(
        self, folder: Path, *, account_of: FindAccount, agreement: float = AGREEMENT
    ) -> None:
        """Read with the model of ``folder``; ``account_of`` finds where calls are recorded."""
        self._renderer = TinyRenderer.load(folder)
        self._model = TinyForward(folder)
        self._account_of = account_of
        self._agreement = agreement

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return whether every turn's wording is probable; the calls are not executed again."""
        del trials
        lessons = [self._lesson(turn) for turn in body.turns]
        longest = max(len(prompt) + len(answer) for prompt, answer in lessons)
        if longest > self._model.most_tokens:
            return self._unread(
                f"a turn has {longest} tokens, and the policy reads {self._model.most_tokens}"
            )
        try:
            found = await self._described(candidate, lessons)
        except OverBudgetError as error:
            return self._unread(str(error))
        worst = min(found, key=lambda each: each.wording)
        agreement = math.exp(worst.wording)
        return Reading(
            reader=self.name,
            outcome="confirmed" if agreement >= self._agreement else "unread",
            found=f"the wording {worst.text!r} has probability {agreement:.2g} for its calls, and "
            f"confirms from {self._agreement:g} on",
            agreement=agreement,
        )

    def _unread(self, reason: str) -> Reading:
        return Reading(reader=self.name, outcome="unread", found=reason)

    def _lesson(self, turn: ToolTurn) -> Lesson:
        prompt = trajectory(self._renderer, turn.reference, turn.results)
        return prompt, (*self._renderer.encode(turn.instruction), DONE)

    async def _described(
        self, candidate: Candidate, lessons: Sequence[Lesson]
    ) -> list[Description]:
        """Return the probabilities of the instructions, recorded as one call of the policy."""
        account = await self._account_of(candidate)
        async with account.calls as calls:
            ordinal = ordinal_of(candidate.candidate_id, FIRST_ORDINAL)
            call = await calls.recorded(ordinal)
            if call is None:
                prompt_tokens = sum(len(prompt) for prompt, _ in lessons)
                answer_tokens = sum(len(answer) for _, answer in lessons)
                await calls.allow(prompt_tokens, answer_tokens, 0.0)
                started = time.monotonic()
                found = await asyncio.to_thread(self._score, lessons)
                call = ModelCall(
                    signal_id=candidate.signal_id,
                    ordinal=ordinal,
                    purpose="read",
                    kind=account.kind,
                    model=self.name,
                    prompt=msgspec.json.encode(
                        [self._renderer.decode(prompt) for prompt, _ in lessons]
                    ).decode(),
                    answer=msgspec.json.encode(found).decode(),
                    prompt_tokens=prompt_tokens,
                    answer_tokens=answer_tokens,
                    cost_usd=0.0,
                    wall_s=time.monotonic() - started,
                )
                await calls.note(call)
        return msgspec.json.decode(call.answer, type=list[Description])

    def _score(self, lessons: Sequence[Lesson]) -> list[Description]:
        return [
            description(self._renderer, answer, self._model.logprobs(prompt, answer))
            for prompt, answer in lessons
        ]


Floats = npt.NDArray[np.floating[Any]]


class TinyForward:
    """The weights of a tiny policy, for its probabilities with numpy alone.

    With torch and transformers a validator's process would take 400 MB more and start five seconds
    later, for a model of 0.4 million numbers. This forward is Qwen3's (transformers,
    ``models/qwen3``), for one sequence and without a cache; its log probabilities differ from
    transformers' by less than 1e-4.

    Letters of shapes: T tokens, V vocabulary, D hidden size, H heads, K heads of keys and values,
    E entries of a head.
    """

    def __init__(self, folder: Path) -> None:
        """Read the weights of a folder. Raises ConfigError if they are not a small Qwen3's."""
        config = read_config(folder)
        with boundary(
            ConfigError, f"policy.model: {folder} needs a Qwen3 in one file", DOWNLOAD_AGAIN
        ):
            with cast("Any", safe_open(folder / "model.safetensors", "numpy")) as file:
                self._weights: dict[str, Floats] = {
                    name: file.get_tensor(name) for name in list(file.keys())
                }
            self._layers = int(cast("int", config["num_hidden_layers"]))
            self._heads = int(cast("int", config["num_attention_heads"]))
            self._epsilon = float(cast("float", config["rms_norm_eps"]))
            rope = cast("dict[str, float]", config["rope_parameters"])
            self._theta = float(rope["rope_theta"])
            self.most_tokens = int(cast("int", config["max_position_embeddings"]))
            """Maximum tokens of a sequence."""

    def logprobs(self, prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
        """Return the natural-log probability of each token of ``answer`` after ``prompt``."""
        tokens = np.array((*prompt, *answer))
        logits_T_V = self._hidden(tokens[:-1]) @ self._weights["model.embed_tokens.weight"].T
        asked = logits_T_V[len(prompt) - 1 :].astype(np.float64)
        asked -= asked.max(axis=-1, keepdims=True)
        asked -= np.log(np.exp(asked).sum(axis=-1, keepdims=True))
        return [float(row[token]) for row, token in zip(asked, answer, strict=True)]

    def _hidden(self, tokens: npt.NDArray[np.int64]) -> Floats:
        hidden_T_D = self._weights["model.embed_tokens.weight"][tokens]
        for layer in range(self._layers):
            name = f"model.layers.{layer}"
            hidden_T_D = hidden_T_D + self._attended(
                name, self._normed(f"{name}.input_layernorm", hidden_T_D)
            )
            hidden_T_D = hidden_T_D + self._transformed(
                name, self._normed(f"{name}.post_attention_layernorm", hidden_T_D)
            )
        return self._normed("model.norm", hidden_T_D)

    def _normed(self, name: str, values: Floats) -> Floats:
        mean: Floats = np.square(values).mean(axis=-1, keepdims=True, dtype=np.float32)
        scale: Floats = np.sqrt(mean + np.float32(self._epsilon), dtype=np.float32)
        return values / scale * self._weights[f"{name}.weight"]

    def _transformed(self, name: str, values_T_D: Floats) -> Floats:
        gate = values_T_D @ self._weights[f"{name}.mlp.gate_proj.weight"].T
        up = values_T_D @ self._weights[f"{name}.mlp.up_proj.weight"].T
        return (gate / (1 + np.exp(-gate)) * up) @ self._weights[f"{name}.mlp.down_proj.weight"].T

    def _attended(self, name: str, values_T_D: Floats) -> Floats:
        attention = f"{name}.self_attn"
        entries = len(self._weights[f"{attention}.q_norm.weight"])

        def heads(kind: str) -> Floats:
            """Return the heads of one kind, [H or K, T, E]."""
            flat = values_T_D @ self._weights[f"{attention}.{kind}_proj.weight"].T
            return flat.reshape(len(flat), -1, entries).swapaxes(0, 1)

        queries = self._turned(self._normed(f"{attention}.q_norm", heads("q")))
        keys = self._turned(self._normed(f"{attention}.k_norm", heads("k")))
        shared = self._heads // len(keys)
        keys, values = (each.repeat(shared, axis=0) for each in (keys, heads("v")))
        scores = queries @ keys.swapaxes(1, 2) / np.float32(np.sqrt(entries))
        scores += np.triu(np.full(scores.shape[1:], -np.inf, np.float32), k=1)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ values
        return mixed.swapaxes(0, 1).reshape(len(values_T_D), -1) @ (
            self._weights[f"{attention}.o_proj.weight"].T
        )

    def _turned(self, heads: Floats) -> Floats:
        """Return heads with their positions rotated in (RoPE)."""
        half = heads.shape[-1] // 2
        rates = np.float32(self._theta) ** (-np.arange(half, dtype=np.float32) / np.float32(half))
        angles = np.arange(heads.shape[1], dtype=np.float32)[:, None] * rates
        cosine, sine = np.cos(angles), np.sin(angles)
        low, high = heads[..., :half], heads[..., half:]
        return np.concatenate((low * cosine - high * sine, high * cosine + low * sine), axis=-1)
