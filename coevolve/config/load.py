"""Reads run files: parses YAML, applies overrides, and reports all faults in one message.

A path like ``$.simulator.workers`` names a value inside the file; ``simulator.workers=4`` on the
command line overrides it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from coevolve.base.foreign import boundary
from coevolve.config.overrides import apply, fault_report
from coevolve.config.run_files import run_file, text_of
from coevolve.environments.interface import Fault
from coevolve.environments.registry import check_environment, complete, environment_of
from coevolve.learning import objective_registry
from coevolve.learning.objective_registry import check_objective, objective_of
from coevolve.yaml.structs import check_section, with_kinds
from coevolve.yaml.text import NotYamlError, parse_yaml
from coevolve.yaml.value_remedies import found
from protocols.capabilities import absent
from protocols.config import RunConfig, VllmEngine
from protocols.errors import ConfigError
from protocols.numbers import MOST
from protocols.synthesizers import PolicyModel

MAX_ADAPTER_RANK = 512


def load_config(name: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run file with ``key.path=value`` overrides applied in order.

    ``name`` is its path, or the name of one that coevolve carries (`coevolve.config.run_files`).

    Raises:
        ConfigError: The file cannot be read or breaks rules; the message lists all of them.
    """
    path = run_file(f"{name}")
    return config_in(path, text_of(path), overrides)


