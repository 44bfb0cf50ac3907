"""Reads run files: YAML, then dotted overrides, then every check; one message names every fault.

A path like ``$.simulator.workers`` names a value inside the file; ``simulator.workers=4`` on the
command line overrides it.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin

import msgspec
import yaml

from coevolve.environments.hdl.policy.stages import is_learned_from, teaches_itself
from coevolve.models.model_folder import TINY, TINY_HDL
from protocols.config import RunConfig, VllmEngine
from protocols.errors import ConfigError
from protocols.learner_config import LearnerConfig
from protocols.objectives import Dapo, Dpo, NoObjective, PolicyGradient, Sft
from protocols.synthesizers import PolicyModel

MAX_ADAPTER_RANK = 512


class _Loader(yaml.SafeLoader):
    """YAML as people write it: `1e-3` is a number, `off` a word, and a key stands only once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the section. Raises ConstructorError where a key stands twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    fault = f"the key {key.value!r} stands twice in one section"
                    raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


BOOL = "tag:yaml.org,2002:bool"

# As in YAML 1.2: `off`, `no` and their like are words.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != BOOL]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(BOOL, re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""The last two come of impossible dates, endless numbers and bottomless nesting."""


def parse_yaml(text: str) -> Any:
    """Return what ``text`` says. Raises one of `NOT_YAML`."""
    return yaml.load(text, _Loader)  # noqa: S506, it is a safe loader


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the run file at ``path`` with ``key.path=value`` overrides applied in order.

    Raises:
        ConfigError: The file cannot be read, or breaks rules; the message lists all that it breaks.
    """
    tree = _read(path)
    for override in overrides:
        _apply(tree, override)
    faults: list[str] = []
    tree = _with_kinds(RunConfig, tree)
    check_section(RunConfig, tree, "$", faults)
    if not faults:
        config = msgspec.convert(tree, RunConfig)
        faults = conflicts(config)
        if not faults:
            return config
    noun = "1 problem" if len(faults) == 1 else f"{len(faults)} problems"
    raise ConfigError(f"{path}: {noun}:\n" + "\n".join(f"  {fault}" for fault in faults))


def conflicts(config: RunConfig) -> list[str]:
    """Return what is wrong between settings that are each legal: runs that could never finish."""
    learner, tasks, rollout = config.learner, config.tasks, config.rollout
    most = most_groups_in_flight(config)
    rules = (
        *_evolution_rules(config),
        *_hdl_rules(config),
        *_learner_rules(config),
        *_engine_rules(config),
        (
            tasks.in_flight_groups and tasks.in_flight_groups < learner.groups_per_step,
            f"$.tasks.in_flight_groups: {tasks.in_flight_groups} groups in flight can never fill a "
            f"step of learner.groups_per_step = {learner.groups_per_step}; the run would wait for "
            f"ever; use at least {learner.groups_per_step}, or 0 for as many as staleness allows",
        ),
        (
            tasks.in_flight_groups > most,
            f"$.tasks.in_flight_groups: {tasks.in_flight_groups} groups in flight would be too old "
            f"to train on with learner.max_staleness = {learner.max_staleness}; use at most {most}",
        ),
        (
            learner.imitation.replay_per_step > learner.imitation.replay_size,
            f"$.learner.imitation.replay_per_step: {learner.imitation.replay_per_step} cannot be "
            f"drawn from learner.imitation.replay_size = {learner.imitation.replay_size}; lower "
            "the one or raise the other",
        ),
        (
            tasks.source == "bfcl" and config.arm == "uniform",
            "$.arm: uniform draws fresh tasks of the grammar, found tasks.source bfcl, whose tasks "
            "are given; choose another arm, or tasks.source = grammar",
        ),
        (
            rollout.max_call_tokens > rollout.max_tokens,
            f"$.rollout.max_call_tokens: {rollout.max_call_tokens} is more than "
            f"rollout.max_tokens = {rollout.max_tokens}; a call is a part of its conversation",
        ),
    )
    return [fault for broken, fault in rules if broken]


def synthesizes(config: RunConfig) -> bool:
    """Return whether the run's arm makes tasks of its own."""
    return config.arm in ("full", "random", "placebo")


