"""The head of the report, and its section on the run: settings, events and costs."""

from importlib.metadata import PackageNotFoundError, version

from coevolve.history.run_history import RunHistory
from coevolve.report.figure import Table, folded, listed, missing
from coevolve.report.markup import Markup, clipped, tag
from coevolve.report.sections.opening import opening
from coevolve.report.sentences import duration, moment
from coevolve.yaml.text import write_yaml
from protocols.config import RunConfig
from protocols.synthesizers import EndpointModel, PolicyModel

HAPPENINGS = 100
"""Maximum number of rows in the table of events; the newest are shown."""

REASON = 400
"""Maximum characters of an event's details."""

PACKAGES = ("coevolve", "ray", "torch", "transformers", "msgspec", "lmdb")


def head(data: RunHistory) -> Markup:
    """Return the title, the identity of the run, and the first screen."""
    config = data.config
    steps = f"{data.timeline.step} of {config.learner.steps} steps"
    return tag(
        "header",
        tag("h1", config.name),
        tag("p", f"{_subtitle(config)} · {_folder(data)}{steps} · {_state(data)}"),
        opening(data),
    )


def run_section(data: RunHistory) -> Markup:
    """Return the times, settings, package versions, events and costs of the run."""
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
    return folded(
        "run",
        "The run",
        f"Settings, events and costs. State: {_state(data)}.",
        facts.markup(),
        tag("details", tag("summary", "versions of packages"), packages.markup()),
        tag("details", tag("summary", "settings, defaults included"), settings),
        tag("p", "The run's folder holds the settings in ", link, "."),
        _events(data),
        _costs(data),
    )


def _costs(data: RunHistory) -> Markup:
    """Return the totals by which arms can be compared."""
    table = Table("Account", ["what", "amount"], [[x.name, x.text] for x in data.costs.lines()])
    note = "Resources that the run used, to compare it with other arms and seeds."
    return listed("Costs", note, table)


def _events(data: RunHistory) -> Markup:
    """Return the starts, stops, stalls, failed parts and swaps."""
    happenings = data.timeline.happenings
    if not happenings:
        return missing("Nothing has been recorded yet.")
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
    starts, stalls = data.progress.starts.number, data.timeline.stalls
    summary = f"Starts of the run: {starts}. Restarted parts: {restarts}. Stalls: {stalls}. {cut}"
    return listed("Starts, stops, failures and stalls", summary, table)


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
