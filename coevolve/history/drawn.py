"""The metrics of steps that charts of the report draw; the section on metrics has all of them.

Each table maps a metric to the name of its line.
"""

from collections.abc import Mapping

STALENESS: Mapping[str, str] = {
    "training/off_policy/version_lag_mean": "mean",
    "training/off_policy/version_lag_max": "largest",
}
DELIVERY: Mapping[str, str] = {
    "timing_s/param_sync": "from publication to the last proof",
    "timing_s/param_sync_pause": "longest pause of sampling",
}
SPEED: Mapping[str, str] = {"perf/throughput": "tokens"}
WAIT = "timing_s/wait"
COMPUTE = "timing_s/update_actor"
STEP_TIMES: Mapping[str, str] = {
    WAIT: "waiting for groups",
    "timing_s/save_checkpoint": "waiting for a checkpoint",
    COMPUTE: "optimizer step",
    "timing_s/save_weights": "writing weights",
}
GROUPS: Mapping[str, str] = {
    "groups/informative": "policy gradient",
    "groups/imitated": "imitation",
}
MOVED = "source/objective/movement_share"
MOVEMENT: Mapping[str, str] = {
    MOVED: "policy gradient",
    "source/imitation/movement_share": "imitation and replay",
}
NORMS: Mapping[str, str] = {
    "source/objective/grad_norm": "policy gradient",
    "source/imitation/grad_norm": "imitation",
    "source/replay/grad_norm": "replay",
}
NOISE_SCALE = "gradient_noise/scale_groups"
NOISE: Mapping[str, str] = {NOISE_SCALE: "noise scale"}
ENTROPY: Mapping[str, str] = {
    "actor/entropy": "entropy",
    "actor/kl_from_start": "divergence from the start",
}

_ALL = (STALENESS, DELIVERY, SPEED, STEP_TIMES, GROUPS, MOVEMENT, NORMS, NOISE, ENTROPY)

DRAWN = tuple(metric for lines in _ALL for metric in lines)
"""All of them."""