def needs_reference(learner: LearnerConfig) -> bool:
    """Return whether the learner asks the model that the run starts from for its probabilities."""
    match learner.objective:
        case Dpo():
            return True
        case Sft() | NoObjective():
            return False
        case _:
            return learner.kl_coefficient > 0 or learner.divergence_every > 0


def _evolution_rules(config: RunConfig) -> tuple[tuple[bool, str], ...]:
    signals = config.signals
    return (
        (
            signals.boundary_low >= signals.boundary_high,
            f"$.signals.boundary_low: {signals.boundary_low} leaves no room below "
            f"signals.boundary_high = {signals.boundary_high}; no task could ever be at the "
            "boundary",
        ),
        (
            "worst_state" in signals.kinds,
            f"$.signals.kinds: worst_state needs tasks that are graded by coverage, found domain "
            f"{config.domain}; leave it out",
        ),
        (
            synthesizes(config) and not signals.kinds,
            f"$.signals.kinds: arm {config.arm} needs at least one kind of signal, found none; "
            "name one, or choose arm static",
        ),
        (
            config.evolve_every > 0 and not synthesizes(config),
            f"$.evolve_every: {config.evolve_every} needs an arm that synthesizes tasks, found arm "
            f"{config.arm}; choose full, random or placebo, or leave it 0",
        ),
        (
            config.validator.judge and isinstance(config.synthesizer.model, PolicyModel),
            "$.validator.judge: needs a synthesizer.model of kind endpoint, found kind policy, "
            "which cannot judge; leave it false",
        ),
    )


def _hdl_rules(config: RunConfig) -> tuple[tuple[bool, str], ...]:
    stages = _stage_rules(config)
    if config.domain != "hdl":
        return stages
    learner = config.learner
    return (
        *stages,
        (
            config.arm in ("placebo", "uniform"),
            f"$.arm: domain hdl needs full, random or static, found {config.arm}: its tasks are "
            "made without prompts, and its designs are given",
        ),
        (
            "uncertainty" in config.signals.kinds,
            "$.signals.kinds: domain hdl has forgetting, boundary and rare, found uncertainty; "
            "leave it out",
        ),
        (
            learner.imitation.weight > 0 or learner.imitation.replay_per_step > 0,
            f"$.learner.imitation.weight: {learner.imitation.weight}, with "
            f"learner.imitation.replay_per_step {learner.imitation.replay_per_step}, needs tasks "
            "with references, and domain hdl has none; set both to 0",
        ),
    )


def _stage_rules(config: RunConfig) -> tuple[tuple[bool, str], ...]:
    stages = config.hdl.stages
    writers = {writer for stage in stages for writer in stage.writers}
    teaches = "teacher" in writers
    learner = config.learner
    lends = [
        stage.writers
        for stage in stages
        if "policy" in stage.writers and not is_learned_from(stage, "policy")
    ]
    endless = [index for index, stage in enumerate(stages[:-1]) if not stage.groups]
    return (
        (
            "grammar" in writers and config.policy.model != TINY_HDL,
            f"$.hdl.stages: the writer grammar needs policy.model = {TINY_HDL}, found "
            f"{config.policy.model}; leave it out",
        ),
        (
            teaches and config.hdl.teacher.model is None,
            "$.hdl.teacher.model: the writer teacher of hdl.stages needs a model, found none; give "
            "one of kind endpoint or local",
        ),
        (
            teaches and config.policy.model in (TINY, TINY_HDL),
            f"$.hdl.stages: the writer teacher needs a policy with a chat template, found "
            f"policy.model = {config.policy.model}; leave it out, or give another model",
        ),
        (
            teaches and config.policy.chat.thinking,
            "$.policy.chat.thinking: a teacher's answers come without what it thought, so the "
            "writer teacher of hdl.stages needs it false, found true",
        ),
        (
            isinstance(learner.objective, Dpo) and writers != {"policy"},
            f"$.learner.objective: dpo needs hdl.stages of the writer policy alone, found "
            f"{', '.join(sorted(writers))}; choose {{kind: sft}}",
        ),
        (
            isinstance(learner.objective, Dpo) and config.policy.model == TINY_HDL,
            f"$.learner.objective: policy.model {TINY_HDL} samples within a grammar, which dpo "
            "does not know; choose {kind: sft}, or a policy gradient",
        ),
        (
            isinstance(learner.objective, PolicyGradient) and bool(lends),
            "$.hdl.stages: with a policy gradient, what the policy writes is learned from, so it "
            f"has to be the last writer of its stage, found {lends and lends[0]}; split "
            "the stage, or choose learner.objective {kind: sft}",
        ),
        (
            bool(endless),
            f"$.hdl.stages: every stage but the last needs groups of 1 or more, found none "
            f"for stage {', '.join(map(str, endless))}; say how many groups it has",
        ),
        (
            stages[-1].groups > 0,
            f"$.hdl.stages: the last stage lasts to the run's end and needs groups 0, found "
            f"{stages[-1].groups}; learner.steps says when the run ends",
        ),
    )


