"""An estimate in the words in which a dry run prints it."""

from collections.abc import Mapping

from coevolve.estimate.estimate import Estimate
from coevolve.estimate.sizes import Bytes
from coevolve.estimate.step_time import StepTime
from protocols.config import RunConfig

UNKNOWN = "unknown"
SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def estimate_lines(found: Estimate, config: RunConfig) -> list[str]:
    """Return one line for each kind of thing that the run takes."""
    disk = found.disk
    fits = "" if found.cached_tokens is None else f", room for {_count(found.cached_tokens)} tokens"
    conversation = found.cache_bytes_a_token
    if conversation is not None:
        conversation *= config.rollout.max_tokens
    tiny = "a tiny random model in place of " if config.policy.tiny_random else ""
    return [
        f"estimate for {tiny}{config.policy.model}; at most, where lengths decide",
        f"parameters: {_count(found.parameters)}, of which {_count(found.trained)} learn",
        f"learner's device: {_parts(found.learner)}",
        f"an engine's device: {_parts(found.engine)}{fits}",
        "not counted: libraries and the run's other processes; the quickstart takes about 2.6 GB "
        "of main memory in all",
        f"keys and values: {_size(found.cache_bytes_a_token)} a token, {_size(conversation)} a "
        f"conversation of {config.rollout.max_tokens} tokens",
        f"tokens a step: {_count(found.rollout_tokens)} of rollouts, "
        f"{_count(found.trained_tokens)} trained on",
        f"disk: {_size(disk.version)} a version, {_size(disk.checkpoint)} a checkpoint, "
        f"{_size(disk.journal_a_step)} of journal a step",
        f"disk, whole run of {config.learner.steps} steps: {_size(disk.whole_run)}; a day at a "
        f"step a minute: {_size(disk.a_day)}",
        *([f"at store.copies: {_size(disk.copies)}"] if config.store.copies else ()),
        _memory_line(found),
        *(_step_lines(found, found.step, config) if found.step else ()),
    ]


def _memory_line(found: Estimate) -> str:
    """Return the main memory of the processes with a model: on a CPU with all that they hold."""
    if found.processes:
        return (
            f"main memory at the peak, with libraries: {_size(found.processes['learner'])} in the "
            f"learner's process, {_size(found.processes['engine'])} in each engine's"
        )
    return (
        f"main memory for tensors: {_size(found.host['learner'])} in the learner's first process, "
        f"{_size(found.host['engine'])} in each engine's"
    )


def _step_lines(found: Estimate, step: StepTime, config: RunConfig) -> list[str]:
    """Return what a step takes on GPUs, what waits, and what this assumes."""
    speed = found.throughput
    needed = _total(found.learner) or 0
    unfit = [f"the learner needs {_size(needed)} of each GPU: raise learner.devices"]
    return [
        *(unfit if needed > speed.gpu_gb * 1e9 else ()),
        f"an engine's cache: room for {step.room:.3g} conversations of full length; it samples "
        f"{step.at_once} of mean length at once, rollout.concurrent asks for "
        f"{config.rollout.concurrent}",
        f"time of a step: {step.step_s:.0f} s; the learner computes {step.learner_s:.0f} s, the "
        f"engines sample {step.sampling_s:.0f} s, {_waits(step)}",
        f"assumed, unless --measured says otherwise: a GPU has {speed.gpu_gb:g} GB, "
        f"{speed.tflops:g} TFLOP/s at {speed.flops_share:.0%} and {speed.bandwidth_tb_s:g} TB/s at "
        f"{speed.bandwidth_share:.0%}; a conversation has {speed.filled:.0%} of its maximum "
        f"length, and the policy writes {speed.sampled:.0%} of it; tools take no time",
    ]


def _waits(step: StepTime) -> str:
    """Return which side waits, and for which share of the step."""
    if step.step_s > max(step.learner_s, step.sampling_s):
        return "one after the other"
    idle = f"{abs(step.sampling_s - step.learner_s) / step.step_s:.0%} of it"
    if step.sampling_s > step.learner_s:
        return f"the learner waits {idle}"
    return f"the engines wait {idle}"


def replaced_model_line(found: Estimate, config: RunConfig) -> str:
    learner, engine = (_size(_total(memory)) for memory in (found.learner, found.engine))
    return (
        f"{config.policy.model} itself: {_count(found.parameters)} parameters, learner's device "
        f"{learner}, an engine's device {engine}, disk for {config.learner.steps} steps "
        f"{_size(found.disk.whole_run)}"
    )


def _parts(memory: Mapping[str, Bytes]) -> str:
    """Return the parts that are not nothing, and their sum."""
    told = " + ".join(f"{_size(size)} {what}" for what, size in memory.items() if size != 0)
    total = _total(memory)
    return told if total is None else f"{told} = {_size(total)}"


def _total(memory: Mapping[str, Bytes]) -> Bytes:
    sizes = [size for size in memory.values() if size is not None]
    return sum(sizes) if len(sizes) == len(memory) else None


def _count(count: int | None) -> str:
    return UNKNOWN if count is None else _scaled(count)


def _size(size: Bytes) -> str:
    return UNKNOWN if size is None else f"{_scaled(size)}B"


def _scaled(number: int) -> str:
    for scale, letter in SCALES:
        if number >= scale:
            return f"{number / scale:.3g} {letter}"
    return f"{number} "