def config_in(path: Path, text: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Return the settings of the run file ``path`` with the content ``text``; see `load_config`."""
    with boundary(ConfigError, f"{path}: cannot be checked"):
        return _checked(path, text, overrides)


def _checked(path: Path, text: str, overrides: Sequence[str]) -> RunConfig:
    tree = _read(path, text)
    for override in overrides:
        apply(tree, override)
    faults: list[str] = []
    tree = with_kinds(RunConfig, tree)
    check_section(RunConfig, _without_chosen(tree), "$", faults)
    check_environment(tree.get("environment", {}), faults)
    if isinstance(learner := tree.get("learner", {}), dict):
        check_objective(cast("dict[str, Any]", learner).get("objective", {}), faults)
    if not faults:
        config = complete(msgspec.convert(tree, RunConfig))
        learner = objective_registry.complete(config.learner)
        config = msgspec.structs.replace(config, learner=learner)
        faults = conflicts(config)
        if not faults:
            return config
    raise ConfigError(fault_report(path, faults, overrides))


def _without_chosen(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those sections whose settings depend on what they name."""
    nothing: dict[str, Any] = {}
    found = tree | {"environment": nothing}
    if isinstance(learner := tree.get("learner"), dict):
        found["learner"] = cast("dict[str, Any]", learner) | {"objective": nothing}
    return found


def conflicts(config: RunConfig) -> list[str]:
    """Return conflicts of settings that are valid alone; such a run could never finish."""
    learner, rollout = config.learner, config.rollout
    imitation = learner.imitation
    imitates = imitation.weight > 0 or imitation.replay_per_step > 0
    has_references = environment_of(config).capabilities.references
    rules = (
        (
            config.cluster.address.startswith("ray://"),
            f"$.cluster.address: {config.cluster.address} needs HOST:PORT of the cluster's head; a "
            "Ray client address (ray://) cannot carry a run, whose launcher has to be on a node of "
            "the cluster: join it with `ray start --address=HOST:PORT` and give that address",
        ),
        *_evolution_rules(config),
        *_instance_rules(config),
        *environment_of(config).faults(),
        *_learner_rules(config),
        *_engine_rules(config),
        *_flight_rules(config),
        (
            imitates and not has_references,
            f"$.learner.imitation.weight: {imitation.weight}, with "
            f"learner.imitation.replay_per_step {imitation.replay_per_step}, needs tasks with "
            f"references, and environment {config.uses} has none; set both to 0",
        ),
        (
            learner.imitation.replay_per_step > learner.imitation.replay_size,
            f"$.learner.imitation.replay_per_step: {learner.imitation.replay_per_step} cannot be "
            f"drawn from learner.imitation.replay_size = {learner.imitation.replay_size}; lower "
            "the one or raise the other",
        ),
        (
            rollout.max_call_tokens > rollout.max_tokens,
            f"$.rollout.max_call_tokens: {rollout.max_call_tokens} is more than "
            f"rollout.max_tokens = {rollout.max_tokens}; a call is a part of its conversation",
        ),
    )
    return [fault for broken, fault in rules if broken]


def _flight_rules(config: RunConfig) -> tuple[Fault, ...]:
    learner, rollout = config.learner, config.rollout
    most = config.most_groups_in_flight
    return (
        (
            0 < rollout.in_flight_groups < learner.groups_per_step,
            f"$.rollout.in_flight_groups: {rollout.in_flight_groups} groups in flight can never "
            f"fill a step of learner.groups_per_step = {learner.groups_per_step}; the run would "
            f"wait for ever; use at least {learner.groups_per_step}, or 0 for as many as staleness "
            "allows",
        ),
        (
            rollout.in_flight_groups > most,
            f"$.rollout.in_flight_groups: {rollout.in_flight_groups} groups in flight would be too "
            f"old to train on with learner.max_staleness = {learner.max_staleness}; use at most "
            f"{most}",
        ),
        (
            rollout.actors > config.most_rollouts_in_flight,
            f"$.rollout.actors: {rollout.actors} actors are more than the "
            f"{config.most_rollouts_in_flight} rollouts that may be in flight "
            "(rollout.in_flight_groups x rollout.group_size), so some would idle; use at "
            f"most {config.most_rollouts_in_flight}",
        ),
        (
            config.most_rollouts_in_flight > MOST,
            f"$.rollout.group_size: {config.most_rollouts_in_flight} rollouts would be in flight, "
            "which is learner.groups_per_step x (1 + learner.max_staleness) x rollout.group_size, "
            f"or rollout.in_flight_groups x rollout.group_size; lower one to have at most {MOST}",
        ),
    )


def _evolution_rules(config: RunConfig) -> tuple[Fault, ...]:
    signals = config.signals
    environment = environment_of(config)
    lacking = absent(environment.capabilities)
    needed = [name for name in ("replayable", "state_digest") if name in lacking]
    return (
        (
            config.synthesizes and bool(needed),
            f"$.arm: {config.arm} judges new tasks by carrying them out again, and environment "
            f"{config.uses} is without {', '.join(needed)}; choose arm static",
        ),
        (
            "deterministic_reward" in lacking and not signals.reward_flip_rate,
            f"$.signals.reward_flip_rate: environment {config.uses} gives one attempt different "
            f"rewards, and needs the rate above 0, found {signals.reward_flip_rate}; "
            f"`coevolve environment check {config.uses}` measures it",
        ),
        (
            signals.reward_flip_rate > 0 and signals.rules != "posterior",
            f"$.signals.reward_flip_rate: {signals.reward_flip_rate} needs signals.rules posterior,"
            f" found {signals.rules}, which does not correct for it; choose posterior",
        ),
        (
            config.arm == "placebo" and signals.rules == "skills",
            "$.arm: placebo draws subjects like those of a signal, and signals.rules skills names "
            "parts of skills, which no attempt is about; choose signals.rules posterior or paper",
        ),
        (
            config.arm in ("coverage", "oracle") and not environment.cells(),
            f"$.arm: {config.arm} chooses among the cells of an environment, and {config.uses} "
            "names none; choose full, random or placebo",
        ),
        (
            signals.boundary_low >= signals.boundary_high,
            f"$.signals.boundary_low: {signals.boundary_low} leaves no room below "
            f"signals.boundary_high = {signals.boundary_high}; no task could ever be at the "
            "boundary",
        ),
        (
            config.synthesizes and not signals.kinds,
            f"$.signals.kinds: arm {config.arm} needs at least one kind of signal, found none; "
            "name one, or choose arm static",
        ),
        (
            config.validator.judge and isinstance(config.synthesizer.model, PolicyModel),
            "$.validator.judge: needs a synthesizer.model of kind endpoint, found kind policy, "
            "which cannot judge; leave it false",
        ),
    )


def _instance_rules(config: RunConfig) -> tuple[Fault, ...]:
    has_instances = environment_of(config).capabilities.fresh_instances
    words = f"needs instances of tasks, and environment {config.uses} makes none"
    return (
        (
            config.evaluator.fresh > 0 and not has_instances,
            f"$.evaluator.fresh: {config.evaluator.fresh} {words}; leave it 0",
        ),
        (
            config.pool.new_instances and not has_instances,
            f"$.pool.new_instances: true {words}; leave it false",
        ),
    )


def _engine_rules(config: RunConfig) -> tuple[Fault, ...]:
    engine = config.rollout.engine
    if not isinstance(engine, VllmEngine):
        return ()
    adapter = engine.deliver == "adapter"
    return (
        (
            adapter and config.policy.train != "lora",
            f"$.rollout.engine.deliver: adapter needs policy.train = lora, found "
            f"{config.policy.train}; choose merged",
        ),
        (
            adapter and config.policy.lora_rank > MAX_ADAPTER_RANK,
            f"$.policy.lora_rank: {config.policy.lora_rank} is more than {MAX_ADAPTER_RANK}, the "
            "most that vLLM serves as an adapter; lower it, or choose rollout.engine.deliver = "
            "merged",
        ),
        (
            not engine.gpus and not engine.kv_cache_mb,
            "$.rollout.engine.kv_cache_mb: 0 on a CPU would take nearly all of its memory; give "
            "the megabytes, or rollout.engine.gpus",
        ),
        (
            engine.gpus > 1.0,
            f"$.rollout.engine.gpus: {engine.gpus:g} is more than the one GPU that an engine can "
            "use; set 1, or a share of one, and raise rollout.actors for more engines",
        ),
        (
            0.0 < engine.gpus < engine.gpu_memory_utilization and not engine.kv_cache_mb,
            f"$.rollout.engine.gpu_memory_utilization: {engine.gpu_memory_utilization:g} of the "
            f"memory leaves too little to those who share the GPU with rollout.engine.gpus = "
            f"{engine.gpus:g}; lower it to {engine.gpus:g}, or give kv_cache_mb",
        ),
        (
            engine.sleeps and config.learner.devices > 1,
            f"$.rollout.engine.sleeps: needs learner.devices = 1, found {config.learner.devices}; "
            "several devices do not take turns with engines",
        ),
        (
            engine.sleeps and config.evaluator.engine == "own",
            "$.rollout.engine.sleeps: needs evaluator.engine = rollout, found own, whose engine "
            "never sleeps",
        ),
        (
            not engine.gpus and engine.dtype == "float16",
            "$.rollout.engine.dtype: float16 is for GPUs; choose float32 or bfloat16",
        ),
    )


def _learner_rules(config: RunConfig) -> tuple[Fault, ...]:
    learner = config.learner
    kind, objective = learner.objective_kind, objective_of(learner)
    last_chance = learner.guard_chance(learner.guard_comparisons)
    return (
        (
            learner.devices > 1 and learner.gpus < 1.0,
            f"$.learner.gpus: {learner.gpus:g} needs learner.devices = 1, found {learner.devices}; "
            "several processes need a GPU each",
        ),
        (
            learner.credit == "turn" and not objective.compares_rewards,
            f"$.learner.credit: turn needs a policy gradient, found objective {kind}; choose "
            "rollout",
        ),
        (
            learner.guard.action != "none" and 0.5**learner.guard.tasks > last_chance,
            f"$.learner.guard.tasks: {learner.guard.tasks} canaries cannot show a loss at a chance "
            f"of {last_chance:.2g} (learner.guard.chance by the comparisons of the run, and by the "
            "versions that the last one is compared with), even if all of them are lost; give more "
            "tasks, raise learner.guard.chance, or set learner.guard.action to none",
        ),
        (
            learner.only_imitates
            and not learner.imitation.weight
            and not environment_of(config).imitates_others,
            "$.learner.objective: none, without imitation, leaves nothing to learn from; choose an "
            "objective, or set learner.imitation.weight",
        ),
        (
            learner.warm_start.steps > 0 and not learner.imitation.weight,
            f"$.learner.warm_start.steps: {learner.warm_start.steps} steps that only imitate need "
            "learner.imitation.weight above 0, found 0; raise it, or set the steps to 0",
        ),
        *objective.faults(learner),
        (
            learner.kl_coefficient > 0 and not objective.is_on_policy,
            f"$.learner.kl_coefficient: {learner.kl_coefficient} needs a policy gradient, found "
            f"learner.objective {kind}, which has no such term; set it to 0",
        ),
    )


def _read(path: Path, text: str) -> dict[str, Any]:
    try:
        tree = parse_yaml(text)
    except NotYamlError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path}: a run file needs a mapping of settings at the top, `name: value`, found "
            f"{found(tree)}; `coevolve config show quickstart` prints one to begin with"
        )
    return cast("dict[str, Any]", tree)
