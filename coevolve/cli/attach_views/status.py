"""`attach status`: the state of the parts, the run's progress, and the synthesizers' results."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.table import Table

from coevolve.cli.attach_views.output import age, console, print_json, share, table
from coevolve.cli.attach_views.subject import Subject
from coevolve.delivery.alarms import sentence
from coevolve.estimate.memory import excesses, expected
from coevolve.history.degraded import copy_failure
from coevolve.history.evolution_totals import EvolutionTotals, evolution_snapshots
from coevolve.history.histories import WAITING, SynthesizerTotals
from coevolve.history.progress import Progress, progress_snapshots
from coevolve.history.teaching import sentence as regression
from coevolve.history.traffic import recent_traffic
from coevolve.history.weight_sync import scale_sentence
from coevolve.journal.codec import topic_of
from coevolve.journal.paging import whole_topic
from coevolve.loop import LOOP
from coevolve.screen.facts import score_tables
from protocols.capabilities import absent
from protocols.control import PartStatus, RunCopied
from protocols.evolution import SynthesizerSwapped
from protocols.journal import JournalStatistics
from protocols.learning import PolicyVersion
from protocols.synthesizers import EndpointModel, SynthesizerModel

DERIVED = (
    *("admitted", "refused", "acceptance", "learnable_share"),
    *("tokens_per_admitted", "cost_usd_per_admitted"),
)
"""Properties of a synthesizer's totals that programs get, besides the counts."""

ERRORS = 5
"""Maximum number of failures shown; the newest are shown."""


async def status(subject: Subject, *, as_json: bool, journal: bool = False) -> None:
    """Print the run's progress, what each part waits for and the results of its synthesizers.

    ``journal`` adds the table of the journal.
    """
    labels = subject.environment.labels()
    progress, _ = await progress_snapshots(subject.reader, labels).folded()
    evolution, _ = await evolution_snapshots(subject.reader).folded()
    statuses: Sequence[PartStatus] = ()
    statistics: JournalStatistics | None = None
    if subject.live is not None:
        statuses = await asyncio.gather(*(part.status() for part in subject.live.parts))
        statistics = await subject.live.store.statistics()
    if as_json:
        tree = _tree(subject, progress, evolution, statuses, statistics)
        endpoint = msgspec.to_builtins(await recent_traffic(subject.reader))
        print_json({**tree, "swaps": await _swaps(subject, evolution), "endpoint": endpoint})
        return
    out = console()
    begun = await subject.reader.last(topic_of(PolicyVersion)) is not None
    for part in (
        progress_line(subject, progress, begun=begun),
        *_remarks(progress, evolution),
        *(await recent_traffic(subject.reader)).lines(),
        *score_tables(progress, out.width),
        *_best(progress),
        _synthesizer_line(subject, evolution),
        *_scale_line(progress),
        *_parts(statuses, statistics, progress),
        *_absent_parts(subject, statuses),
        *([_engines_table(progress)] if progress.deliveries.newest else ()),
        *_evolution_tables(evolution),
        *([_journal_table(statistics)] if statistics and journal else ()),
        *_memory(subject, statuses),
        *_without(subject),
    ):
        out.print(part)


async def _swaps(subject: Subject, evolution: EvolutionTotals) -> list[Mapping[str, Any]]:
    records = whole_topic(subject.reader, topic_of(SynthesizerSwapped))
    times_ns = [record.time_ns async for record in records]
    return [
        {**msgspec.to_builtins(swap), "time_ns": time_ns}
        for swap, time_ns in zip(evolution.swaps, times_ns, strict=False)
    ]


def _tree(
    subject: Subject,
    progress: Progress,
    evolution: EvolutionTotals,
    statuses: Sequence[PartStatus],
    statistics: JournalStatistics | None,
) -> Mapping[str, Any]:
    return {
        "run": subject.name,
        "running": subject.running,
        "paused": evolution.paused,
        "step": progress.step,
        "steps": subject.config.learner.steps,
        "stages": progress.stages,
        "success": progress.evaluations,
        "scenarios": progress.scenarios,
        "measured": progress.measured,
        "canaries": progress.canaries,
        "best": progress.choice(),
        "regressions": progress.teaching.returns,
        "discarded": progress.discarded,
        "rollout": progress.deliveries.scaled,
        "deliveries": progress.deliveries.newest,
        "weight_sync_alarm": progress.deliveries.alarm,
        "failures": progress.failures,
        "restarts": progress.restarts,
        "resting": progress.degraded.parts,
        "followers_fail": progress.degraded.followers,
        "nodes_too_small": progress.degraded.too_small,
        "model_rests": progress.degraded.model,
        "reader_rests": progress.degraded.reader,
        "dead_letters": progress.degraded.letters,
        "stalls": progress.stalls,
        "copied": progress.copied,
        "copy_failed": progress.copy_failed,
        "parts": statuses,
        "journal": statistics,
        "synthesizer": _current(subject, evolution),
        "synthesizers": [_totals_tree(totals) for totals in evolution.synthesizers()],
        "signals": evolution.kinds(),
        "without": absent(subject.environment.capabilities),
        "refusals": evolution.refusals(),
        "refused_swaps": evolution.refused_swaps,
    }


