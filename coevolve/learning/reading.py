"""Reads a causal language model from a folder in Hugging Face layout."""

import threading
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

_READING = threading.Lock()
"""Transformers replaces functions of torch while it reads a model, for all threads."""


def read_model(folder: Path) -> PreTrainedModel:
    """Return the model on the CPU, in float32; models are read one at a time."""
    transformers.utils.logging.disable_progress_bar()
    with _READING:
        return AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
        )