def _engine_rules(config: RunConfig) -> tuple[tuple[bool, str], ...]:
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
            not engine.gpus and engine.dtype == "float16",
            "$.rollout.engine.dtype: float16 is for GPUs; choose float32 or bfloat16",
        ),
    )


def _learner_rules(config: RunConfig) -> tuple[tuple[bool, str], ...]:
    learner = config.learner
    kind = learner.objective.__struct_config__.tag
    return (
        (
            learner.credit == "turn"
            and (config.domain == "hdl" or not isinstance(learner.objective, PolicyGradient)),
            f"$.learner.credit: turn needs domain bfcl and a policy gradient, found domain "
            f"{config.domain} and objective {kind}; choose rollout",
        ),
        (
            learner.guard.action != "none" and 0.5**learner.guard.tasks > learner.guard_chance,
            f"$.learner.guard.tasks: {learner.guard.tasks} canaries cannot show a loss at a chance "
            f"of {learner.guard_chance:.2g} (learner.guard.chance by the comparisons of the run), "
            "even if all of them are lost; give more tasks, raise learner.guard.chance, or set "
            "learner.guard.action to none",
        ),
        (
            isinstance(learner.objective, NoObjective)
            and not learner.imitation.weight
            and teaches_itself(config.hdl.stages),
            "$.learner.objective: none, without imitation, leaves nothing to learn from; choose an "
            "objective, or set learner.imitation.weight",
        ),
        (
            isinstance(learner.objective, Dapo) and not learner.refill_batches,
            "$.learner.refill_batches: the objective dapo replaces groups without variance and "
            "needs 1 or more, found 0",
        ),
        (
            learner.kl_coefficient > 0 and not isinstance(learner.objective, PolicyGradient),
            f"$.learner.kl_coefficient: {learner.kl_coefficient} needs a policy gradient, found "
            f"learner.objective {kind}, which has no such term; set it to 0",
        ),
        (
            learner.rarity_bonus > 0
            and (config.domain != "hdl" or not isinstance(learner.objective, PolicyGradient)),
            f"$.learner.rarity_bonus: {learner.rarity_bonus} needs domain hdl and a policy "
            f"gradient, found domain {config.domain} and objective {kind}; set it to 0",
        ),
    )


def most_groups_in_flight(config: RunConfig) -> int:
    """Return how many groups may be requested and unconsumed without any being too old in the end.

    A group requested at version v is consumed after at most that many others, so at the latest by
    step v + 1 + max_staleness, which trains version v + max_staleness.
    """
    return config.learner.groups_per_step * (1 + config.learner.max_staleness)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such run file{_hint(path)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    try:
        tree = parse_yaml(text)
    except NOT_YAML as error:
        raise ConfigError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path}: a run file needs a mapping of settings at the top, "
            f"found {type(tree).__name__}; see configs/quickstart.yaml"
        )
    return cast("dict[str, Any]", tree)


def _hint(path: Path) -> str:
    if "=" in path.name:
        return "; the run file stands before its overrides"
    near = difflib.get_close_matches(path.stem, [p.stem for p in path.parent.glob("*.yaml")], 1)
    return f"; did you mean {path.parent / near[0]}.yaml?" if near else ""


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    names = key.split(".")
    if not equals or not all(names):
        raise ConfigError(
            f"override {override!r}: needs the form key.path=value, for example learner.steps=20"
        )
    try:
        value = parse_yaml(text)
    except NOT_YAML as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"override {override!r}: the value is not YAML: {reason}") from error
    for name in names[:-1]:
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"override {override!r}: {name!r} is a value, not a section")
        tree = cast("dict[str, Any]", inner)
    tree[names[-1]] = value


