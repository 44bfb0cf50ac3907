"""Chooses a run's settings for a model, a machine and tasks, and writes them with their reasons.

Lengths and durations are measured; the other numbers follow from the model's size, the machine's
cores and memory, and the number of tasks. All of it is for engines and a learner on the CPU.
"""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from coevolve.commands.duration import (
    COLD,
    SMALL_STEPS,
    Measured,
    Pace,
    fitting_steps,
    replayed,
    run_seconds,
    score_every,
    seconds,
    warm_steps,
)
from coevolve.environments.findings import counted
from coevolve.learning.rates import imitation_rate, usual_rate
from coevolve.yaml.text import write_yaml
from protocols.config import RunConfig
from protocols.learning import WeightsFormat
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task

if TYPE_CHECKING:
    from coevolve.commands.row_time import RowSeconds

WIDTH = 100

SMALL = 20_000_000
"""Weights below which groups are larger."""

MOST_WHOLE = 400_000_000
"""Largest number of weights that all learn."""

LEARNT_BYTES = 86
"""Memory for each weight that learns on a CPU, in the engine (a quarter) and in the learner, at
their peaks: the measured 3.3 and 8.3 GB of SmolLM2-135M."""

CHECKPOINT_BYTES = 20
"""Weights and the moments of two optimizers."""

STORED_BYTES = 104
"""Disk for each weight: 11 versions, and the checkpoint that is kept, the newest and the next."""

WHOLE_SHARE = 0.8
"""Share of free memory and disk that these may take."""

PIECE = 64
"""Lengths are multiples of this many tokens."""

LEAST_MESSAGE = 48
"""Tokens of a policy's message where references say nothing, or little."""

UNKNOWN_MESSAGE = 256

CACHE_SHARE = 0.15
"""Share of the free memory that the engine's keys and values may take."""

MOST_CONCURRENT = 16

LEAST_GAIN = 1.25
"""Factor by which bfloat16 has to be faster than float32, to be chosen."""

GUARDED = 256
"""Training tasks from which on some of them can be spared for the guard."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One setting with its value and the reason."""

    key: str
    value: Any
    why: str = ""


def limits(known: Measured) -> list[Choice]:
    """Return which weights learn, and whether conversations fit, from their measured lengths."""
    lengths = known.lengths
    message = max(LEAST_MESSAGE, _pieces(1.5 * lengths.message, 16))
    message = message if known.references else UNKNOWN_MESSAGE
    room = lengths.turns * (message + lengths.answer)
    most = min(_pieces(lengths.conversation + room, PIECE), known.positions)
    concurrent = _concurrent(known, most)
    train = _train(known)
    return [
        train,
        Choice(
            key="rollout.max_tokens",
            value=most,
            why=f"prompts have up to {lengths.prompts} tokens, a reference's conversation "
            f"{lengths.conversation}; room for a mistake in each turn",
        ),
        Choice(
            key="rollout.max_call_tokens",
            value=message,
            why=f"a reference's message has up to {lengths.message} tokens"
            if known.references
            else "no references to measure",
        ),
        Choice(
            key="rollout.concurrent",
            value=concurrent,
            why=f"{concurrent * most * known.cache_bytes_a_token / 1e9:.1f} GB of keys and values",
        ),
        *([] if known.weights < SMALL else [_micro_batch(most)]),
        *([_kept(known)] if known.weights >= SMALL and train.value == "full" else []),
    ]


def _train(known: Measured) -> Choice:
    """Return which weights learn: all, where memory and disk hold what that takes."""
    if known.weights < SMALL:
        return Choice(key="policy.train", value="full", why="few weights")
    memory, disk = (known.weights * each for each in (LEARNT_BYTES, STORED_BYTES))
    whole = f"{memory / 1e9:.1f} GB of memory and {disk / 1e9:.1f} GB of disk"
    if known.weights > MOST_WHOLE:
        why = "an adapter: a small version, and little memory"
    elif memory > WHOLE_SHARE * known.free_bytes or disk > WHOLE_SHARE * known.free_disk:
        why = f"an adapter: there is no room for all weights, which take {whole}"
    else:
        why = f"all learn more from few references than an adapter; {whole}"
        return Choice(key="policy.train", value="full", why=why)
    return Choice(key="policy.train", value="lora", why=why)


def _kept(known: Measured) -> Choice:
    why = f"with all weights, {known.weights * CHECKPOINT_BYTES / 1e9:.1f} GB each"
    return Choice(key="learner.keep_checkpoints", value=1, why=why)


def _micro_batch(most: int) -> Choice:
    why = "several rows, which compute what they begin with once"
    return Choice(key="learner.micro_batch_tokens", value=2 * most, why=why)


def form(*, lists_tools: bool) -> Choice:
    """Return how the policy learns which tools there are."""
    if lists_tools:
        why = "the model's template lists tools"
        return Choice(key="policy.chat", value={"tools": "template"}, why=why)
    why = "its template lists no tools: the system message does, and messages list calls"
    return Choice(key="policy.chat", value={"tools": "signatures", "joined_calls": True}, why=why)


