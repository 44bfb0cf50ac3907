#!/bin/sh
# What `configs/smollm2.yaml` does on one GPU, in ten minutes: it was prepared without a GPU, and not run yet.
# In an empty folder, with coevolve and vLLM installed and, without a network, the folder smollm2-135m
# that `coevolve model fetch smollm2-135m` makes:
#
#     sh PATH/TO/smollm2_gpu.sh
#
# It trains for four minutes, stops with a copy, goes on from the copy in another folder for four
# minutes, replays every step, and prints the metrics that say how fast and how well.
set -eu
[ -d smollm2-135m ] || coevolve model fetch smollm2-135m
coevolve endpoint scripted filesystem --port 8766 > endpoint.log 2>&1 &
endpoint=$!
trap 'kill $endpoint' EXIT
copies=$PWD/copies
mkdir -p "$copies" elsewhere
coevolve launch smollm2 policy.model=smollm2-135m "store.copies=$copies" --for 4m
ln -s "$PWD/smollm2-135m" elsewhere/smollm2-135m
cd elsewhere
coevolve resume smollm2 --from "$copies" --for 4m
coevolve attach smollm2 status
coevolve replay smollm2
python - runs/smollm2/metrics.jsonl <<'P'
import json, statistics, sys

steps = [row for row in map(json.loads, open(sys.argv[1])) if "timing_s/step" in row]
for name in ("timing_s/step", "timing_s/wait", "timing_s/update_actor", "perf/throughput"):
    print(name, "median of", len(steps), statistics.median(row[name] for row in steps))
P
