"""The head of the report, and its sections on the run's settings and its costs."""

from importlib.metadata import PackageNotFoundError, version

from coevolve.history.run_history import RunHistory
from coevolve.history.scales import number, percent
from coevolve.report.charts import row_chart
from coevolve.report.figure import Table, figure, listed, missing, paragraphs, section
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.times import duration, moment
from coevolve.yaml_text import write_yaml
from protocols.config import RunConfig
from protocols.synthesizers import EndpointModel, PolicyModel

PACKAGES = ("coevolve", "ray", "torch", "transformers", "msgspec", "lmdb")


def head(data: RunHistory) -> Markup:
    """Return the title, the identity of the run and its main results."""
    config = data.config
    return tag(
        "header",
        tag("h1", config.name),
        tag("p", f"{_subtitle(config)} · {_folder(data)}{_state(data)}"),
        *paragraphs(data.progress.lesson()),
        tag("div", *(_tile(*each) for each in _tiles(data)), class_="tiles"),
    )


def run_section(data: RunHistory) -> Markup:
    """Return the times, settings and package versions of the run."""
    timeline, config = data.timeline, data.config
    facts = Table(
        "The run",
        ["what", "value"],
        [
            ["name", config.name],
            ["arm", config.arm],
            ["seed", str(config.seed)],
            ["environment", config.uses],
            *([f"without {name}", words] for name, words in data.without.items()),
            ["policy", f"{_policy(config)}, {config.policy.train} weights trained"],
            ["synthesizer", _synthesizer(config)],
            ["steps", f"{timeline.step} of {config.learner.steps}"],
            ["first record", moment(timeline.started_ns)],
            ["newest record", moment(timeline.newest_ns)],
            ["time between them", duration((timeline.newest_ns - timeline.started_ns) / 1e9)],
            ["state", _state(data)],
        ],
        words=2,
    )
    packages = Table(
        "Packages on the machine that made the report",
        ["package", "version"],
        [[package, _version(package)] for package in PACKAGES],
        words=2,
    )
    settings = tag("pre", write_yaml(config))
    link = tag("a", "config.yaml", href="config.yaml")
    return section(
        "run",
        "The run",
        facts.markup(),
        tag("details", tag("summary", "versions of packages"), packages.markup()),
        tag("details", tag("summary", "settings, defaults included"), settings),
        tag("p", "The run's folder holds the settings in ", link, "."),
    )


def costs_section(data: RunHistory) -> Markup:
    """Return the totals by which arms can be compared."""
    costs = data.costs
    table = Table("Account", ["what", "amount"], [[x.name, x.text] for x in costs.lines()])
    calls = [
        ("training", float(costs.training.simulator_calls)),
        ("probing", float(costs.probing.simulator_calls)),
        ("exploring", float(costs.exploring_calls)),
        ("judging", float(costs.judging_calls)),
    ]
    title = "Simulator calls by purpose"
    chart = (
        figure(
            title,
            "Calls that simulators answered, without those of the evaluator.",
            row_chart(title, calls),
            Table(title, ["purpose", "calls"], [[name, number(n)] for name, n in calls]),
        )
        if costs.simulator_calls
        else missing("No simulator call is accounted for yet.")
    )
    note = "Resources that the run used, to compare it with other arms and seeds."
    return section("costs", "Costs", listed("Account", note, table), chart)


def _tiles(data: RunHistory) -> list[tuple[str, str, str]]:
    """Return (amount, its name, its reference value) for each tile."""
    held_out = data.progress.held_out()
    scored = [held_out[version] for version in sorted(held_out)]
    costs, timeline = data.costs, data.timeline
    share = costs.synthesized_share
    return [
        (
            percent(scored[-1].mean) if scored else "\N{EN DASH}",
            f"held-out {data.progress.measure}",
            f"± {100 * scored[-1].std_error:.1f} (standard error), {scored[-1].tasks} tasks; "
            f"{percent(scored[0].mean)} at the start"
            if scored
            else "not scored yet",
        ),
        (
            percent(share) if share is not None else "\N{EN DASH}",
            "of training groups on synthesized tasks",
            f"{costs.synthesized_groups} of {costs.groups}",
        ),
        (str(costs.synthesized_tasks), "synthesized tasks", f"{costs.seed_tasks} seed tasks"),
        (str(timeline.step), "steps", f"of {data.config.learner.steps}"),
    ]


def _tile(amount: str, what: str, beside: str) -> Markup:
    return tag("div", joined([tag("b", amount), tag("span", what), tag("small", beside)]))


def _subtitle(config: RunConfig) -> str:
    return f"arm {config.arm} · seed {config.seed} · policy {_policy(config)}"


def _folder(data: RunHistory) -> str:
    """Return the name of the run's folder, by which charts and commands name it, if it differs."""
    folder = data.series[0].name if data.series else data.config.name
    return f"folder {folder} · " if folder != data.config.name else ""


def _policy(config: RunConfig) -> str:
    """Return what the policy began as; a tiny random model lies in the run's folder."""
    model = config.policy.model
    return f"a tiny random model of the kind of {model}" if config.policy.tiny_random else model


def _state(data: RunHistory) -> str:
    if data.timeline.finished:
        return "finished"
    if not data.timeline.started_ns:
        return "nothing recorded yet"
    return f"not finished; newest record {moment(data.timeline.newest_ns)}"


def _synthesizer(config: RunConfig) -> str:
    if not config.synthesizes:
        return "none in this arm"
    match config.synthesizer.model:
        case PolicyModel(weights=weights):
            return f"the policy itself, {weights} weights"
        case EndpointModel(model=model, base_url=url):
            return f"{model} at {url}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