def check_section(kind: type[msgspec.Struct], tree: Any, path: str, faults: list[str]) -> None:
    """Append to ``faults`` all that keeps ``tree`` from being a ``kind``."""
    if not isinstance(tree, Mapping):
        found = "nothing" if tree is None else f"{tree!r}"
        faults.append(f"{path}: needs a section of settings, found {found}")
        return
    section = cast("Mapping[Any, Any]", tree)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key in section:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(fields)}"
            faults.append(f"{path}: unknown field {str(key)!r}; {hint}")
    for name, field in fields.items():
        if name in section:
            _check_value(field.type, section[name], f"{path}.{name}", faults)
        elif field.required:
            faults.append(f"{path}.{name}: is required and missing")


def _check_value(kind: Any, value: Any, path: str, faults: list[str]) -> None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        check_section(kind, value, path, faults)
    elif alternatives := _alternatives(kind):
        if value is not None or NoneType not in get_args(kind):
            _check_alternative(alternatives, value, path, faults)
    elif isinstance(value, float) and not math.isfinite(value):
        faults.append(f"{path}: needs a finite number, found {value!r}")
    else:
        try:
            msgspec.convert(value, type=cast("Any", kind))
        except msgspec.ValidationError as error:
            choices = ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""
            needed = f"needs one of {choices}" if choices else f"{error}"
            faults.append(f"{path}: {needed}, found {value!r}")


def _alternatives(kind: Any) -> Mapping[str, type[msgspec.Struct]]:
    """Return the structs that a section may be, by the value of its ``kind``; empty for others."""
    members = [member for member in get_args(kind) if member is not NoneType]
    if not members or not all(_is_struct(member) for member in members):
        return {}
    return {member.__struct_config__.tag: member for member in members}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _check_alternative(
    alternatives: Mapping[str, type[msgspec.Struct]], value: Any, path: str, faults: list[str]
) -> None:
    if not isinstance(value, Mapping):
        faults.append(f"{path}: needs a section of settings, found {value!r}")
        return
    section = dict(cast("Mapping[Any, Any]", value))
    chosen = section.pop("kind", None)
    kind = next((each for tag, each in alternatives.items() if tag == chosen), None)
    if kind is None:
        found = "nothing" if chosen is None else repr(chosen)
        needed = f"{path}.kind: needs one of {', '.join(alternatives)}, found {found}"
        faults.append(needed + _suggestion(alternatives, section))
        return
    known = _names(kind)
    for name in sorted(str(each) for each in section.keys() - known):
        others = [tag for tag, each in alternatives.items() if name in _names(each)]
        if others:
            del section[name]
            faults.append(
                f"{path}.{name}: belongs to kind {' or '.join(others)}, found kind {chosen}; give "
                f"{path.removeprefix('$.')}.kind={others[0]} or leave it out"
            )
    check_section(kind, section, path, faults)


def _suggestion(
    alternatives: Mapping[str, type[msgspec.Struct]], section: Mapping[Any, Any]
) -> str:
    """Return a hint at the one kind that has all the settings of a section, if it is one."""
    fitting = [tag for tag, each in alternatives.items() if section.keys() <= _names(each)]
    return f"; did you mean {fitting[0]!r}?" if section and len(fitting) == 1 else ""


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def _with_kinds(kind: type[msgspec.Struct], tree: Any) -> Any:
    """Return the settings of a ``kind``, with the default's kind in sections that name none."""
    if not isinstance(tree, Mapping):
        return cast("object", tree)
    section = dict(cast("Mapping[Any, Any]", tree))
    for field in msgspec.structs.fields(kind):
        if isinstance(section.get(field.name), Mapping):
            section[field.name] = _with_kind(field, section[field.name])
    return section


def _with_kind(field: msgspec.structs.FieldInfo, section: Mapping[Any, Any]) -> Any:
    if _is_struct(field.type):
        return _with_kinds(field.type, section)
    alternatives = _alternatives(field.type)
    tag = section.get("kind")
    if "kind" not in section and isinstance(field.default, msgspec.Struct):
        tag = field.default.__struct_config__.tag
        section = {"kind": tag, **section}
    kind = next((each for name, each in alternatives.items() if name == tag), None)
    return section if kind is None else _with_kinds(kind, section)