def training(known: Measured, pace: Pace, train: WeightsFormat, steps: int = 0) -> list[Choice]:
    """Return the settings of steps and rates. ``steps`` is the user's; 0 chooses."""
    small = known.weights < SMALL
    size, groups = (8, 8) if small else (4, max(2, min(8, known.cores // 2)))
    chosen = SMALL_STEPS if small else fitting_steps(pace, groups, size, known)
    found = steps or chosen
    times = seconds(pace, groups, size, known)
    minutes = run_seconds(pace, groups, size, known, found) / 60
    return [
        Choice(
            key="rollout.group_size",
            value=size,
            why=f"for {_millions(known)} on {known.cores} cores, with groups_per_step",
        ),
        Choice(
            key="learner.steps",
            value=found,
            why=f"{'as you said; ' if steps else ''}about {minutes:.0f} minutes: an attempt took "
            f"{pace.attempt_s:.1f} s here, learning from one {pace.row_s:.1f} s, so a step of a "
            f"warm start takes about {times.warm:.0f} s, a later one {times.loop:.0f} s, and "
            f"scoring the held-out tasks {times.score:.0f} s each time",
        ),
        Choice(key="learner.groups_per_step", value=groups),
        Choice(
            key="learner.learning_rate",
            value=usual_rate(known.weights, train),
            why=f"for {_millions(known)}, by the rule of `coevolve docs first_model`",
        ),
        Choice(key="learner.schedule", value="cosine", why="of both rates, down to a tenth"),
        Choice(key="learner.final_rate_share", value=0.1),
        *_imitation(known, pace, train, found, replayed(pace, groups, size, known)),
        *_spared(known, pace),
        Choice(key="evaluator.every", value=score_every(found), why="five points of a curve"),
        Choice(key="evaluator.concurrent", value=min(known.held_out, MOST_CONCURRENT)),
        *([] if small else [_stop(times.loop)]),
    ]


def _stop(step_s: float) -> Choice:
    """Return how long an interrupted run may take; a second interrupt ends it at once."""
    why = "an interrupt waits for a step and its checkpoint, a second one for nothing"
    return Choice(key="cluster.stop_s", value=math.ceil(3 * step_s), why=why)


def _millions(known: Measured) -> str:
    return f"{known.weights / 1e6:.1f} million weights"


def _imitation(
    known: Measured, pace: Pace, train: WeightsFormat, steps: int, again: int
) -> list[Choice]:
    if not known.references:
        why = "the tasks have no references"
        return [Choice(key="learner.imitation", value={"weight": 0, "replay_per_step": 0}, why=why)]
    halves: list[Choice] = []
    if known.weights >= SMALL:
        why = "two updates a step: few references teach more in more updates"
        halves = [Choice(key="learner.mini_batches", value=2, why=why)]
    value = {
        "weight": 1,
        "learning_rate": imitation_rate(known.weights, train),
        "replay_per_step": again,
    }
    why = "of references, where every attempt fails; ten times the rate of rewards"
    imitation = Choice(key="learner.imitation", value=value, why=why)
    if pace.success >= COLD:
        return [imitation, *halves]
    why = (
        f"{100 * pace.success:.0f} % of the attempts succeeded: it begins by imitation of "
        "references alone, until most skills succeed half of the time, where rewards differ most"
    )
    value = {"steps": warm_steps(steps), "success_share": 0.5}
    return [imitation, *halves, Choice(key="learner.warm_start", value=value, why=why)]


def _spared(known: Measured, pace: Pace) -> list[Choice]:
    """Return how attempts are spared that teach nothing, where they are slow."""
    if known.weights < SMALL:
        return []
    why = (
        "a step waits for few groups in place of those that teach nothing: replay teaches meanwhile"
    )
    refill = Choice(key="learner.refill_batches", value=1, why=why)
    if not pace.makes_tasks:
        return [refill]
    why = "a task that all of a group solved makes room for others"
    return [refill, Choice(key="pool.retire_after", value=1, why=why)]


def guard(
    config: RunConfig, training_tasks: Callable[[RunConfig], Sequence[Task]]
) -> tuple[RunConfig, list[Choice]]:
    """Return the settings without a guard, and that choice, if it could not spare training tasks.

    ``training_tasks`` returns those of a run with given settings.
    """
    settings = replace(config.learner.guard, action="none")
    unguarded = replace(config, learner=replace(config.learner, guard=settings))
    train = len(training_tasks(unguarded))
    if train >= GUARDED:
        return config, []
    why = f"{counted(train, 'training task')} {'is' if train == 1 else 'are'} too few to spare some"
    return unguarded, [Choice(key="learner.guard", value={"action": "none"}, why=why)]


def loop(synthesizer: EndpointModel | None) -> list[Choice]:
    """Return where tasks come from."""
    if synthesizer is None:
        why = "no endpoint makes tasks (--synthesizer), so it trains on those of the file alone"
        return [Choice(key="arm", value="static", why=why)]
    model: dict[str, Any] = {
        "kind": "endpoint",
        "base_url": synthesizer.base_url,
        "model": synthesizer.model,
    }
    if synthesizer.key_variable:
        model |= {"key_variable": synthesizer.key_variable}
    return [
        Choice(key="arm", value="full", why="tasks of the file, and tasks made where it is weak"),
        Choice(key="synthesizer.model", value=model),
        Choice(
            key="synthesizer.idle_steps",
            value=2,
            why="it explores for other tasks as soon as two steps show no weakness",
        ),
        Choice(
            key="pool.synthetic_share",
            value=0.5,
            why="the file's own tasks keep half of the groups",
        ),
    ]


def machine(known: Measured, rows: "RowSeconds") -> list[Choice]:
    """Return the precision, and how the run uses the cores: a half for the engine, one to learn."""
    each = max(1, known.cores // 2)
    chosen = [Choice(key="simulator.workers", value=1 if known.cores <= 4 else 2)]
    if known.weights < SMALL:
        return chosen
    engine: dict[str, Any] = {"kind": "transformers"}
    whys: list[str] = []
    if rows.bf16 * LEAST_GAIN <= rows.fp32:
        engine["dtype"] = "bfloat16"
        why = f"learning from a conversation took {rows.bf16:.1f} s, with fp32 {rows.fp32:.1f} s"
        chosen.append(Choice(key="policy.precision", value="bf16", why=why))
        whys.append("as the learner")
    if each > 1:
        engine["threads"] = each
        whys.append(f"a half of the {known.cores} cores")
        chosen.append(Choice(key="learner.threads", value=each, why="the other half"))
    if whys:
        chosen.append(Choice(key="rollout.engine", value=engine, why="; ".join(whys)))
    return chosen


def with_given(choices: Sequence[Choice], given: Mapping[str, Any]) -> list[Choice]:
    """Return the choices with the user's values, by key, in place of those chosen, or in addition.

    A choice that is a section keeps its other settings.
    """
    found = {each.key: each for each in choices}
    for key, value in given.items():
        section, *inner = _places(key)
        chosen = found.get(section)
        if not inner:
            found[section] = Choice(key=section, value=value, why="as you said")
            continue
        old = chosen.value if chosen else None
        why = f"{chosen.why}; {'.'.join(inner)} as you said" if chosen else "as you said"
        found[section] = Choice(key=section, value=_put(old, inner, value), why=why)
    return list(found.values())


def _places(key: str) -> list[str]:
    """Return the key of a line in a run file, and the names within its value."""
    names = key.split(".")
    return [".".join(names[:2]), *names[2:]]


def _put(tree: Any, names: Sequence[str], value: Any) -> Any:
    if not names:
        return value
    section = dict(cast("Mapping[str, Any]", tree)) if isinstance(tree, dict) else {}
    return section | {names[0]: _put(section.get(names[0]), names[1:], value)}


def run_file_text(choices: Sequence[Choice], head: Sequence[str]) -> str:
    """Return the run file, with the reasons as comments; ``head`` are comments at its top."""
    lines = [f"# {line}".rstrip() for line in head]
    sections: dict[str, list[Choice]] = {}
    for each in choices:
        section, dot, _ = each.key.partition(".")
        sections.setdefault(section if dot else "", []).append(each)
    for section, members in sections.items():
        indent = ""
        if section:
            lines.append(f"{section}:")
            indent = "  "
        for each in members:
            lines += _setting(each, indent)
    return "\n".join((*lines, ""))


def _setting(choice: Choice, indent: str) -> list[str]:
    name = choice.key.partition(".")[2] or choice.key
    written = f"{indent}{name}: {_flow(choice.value)}"
    if not choice.why:
        return [written]
    if len(f"{written}  # {choice.why}") <= WIDTH:
        return [f"{written}  # {choice.why}"]
    room = WIDTH - len(indent) - 2
    return [*(f"{indent}# {line}" for line in textwrap.wrap(choice.why, room)), written]


def _flow(value: Any) -> str:
    """Return a value in one line of YAML."""
    if isinstance(value, dict):
        section = cast("Mapping[str, Any]", value)
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in section.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, cast("list[Any]", value))) + "]"
    if isinstance(value, float) and 0 < abs(value) < 1e-2:
        return _rate(value)
    return write_yaml({"value": value}).partition(": ")[2].strip().replace("\n", " ")


def _rate(value: float) -> str:
    digits, _, power = f"{value:e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"


def _pieces(length: float, piece: int) -> int:
    return -(-int(length) // piece) * piece


def _concurrent(known: Measured, most: int) -> int:
    each = max(1, known.cache_bytes_a_token * most)
    return max(4, min(MOST_CONCURRENT, int(CACHE_SHARE * known.free_bytes / each)))
