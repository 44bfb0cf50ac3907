#!/usr/bin/env bash
# transformers 5: `save_pretrained(folder, state_dict=state)` empties the caller's dictionary.
#
# A guess that fails: what is passed as `state_dict` can be used after the call, for example to save it
# elsewhere, to compute its digest, or to give it to a second `save_pretrained`. The docstring says
# nothing of it, and no error is raised: the second file simply has no tensors. Pass a copy of the
# dictionary (`dict(state)`), which copies no tensor.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "transformers==5.24.0" "torch==2.13.0" "numpy<3"
"$place/venv/bin/python" - "$place" <<'PYTHON'
import sys

import transformers
from transformers import GPT2Config, GPT2LMHeadModel

sizes = {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8, "vocab_size": 16}
model = GPT2LMHeadModel(GPT2Config(**sizes))
state = model.state_dict()
before = len(state)
model.save_pretrained(f"{sys.argv[1]}/one", state_dict=state)
print(f"transformers {transformers.__version__}: {before} tensors before, {len(state)} after the call")
copied = model.state_dict()
model.save_pretrained(f"{sys.argv[1]}/two", state_dict=dict(copied))
print(f"with a copy of the dictionary: {len(copied)} after the call")
sys.exit(0 if (len(state), len(copied)) == (0, before) else 1)
PYTHON