def _current(subject: Subject, evolution: EvolutionTotals) -> Mapping[str, Any] | None:
    """Return the current synthesizer: its model and its name; None if the arm has none."""
    if not subject.config.synthesizes:
        return None
    return {"name": evolution.synthesizer, "model": _model(subject, evolution)}


def _model(subject: Subject, evolution: EvolutionTotals) -> SynthesizerModel:
    return evolution.swaps[-1].model if evolution.swaps else subject.config.synthesizer.model


def _synthesizer_line(subject: Subject, evolution: EvolutionTotals) -> str:
    if not subject.config.synthesizes:
        return f"arm {subject.config.arm}: synthesizes no tasks"
    model = _model(subject, evolution)
    if isinstance(model, EndpointModel):
        line = f"synthesizer: {model.model} at {model.base_url}"
    else:
        line = f"synthesizer: the policy with its {model.weights} weights"
    if evolution.synthesizer:
        line += f" ({evolution.synthesizer})"
    if evolution.swaps:
        swap = evolution.swaps[-1]
        line += f", since version {swap.version}"
        line += f", before that {swap.before}" if swap.before else ""
    return line


def _scale_line(progress: Progress) -> list[str]:
    """Return the engines if they are not those that the run file names."""
    scaled = progress.deliveries.scaled
    if scaled is None or (scaled.cause == "start" and len(scaled.engines) == scaled.actors):
        return []
    return [f"{scale_sentence(scaled)}; rollout.actors is {scaled.actors}"]


def _totals_tree(totals: SynthesizerTotals) -> Mapping[str, Any]:
    tree = msgspec.to_builtins(totals)
    return {**tree.pop("usage"), **tree, **{name: getattr(totals, name) for name in DERIVED}}


def _best(progress: Progress) -> list[str]:
    """Return which version is the best, if there is one."""
    best = progress.choice()
    return [f"best: {best.sentence(progress.measure)}"] if best and best.is_told else []


def progress_line(subject: Subject, progress: Progress, *, begun: bool) -> str:
    """Return whether the run is running, and how far it is."""
    learner = subject.config.learner
    line = f"{subject.standing}; step {progress.step} of {learner.steps}"
    if words := progress.stages.line(learner.warm_start):
        line += f"; warm start: {words}"
    return line if begun else f"{line}; no policy version yet"


def _remarks(progress: Progress, evolution: EvolutionTotals) -> list[str]:
    """Return what a user should know first: an alarm, what rests, a pause, and the newest copy."""
    return [
        *([f"ALARM: {sentence(progress.deliveries.alarm)}"] if progress.deliveries.alarm else ()),
        *(regression(each) for each in progress.teaching.returns[-ERRORS:]),
        *(["paused; continue with `attach resume`"] if evolution.paused else ()),
        *progress.degraded.lines(),
        *([_copied(progress.copied)] if progress.copied else ()),
        *([copy_failure(progress.copy_failed)] if progress.copy_failed else ()),
    ]


def _copied(copy: RunCopied) -> str:
    """Return one line about the newest copy of the run."""
    return (
        f"copied: copy {copy.number} holds step {copy.step} and {copy.records} records; "
        f"{copy.sent_bytes / 1e6:.1f} of {copy.size_bytes / 1e6:.1f} MB were sent in "
        f"{copy.wall_s:.1f} s"
    )


def _memory(subject: Subject, statuses: Sequence[PartStatus]) -> list[str]:
    """Return one line for each process that took more memory than was estimated."""
    if subject.folder is None or not statuses:
        return []
    others = subject.environment.imitates_others
    return excesses(expected(subject.config, subject.folder, imitates_others=others), statuses)


def _without(subject: Subject) -> list[str]:
    """Return one line for each optional capability that the environment does not offer."""
    return [
        f"the environment {subject.config.uses} does not offer {name}, which is optional: {words}"
        for name, words in absent(subject.environment.capabilities).items()
    ]


def _parts(
    statuses: Sequence[PartStatus], statistics: JournalStatistics | None, progress: Progress
) -> list[Table | str]:
    """Return the tables of the parts that answer, and the errors of all parts."""
    return [
        *([_parts_table(statuses, statistics.backlog)] if statistics else ()),
        *([_processes_table(statuses, progress)] if statuses else ()),
        *(f"{each.part}, last error: {each.last_error}" for each in statuses if each.last_error),
        *(f"{failure.part} restarted: {failure.reason}" for failure in progress.failures[-ERRORS:]),
    ]


