"""The section on speed: the time of a step, the delivery of weights, and CPU time by part.

The curves of single metrics, such as staleness and tokens per second, are among all metrics.
"""

from collections import Counter, defaultdict

from coevolve.history.run_history import RunHistory
from coevolve.history.scales import bin_name, bins, number, percent
from coevolve.history.series import STEP_TIMES
from coevolve.history.starts import CpuShares
from coevolve.report.charts import PERCENT, Layer, row_chart, stacked_figure
from coevolve.report.figure import Table, figure, folded, listed, missing
from coevolve.report.markup import Markup
from coevolve.report.sentences import duration

COLUMNS = 40


def machine_section(data: RunHistory) -> Markup:
    """Return what the time of the steps was spent on, by whom, and how weights were delivered."""
    title = "Speed and machine"
    if not data.timeline.steps:
        return folded("machine", title, "No step has been taken yet.")
    spent_s = (data.timeline.newest_ns - data.timeline.started_ns) / 1e9
    line = f"{len(data.timeline.steps)} steps within {duration(spent_s)}."
    return folded("machine", title, line, _step_times(data), _processors(data), _delivery(data))


def _delivery(data: RunHistory) -> Markup:
    """Return how many versions every rollout engine has served and proved."""
    lines = data.progress.deliveries.lines()
    if not lines:
        return missing("No engine has proven a version yet.")
    account = Table("Proofs", ["what", "value"], [[what.strip(), value] for what, value in lines])
    note = "An engine proves a version by the digest of its file and by logprobs of fixed tokens."
    return listed("Delivery of policy versions", note, account)


def _processors(data: RunHistory) -> Markup:
    """Return the CPU time of each part, in all starts of the run."""
    starts = data.progress.starts
    rows = processor_shares(starts.cpu)
    if not rows:
        return missing("CPU time is not measured yet: a run records it once a minute.")
    total = sum(seconds for _, seconds in rows)
    spans = (
        "the only start" if starts.number == 1 else f"{starts.measured} of {starts.number} starts"
    )
    return figure(
        "Share of all CPU time, by part",
        f"{number(total)} CPU seconds on the launcher's machine in {spans} of the run, each "
        "from its first rollout to its last step. Models and simulators have their own rows; "
        "no part's row includes them.",
        row_chart(
            "Share of all CPU time, by part",
            [(name, seconds / total) for name, seconds in rows],
            form=PERCENT,
        ),
        Table(
            "CPU seconds by part",
            ["part", "seconds", "share"],
            [[name, number(seconds), percent(seconds / total)] for name, seconds in rows],
        ),
    )


def processor_shares(used: CpuShares | None) -> list[tuple[str, float]]:
    """Return (part, CPU seconds): models, simulators, others by size; [] if unknown."""
    if used is None:
        return []
    rest = sorted(used.rest_s.items(), key=lambda each: -each[1])
    rows = [("models", used.model_s), ("simulators", used.simulator_s), *rest]
    return rows if any(seconds > 0 for _, seconds in rows) else []


def _step_times(data: RunHistory) -> Markup:
    timeline = data.timeline
    title = "Seconds per step"
    if not timeline.columns.keys() & STEP_TIMES.keys():
        return missing(f"{title}: the steps do not record this metric.")
    periods = bins(1, timeline.step, COLUMNS)
    width = len(periods[0])
    counts = Counter((each.step - 1) // width for each in timeline.steps)
    layers: list[Layer] = []
    for metric, name in STEP_TIMES.items():
        sums: defaultdict[int, float] = defaultdict(float)
        if column := timeline.columns.get(metric):
            for step, value in zip(column.steps, column.values, strict=True):
                sums[(step - 1) // width] += value
        amounts = (sums[i] / max(1, counts[i]) for i in range(len(periods)))
        layers.append(Layer(name, tuple(amounts)))
    names = [bin_name(period) for period in periods]
    note = "How the learner spent its time."
    return stacked_figure(title, note, names, layers, across="step", up="s", shown=number)
