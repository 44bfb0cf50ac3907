#!/usr/bin/env bash
# openenv 0.10.0: a reward that is no number reaches the client as no reward.
#
# A guess that fails: a trainer that refuses a reward of NaN sees the mistake of an environment that divides
# by zero. `Observation.reward` takes NaN and infinity, and the server's JSON has `null` for them, as for
# the reward `None` of a step that has none; with `reward or 0.0` such an episode has failed. Seen:
#
#     nan: {"observation": {"metadata": {}}, "reward": null, "done": true}
#     inf: {"observation": {"metadata": {}}, "reward": null, "done": true}
#     None: {"observation": {"metadata": {}}, "reward": null, "done": true}
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "openenv==0.10.0"
cd "$place"
cat > check.py <<'PYTHON'
import json
from importlib.metadata import version

from openenv.core.env_server import Observation
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import WSObservationResponse

print("openenv", version("openenv"))
for reward in (float("nan"), float("inf"), None):
    shown = serialize_observation(Observation(reward=reward, done=True))
    sent = json.loads(WSObservationResponse(data=shown).model_dump_json())["data"]
    print(f"{reward}: {json.dumps(sent)}")
    if sent["reward"] is not None:
        raise SystemExit(f"this has changed: {reward} is sent as {sent['reward']}")
PYTHON
venv/bin/python check.py