def _absent_parts(subject: Subject, statuses: Sequence[PartStatus]) -> list[str]:
    """Return a line for each part of the run without a process, while the run has others."""
    there = {_kind_of(each.part) for each in statuses}
    wanted = [spec.name for spec in LOOP if there and spec.exists(subject.config)]
    return [f"{name}: has no process" for name in wanted if name not in there]


def _kind_of(part: str) -> str:
    """Return the name in `coevolve.loop` of a part, which may have a number."""
    kind, _, _ = part.partition("-")
    return kind


def _parts_table(statuses: Sequence[PartStatus], backlog: Mapping[str, int]) -> Table:
    """Return what each part does; parts of one kind share a queue."""
    columns = ("part", "version", "queue", "taken", "done", "waits for", "since")
    rows = (
        (
            entry.part,
            entry.policy_version if entry.policy_version >= 0 else "",
            backlog.get(_kind_of(entry.part), ""),
            *(entry.mailbox, entry.done, entry.waits_for, age(entry.since_s)),
        )
        for entry in statuses
    )
    return table("parts", columns, rows, wrapped=("waits for",))


def _processes_table(statuses: Sequence[PartStatus], progress: Progress) -> Table:
    def used(entry: PartStatus) -> Sequence[object]:
        if entry.pid is None:
            return "", "", "", ""
        sizes = (f"{size / 1e6:.0f} MB" for size in (entry.memory_bytes, entry.peak_bytes))
        return entry.pid, f"{entry.cpu_s:.0f} s", *sizes

    columns = ("part", "pid", "CPU", "memory", "peak", "restarts")
    rows = ((e.part, *used(e), progress.restarts.get(e.part, 0)) for e in statuses)
    return table("processes", columns, rows)


def _engines_table(progress: Progress) -> Table:
    """Return the newest proof of each engine, from its current process or an earlier one."""
    columns = ("engine", "version", "digest", "difference", "loaded in", "pause")
    rows = (
        (
            *(engine, proof.version, proof.digest[:12], f"{proof.max_abs_difference:.1e} nats"),
            *(f"{1e3 * seconds:.0f} ms" for seconds in (proof.wall_s, proof.pause_s)),
        )
        for engine, proof in sorted(progress.deliveries.newest.items())
    )
    return table("engines, and the newest proof of their weights", columns, rows)


def _journal_table(statistics: JournalStatistics) -> Table:
    rows = [
        ("newest sequence", statistics.last_sequence),
        ("size", f"{statistics.size_bytes / 1e6:.1f} MB"),
        *((f"topic {topic}", count) for topic, count in sorted(statistics.topics.items())),
        *(
            (f"consumer {each}: waiting / leased", f"{n} / {statistics.leased.get(each, 0)}")
            for each, n in sorted(statistics.backlog.items())
        ),
    ]
    return table("journal", ("what", "count"), rows)


def _evolution_tables(evolution: EvolutionTotals) -> list[Table]:
    """Return the tables of signals, synthesizers and refusals; those without rows are left out."""
    tables: list[Table] = []
    if evolution.signals:
        tables.append(_signals_table(evolution))
    if all_totals := evolution.synthesizers():
        tables += _synthesizers_tables(all_totals)
    if refusals := evolution.refusals():
        tables.append(table("candidates refused", ("gate", "count"), refusals.most_common()))
    return tables


def _signals_table(evolution: EvolutionTotals) -> Table:
    rows: list[Sequence[object]] = []
    for kind, outcomes in sorted(evolution.kinds().items()):
        made, waiting = outcomes["synthesized"], outcomes[WAITING]
        every = outcomes.total()
        rows.append((kind, every, waiting, every - made - waiting, made))
    return table("signals", ("kind", "all", WAITING, "no candidates", "made candidates"), rows)


def _synthesizers_tables(all_totals: Sequence[SynthesizerTotals]) -> list[Table]:
    """Return what the synthesizers made, and what it cost."""
    columns = ("name", "candidates", "admitted", "parked", "refused", "accepted", "learnable")
    made = (
        (
            *(each.synthesizer, each.candidates, each.admitted, each.parked, each.refused),
            *(share(each.acceptance), share(each.learnable_share)),
        )
        for each in all_totals
    )
    prices = ("name", "calls", "tokens", "tokens/task", "USD", "USD/task")
    costs: list[Sequence[object]] = []
    for each in all_totals:
        tokens, cost = each.tokens_per_admitted, each.cost_usd_per_admitted
        costs.append(
            (
                *(each.synthesizer, each.usage.calls, each.usage.tokens),
                "" if tokens is None else f"{tokens:.0f}",
                f"{each.usage.cost_usd:.2f}",
                "" if cost is None else f"{cost:.4f}",
            )
        )
    return [
        table("synthesizers", columns, made, wrapped=("name",)),
        table("costs of synthesizers", prices, costs, wrapped=("name",)),
    ]
