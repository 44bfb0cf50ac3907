"""The tiny policy's probabilities, computed with numpy alone.

The validator reads instructions with the tiny policy. With torch and transformers its process would
take 400 MB more and start five seconds later, for a model of 0.4 million numbers. This forward is
Qwen3's (transformers, ``models/qwen3``), for one sequence and without a cache; its log
probabilities differ from transformers' by less than 1e-4.

Letters of shapes: T tokens, V vocabulary, D hidden size, H heads, K heads of keys and values, E
entries of a head.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from coevolve.base.foreign import boundary
from coevolve.models.architecture import read_config
from coevolve.models.model_files import DOWNLOAD_AGAIN
from protocols.errors import ConfigError

Floats = npt.NDArray[np.floating[Any]]


class TinyForward:
    """The weights of a tiny policy."""

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
