"""The metrics of steps that the report draws together; the section on metrics has all of them."""

from collections.abc import Mapping

WAIT = "timing_s/wait"
COMPUTE = "timing_s/update_actor"
STEP_TIMES: Mapping[str, str] = {
    WAIT: "waiting for groups",
    "timing_s/save_checkpoint": "waiting for a checkpoint",
    COMPUTE: "optimizer step",
    "timing_s/save_weights": "writing weights",
}
"""Metric -> the name of its layer."""

MOVED = "source/objective/movement_share"
NOISE_SCALE = "gradient_noise/scale_groups"

DRAWN = (*STEP_TIMES, MOVED, NOISE_SCALE)
"""All of them."""
