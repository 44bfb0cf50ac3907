#!/bin/bash
# A run on the nodes of a Slurm allocation: Ray's head and the launcher on the first node, the run's
# parts on all. `coevolve docs clusters` explains it.
#
#     sbatch slurm.sh quickstart learner.steps=200
#
# Change the #SBATCH lines, and add what your site needs to find `coevolve` in PATH on each node.
# RUNS names the folder of all runs, which later jobs have to find again. Shortly before the time is
# over the run stops with a checkpoint, and the job goes back into the queue to continue it.
#SBATCH --job-name=coevolve
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
# With GPUs: #SBATCH --gpus-per-node=8

set -euo pipefail
run_file=${1:-quickstart}
settings=(cluster.stop_s=240 "${@:2}")
runs=${RUNS:-$SLURM_SUBMIT_DIR/runs}

port=$((20000 + SLURM_JOB_ID % 10000))
export RAY_ADDRESS=$(hostname):$port
export RAY_TMPDIR=/tmp/ray-$SLURM_JOB_ID
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
# Ray takes a node that does not answer for dead after 15 s in place of more than 60 s.
export RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=2000
mkdir -p "$RAY_TMPDIR"

join=(ray start --num-cpus="${SLURM_CPUS_PER_TASK:-1}" --disable-usage-stats --block)
"${join[@]}" --head --port="$port" &
ray=$!
leave() {
    kill "$ray" 2>/dev/null || true
    wait "$ray" || true
    rm -rf "$RAY_TMPDIR"
}
trap leave EXIT
others=$((SLURM_JOB_NUM_NODES - 1))
if [ "$others" -gt 0 ]; then
    srun --nodes="$others" --ntasks="$others" --exclude="$SLURMD_NODENAME" \
        "${join[@]}" --address="$RAY_ADDRESS" &
fi
timeout 300 python - "$SLURM_JOB_NUM_NODES" <<'END'
import sys
import time

import ray

while True:
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        break
    except ConnectionError:
        time.sleep(1)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    time.sleep(1)
END

name=$(coevolve config show "$run_file" --resolved "${settings[@]}" | sed -n 's/^name: //p')
if [ -e "$runs/$name/run.json" ]; then
    coevolve resume "$name" "${settings[@]}" --runs "$runs" &
else
    coevolve launch "$run_file" "${settings[@]}" --runs "$runs" &
fi
launcher=$!
again= told=
trap 'again=yes told=yes; kill -TERM "$launcher"' USR1
trap 'told=yes; kill -TERM "$launcher"' TERM INT
code=0
wait "$launcher" || code=$?
while kill -0 "$launcher" 2>/dev/null; do # A signal ended the wait.
    code=0
    wait "$launcher" || code=$?
done
trap - EXIT
leave
[ -z "$again" ] || scontrol requeue "$SLURM_JOB_ID"
[ "$code" != 130 ] || [ -z "$told" ] || code=0 # It stopped cleanly, as it was told to.
exit "$code"
