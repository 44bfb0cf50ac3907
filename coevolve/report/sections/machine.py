"""The sections on the machine: staleness, weight sync, throughput, CPU time and failures."""

from collections import Counter
from collections.abc import Mapping, Sequence

from coevolve.history.drawn import DELIVERY, SPEED, STALENESS, STEP_TIMES
from coevolve.history.run_history import RunHistory
from coevolve.history.scales import bin_name, bins, number, percent
from coevolve.history.starts import CpuShares
from coevolve.history.timeline import Bin
from coevolve.report.charts import PERCENT, Layer, Line, line_chart, row_chart, stacked_chart
from coevolve.report.figure import Table, figure, listed, missing, section
from coevolve.report.markup import Markup, clipped
from coevolve.report.times import moment

POINTS = 80
COLUMNS = 40
HAPPENINGS = 100
"""Maximum number of rows in the table of events; the newest are shown."""

REASON = 400


def staleness_section(data: RunHistory) -> Markup:
    """Return how many versions the rollouts lagged behind the trained version."""
    title = "Staleness"
    if not data.timeline.steps:
        return section("staleness", title, missing("No step has been taken yet."))
    bound = data.config.learner.max_staleness
    chart = metrics_figure(
        data,
        STALENESS,
        "Lag of the rollouts behind the trained version, in policy versions",
        f"A rollout has the version of its oldest token. The configured maximum is {bound}.",
        "versions behind",
    )
    return section("staleness", title, chart)


def delivery_section(data: RunHistory) -> Markup:
    """Return how long it took until every rollout engine served and proved a version."""
    title = "Delivery of policy versions"
    lines = data.progress.deliveries.lines()
    if not lines:
        return section("delivery", title, missing("No engine has proven a version yet."))
    account = Table("Proofs", ["what", "value"], [[what.strip(), value] for what, value in lines])
    note = "An engine proves a version by the digest of its file and by logprobs of fixed tokens."
    chart = metrics_figure(
        data,
        DELIVERY,
        "Seconds until every rollout engine has proven a version",
        "The step that received the proofs records the time. It includes the pause.",
        "s",
    )
    return section("delivery", title, chart, listed("Proofs", note, account))


def throughput_section(data: RunHistory) -> Markup:
    """Return the speed of the steps and what their time was spent on."""
    title = "Throughput"
    if not data.timeline.steps:
        return section("throughput", title, missing("No step has been taken yet."))
    speed = metrics_figure(
        data,
        SPEED,
        "Tokens per second and step",
        "All tokens of the step's rollouts, including those of the environment, divided by the "
        "seconds from one step to the next.",
        "tokens/s",
    )
    return section("throughput", title, speed, _progress(data), _step_times(data))


def processors_section(data: RunHistory) -> Markup:
    """Return the CPU time of each part, in all starts of the run."""
    title = "CPU time by part"
    starts = data.progress.starts
    rows = processor_shares(starts.cpu)
    if not rows:
        return section("cpu", title, missing("Not measured yet: a run records it once a minute."))
    total = sum(seconds for _, seconds in rows)
    spans = (
        "the only start" if starts.number == 1 else f"{starts.measured} of {starts.number} starts"
    )
    return section(
        "cpu",
        title,
        figure(
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
        ),
    )


def processor_shares(used: CpuShares | None) -> list[tuple[str, float]]:
    """Return (part, CPU seconds): models, simulators, others by size; [] if unknown."""
    if used is None:
        return []
    rest = sorted(used.rest_s.items(), key=lambda each: -each[1])
    rows = [("models", used.model_s), ("simulators", used.simulator_s), *rest]
    return rows if any(seconds > 0 for _, seconds in rows) else []


def events_section(data: RunHistory) -> Markup:
    """Return the starts, stops, stalls, failed parts and swaps."""
    title = "Starts, stops, failures and stalls"
    happenings = data.timeline.happenings
    if not happenings:
        return section("events", title, missing("Nothing has been recorded yet."))
    shown = happenings[-HAPPENINGS:]
    cut = "" if len(shown) == len(happenings) else f"The newest {HAPPENINGS} of {len(happenings)}."
    table = Table(
        "Events",
        ["time", "after step", "what", "details"],
        [
            [moment(each.time_ns), str(each.step), each.what, clipped(each.details, REASON)]
            for each in shown
        ],
        words=4,
    )
    restarts = sum(data.progress.restarts.values())
    starts = data.progress.starts.number
    stalls = data.timeline.stalls
    summary = f"Starts of the run: {starts}. Restarted parts: {restarts}. Stalls: {stalls}. {cut}"
    return section("events", title, listed("Events", summary, table))


def metrics_figure(
    data: RunHistory, names: Mapping[str, str], title: str, note: str, up: str
) -> Markup:
    """Draw metrics of the steps; ``names`` maps a metric to the name of its line."""
    found = {name: data.timeline.binned(metric, POINTS) for metric, name in names.items()}
    lines = [_line(name, each) for name, each in found.items() if each]
    if not lines:
        return missing(f"{title}: the steps do not record this metric.")
    width = data.timeline.width(POINTS)
    per = f" Each point is the mean of {width} steps, each bar their range." if width > 1 else ""
    steps = list(dict.fromkeys(x for line in lines for x, _ in line.points))
    means = [dict(line.points) for line in lines]
    table = Table(
        title,
        ["step", *(line.name for line in lines)],
        [[number(x), *(number(each[x]) if x in each else "" for each in means)] for x in steps],
    )
    return figure(title, note + per, line_chart(title, lines, across="step", up=up), table)


def _line(name: str, found: Sequence[Bin]) -> Line:
    points = tuple((each.last, each.mean) for each in found)
    several = any(each.steps > 1 for each in found)
    bounds = tuple((each.low, each.high) for each in found) if several else ()
    return Line(name=name, points=points, bounds=bounds)


def _progress(data: RunHistory) -> Markup:
    timeline = data.timeline
    width = timeline.width(POINTS)
    newest: dict[int, tuple[float, float]] = {}
    for (step, _), time_ns in zip(timeline.steps, timeline.stepped_ns, strict=True):
        last = min(((step - 1) // width + 1) * width, timeline.step)
        newest[last] = (time_ns - timeline.started_ns) / 60e9, float(last)
    points = tuple(newest.values())
    title = "Steps over wall-clock time"
    return figure(
        title,
        "Minutes since the first record of the run, including time between a stop and a resume.",
        line_chart(title, [Line("step", points)], across="minutes", up="step"),
        Table(title, ["minutes", "step"], [[number(x), number(y)] for x, y in points]),
    )


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
        found = {(x.last - 1) // width: x.mean * x.steps for x in timeline.binned(metric, COLUMNS)}
        amounts = (found.get(i, 0.0) / max(1, counts[i]) for i in range(len(periods)))
        layers.append(Layer(name, tuple(amounts)))
    names = [bin_name(period) for period in periods]
    return figure(
        title,
        "How the learner spent its time.",
        stacked_chart(title, names, layers, across="step", up="s"),
        Table(
            title,
            ["step", *(layer.name for layer in layers)],
            [[name, *(number(x.amounts[i]) for x in layers)] for i, name in enumerate(names)],
        ),
    )
