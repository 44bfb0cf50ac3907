"""Signals by kind and outcome, and the section on candidates, verdicts and synthesizers."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

from coevolve.history.evolution_totals import EvolutionTotals
from coevolve.history.histories import WAITING, SynthesizerTotals
from coevolve.history.run_history import RunHistory
from coevolve.history.scales import bin_name, bins, number, percent
from coevolve.report.charts import COUNT, Layer, row_chart, stacked_figure
from coevolve.report.figure import Table, figure, folded, listed, missing
from coevolve.report.links import to_signal
from coevolve.report.markup import Markup, clipped
from coevolve.report.refusals import contamination_rules, refused
from protocols.evolution import SignalKind

COLUMNS = 40
LISTED = 200
"""Maximum number of refused candidates in the table; the newest are shown."""

RULES = 12
"""Maximum number of rules for contamination in the table; the most frequent are shown."""

FOUND = 200
"""Maximum characters of what a gate found."""

OUTCOMES = ("synthesized", "nothing_found", "expired", "over_budget", "failed", WAITING)


def signals_told(data: RunHistory) -> list[Markup]:
    """Return the signals by kind, over policy versions, and their outcomes."""
    counts = data.totals.kinds()
    outcomes = listed(
        "Outcomes of the signals",
        "",
        Table(
            "Signals by kind and outcome",
            ["kind", *(outcome.replace("_", " ") for outcome in OUTCOMES), "all"],
            [
                [kind, *(str(counts[kind][o]) for o in OUTCOMES), str(counts[kind].total())]
                for kind in _kinds(data.totals)
            ],
        ),
    )
    return [_over_versions(data), outcomes]


def candidates_section(data: RunHistory) -> Markup:
    """Return the admitted candidates, the refused ones by gate, and the synthesizers."""
    title = "Candidates and verdicts"
    if not data.totals.by_synthesizer and not data.totals.settled:
        return folded("candidates", title, "Nothing has been synthesized.")
    parts = [_funnel(data.totals), _refusals(data.totals), *_refused(data)]
    all_totals = data.totals.synthesizers()
    if all_totals:
        parts.append(_synthesizers(all_totals))
    admitted = sum(each.admitted for each in all_totals)
    refused_count = sum(each.refused for each in all_totals)
    return folded("candidates", title, f"{admitted} admitted, {refused_count} refused.", *parts)


def funnel(totals: EvolutionTotals) -> list[tuple[str, float]]:
    """Return how many signals and candidates remain at each stage from a signal to a task."""
    synthesizers = totals.synthesizers()
    admitted = sum((Counter(each.labels) for each in synthesizers), Counter[str]())
    parked = sum(each.parked for each in synthesizers)
    refused = sum(each.refused for each in synthesizers)
    settled = sum((Counter(each) for each in totals.settled.values()), Counter[str]())
    return [
        ("signals", sum(totals.signals.values())),
        ("signals that were resolved", settled.total()),
        ("signals that led to candidates", settled["synthesized"]),
        ("candidates", sum(each.candidates for each in synthesizers)),
        ("candidates judged", admitted.total() + parked + refused),
        ("sound: admitted or parked", admitted.total() + parked),
        ("admitted", admitted.total()),
        ("  of these mastered", admitted["mastered"]),
        ("  of these learnable", admitted["learnable"]),
        ("  of these not yet", admitted["not_yet"]),
        ("  of these unprobed", admitted["unprobed"]),
    ]


def _over_versions(data: RunHistory) -> Markup:
    signals = data.evolution.signals.values()
    newest = max(data.totals.version, *(signal.policy_version for signal in signals), 0)
    periods = bins(0, newest, COLUMNS)
    names = [bin_name(period) for period in periods]
    width = len(periods[0])
    counts = Counter((signal.kind, signal.policy_version // width) for signal in signals)
    layers = [
        Layer(name=kind, amounts=tuple(counts[kind, index] for index in range(len(periods))))
        for kind in _kinds(data.totals)
    ]
    title = "Signals by kind and policy version"
    note = "The policy version is that of the signal's rollouts."
    return stacked_figure(title, note, names, layers, across="policy version", up="signals")


def _funnel(totals: EvolutionTotals) -> Markup:
    rows = funnel(totals)
    title = "From signals to tasks"
    return figure(
        title,
        "A candidate counts with its newest verdict. One signal may lead to several candidates.",
        row_chart(title, rows, form=COUNT),
        Table(title, ["stage", "count"], [[name, number(count)] for name, count in rows]),
    )


def _refusals(totals: EvolutionTotals) -> Markup:
    counts = totals.refusals()
    if not counts:
        return missing("No candidate has been refused.")
    gates = sorted(counts, key=lambda gate: (-counts[gate], gate))
    title = "Candidates refused, by gate"
    return figure(
        title,
        "All refusals of the run. A candidate counts for the first gate that refused it. Most "
        "frequent gates come first.",
        row_chart(title, [(gate.replace("_", " "), counts[gate]) for gate in gates], form=COUNT),
        Table(title, ["gate", "candidates"], [[gate, str(counts[gate])] for gate in gates]),
    )


def _refused(data: RunHistory) -> list[Markup]:
    """Return a table of the newest refused candidates; none without any."""
    found = refused(data)
    if not found:
        return []
    rows = [
        [
            _described(data, v.candidate_id),
            outcome.gate.replace("_", " "),
            clipped(outcome.found, FOUND),
            to_signal(v.signal_id),
            str(v.policy_version),
        ]
        for v, outcome in found[: -LISTED - 1 : -1]
    ]
    columns = ("candidate", "gate", "what it found", "signal", "policy version")
    limit = data.config.validator.similarity
    note = (
        f"Duplicate: the similarity to a task of the pool is {limit:.2f} or more "
        "(validator.similarity). Contaminated: so is that to a held-out task, or it shares what "
        "only held-out tasks ask for, so training on it would spoil the score; which task is not "
        "said, so that nobody writes training tasks after it. Contradicted: the run's own tasks "
        "use its wording for other work. Unsolved: no probe succeeded, and no more candidates may "
        "be parked. Of these only similarity has a limit; the rest are yes-or-no rules. Other "
        "gates are the environment's."
    )
    cut = f" The newest {LISTED} of {len(found)}." if len(found) > LISTED else ""
    table = Table("Refused candidates, the newest first", columns, rows, words=4, sortable=True)
    return [*_contaminated(data), listed("Why candidates were refused", note + cut, table)]


def _contaminated(data: RunHistory) -> list[Markup]:
    """Return a table of the rules that refused candidates as contaminated; none without any."""
    rules = contamination_rules(data)
    if not rules:
        return []
    title = "Contaminated candidates, by rule"
    rows = [[rule, str(count)] for rule, count in rules.most_common(RULES)]
    left = f" The {RULES} most frequent of {len(rules)} rules." if len(rules) > RULES else ""
    note = f"All {rules.total()} that the journal has.{left}"
    return [listed(title, note, Table(title, ["rule", "candidates"], rows))]


def _described(data: RunHistory, candidate_id: str) -> str:
    candidate = data.evolution.candidates.get(candidate_id)
    return clipped(data.describe_candidate(candidate) if candidate else candidate_id, FOUND)


def _synthesizers(all_totals: Sequence[SynthesizerTotals]) -> Markup:
    title = "By synthesizer"
    columns = (
        "model",
        "signals",
        "candidates",
        "admitted",
        "learnable",
        "parked",
        "refused",
        "admitted share",
        "calls",
        "tokens",
        "tokens per task",
        "USD",
        "USD per task",
    )
    rows = [
        [
            totals.synthesizer or "none",
            str(sum(totals.settled.values())),
            str(totals.candidates),
            str(totals.admitted),
            str(totals.labels.get("learnable", 0)),
            str(totals.parked),
            str(totals.refused),
            _or_dash(totals.acceptance, percent),
            str(totals.usage.calls),
            f"{totals.usage.tokens:,}",
            _or_dash(totals.tokens_per_admitted, number),
            f"{totals.usage.cost_usd:,.4f}",
            _or_dash(totals.cost_usd_per_admitted, number),
        ]
        for totals in all_totals
    ]
    return listed(title, "", Table("Results and costs of each synthesizer", columns, rows))


def _kinds(totals: EvolutionTotals) -> list[str]:
    present = totals.kinds()
    return [kind for kind in get_args(SignalKind) if kind in present]


def _or_dash(value: float | None, written: Callable[[float], str]) -> str:
    return "\N{EN DASH}" if value is None else written(value)
