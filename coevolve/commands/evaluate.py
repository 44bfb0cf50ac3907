"""Scores a policy on the held-out tasks, or in the way that its environment declares."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Group

from coevolve.base.terminal import Terminal
from coevolve.commands.attempts import Which
from coevolve.commands.attempts_table import answer, print_line
from coevolve.commands.authors import score_policy, tasks_of, tool_environment
from coevolve.commands.fresh import Comparison, compared, table, trained_tasks
from coevolve.commands.scoring import open_scoring
from coevolve.commands.subjects import OfRun, OfRunFile, Subject, opened_policy, served_policy
from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.environments.evaluation import EvaluationRequest, OwnEvaluation, own_evaluations
from coevolve.environments.registry import environment_of
from coevolve.history import finding
from coevolve.history.progress import Progress
from coevolve.history.score import APART, HALVES, LEAST, TOO_HIGH, Choice
from coevolve.parts import logs
from coevolve.screen.facts import score_tables
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.learning import Evaluation

REPEATED = frozenset(("attempts", "temperature"))
"""Options of several attempts at each task."""

WIDTH = 160
"""Columns of the output where there is no terminal."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The values of the command line; `coevolve.cli.evaluate` describes each option."""

    run: str | None
    runs: Path
    version: str
    config: str | None
    as_json: bool
    fresh: int
    seed: int
    which: Which
    own: Mapping[str, Any]
    """Values of the environments' options, by name."""

    given: frozenset[str]
    """Names of those of them that the user gave."""


def evaluate(options: Options) -> None:
    """Evaluate and print. Raises CoevolveError and UsageError."""
    evaluations = own_evaluations()
    for each in evaluations.values():
        if options.given & each.names:
            each.check(**each.values(options.own))
    subject, config = _subject(options)
    use = _environment(options, config, evaluations)
    if config is not None and _repeats(options, use, evaluations):
        _attempted(options, subject, config)
        return
    _check_given(options, use, evaluations)
    as_in_runs = _scored_as_in_runs(options, config, use, evaluations)
    request = EvaluationRequest(
        config=config, check=partial(_check, subject, config), serve=partial(served_policy, subject)
    )
    if not as_in_runs:
        own = evaluations[use]
        report, printed = own.evaluate(request, **own.values(options.own))
    else:
        assert config is not None
        request.check()
        report, printed = asyncio.run(_scored(subject, config, options.fresh, options.seed))
    if options.as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Terminal(width=None if sys.stdout.isatty() else WIDTH).print(printed)


def _subject(options: Options) -> tuple[Subject, RunConfig | None]:
    """Return the policy and its settings; no settings if the command line names no policy."""
    if options.run:
        directory = finding.find(options.run, options.runs)
        return OfRun(directory, options.version), directory.config()
    return OfRunFile(), load_config(options.config) if options.config else None


def _environment(
    options: Options, config: RunConfig | None, evaluations: Mapping[str, OwnEvaluation]
) -> str:
    """Return the name of the policy's environment; without a policy, that of the given options."""
    if config is not None:
        return config.uses
    for use, each in evaluations.items():
        if options.given & each.names:
            return use
    raise click.UsageError("give a RUN or --config FILE")


def _repeats(options: Options, use: str, evaluations: Mapping[str, OwnEvaluation]) -> bool:
    """Return whether to score several attempts at each task. Raises UsageError."""
    if use in evaluations or "attempts" not in options.given or options.given - REPEATED:
        return False
    if options.fresh:
        raise click.UsageError("--attempts does not go with --fresh")
    return True


def _attempted(options: Options, subject: Subject, config: RunConfig) -> None:
    """Score several attempts at each task, print them and write the conversations."""
    _check(subject, config)
    terminal = Terminal(stderr=options.as_json)
    tasks = tasks_of(tool_environment(config), options.which)
    with logs.errors_alone():
        scored = score_policy(
            config,
            tasks,
            options.own["attempts"],
            partial(print_line, terminal),
            subject=subject,
            temperature=options.own["temperature"] if "temperature" in options.given else None,
        )
    answer(terminal, scored, as_json=options.as_json)


def _check_given(options: Options, use: str, evaluations: Mapping[str, OwnEvaluation]) -> None:
    """Refuse options of other environments. Raises ConfigError."""
    mine = evaluations[use].names if use in evaluations else frozenset[str]()
    for other, each in evaluations.items():
        others = (options.given & each.names) - mine
        for name in sorted(others - REPEATED) or sorted(others):
            raise ConfigError(
                f"--{name.replace('_', '-')}: is for environment {other}, found environment "
                f"{use}; leave it out"
            )


def _scored_as_in_runs(
    options: Options,
    config: RunConfig | None,
    use: str,
    evaluations: Mapping[str, OwnEvaluation],
) -> bool:
    """Return whether to score as a run's evaluator does, which instances need.

    Raises ConfigError and UsageError if there are no instances, or options of another evaluation.
    """
    if not options.fresh:
        return use not in evaluations
    if config is None:
        raise click.UsageError("--fresh needs a RUN or --config FILE")
    if not environment_of(config).capabilities.fresh_instances:
        raise ConfigError(f"--fresh: environment {use} makes no instances of tasks; leave it out")
    if options.given:
        name = min(options.given).replace("_", "-")
        raise click.UsageError(f"--{name} does not go with --fresh")
    return True


def _check(subject: Subject, config: RunConfig | None) -> None:
    """Check that this machine can run a run file's model; a run's policy has run here before."""
    if isinstance(subject, OfRunFile) and config is not None:
        preflight.check(config)


async def _scored(
    subject: Subject, config: RunConfig, fresh: int, seed: int
) -> tuple[Mapping[str, object], Group]:
    """Score a policy as its run's evaluator does; return the scores, and the text to print."""
    comparisons: Sequence[Comparison] = ()
    async with opened_policy(subject, config) as policy:
        number = policy.version.version if policy.version is not None else 0
        trained = (
            await trained_tasks(subject.directory, number) if isinstance(subject, OfRun) else ()
        )
        async with open_scoring(policy.context, policy.version) as scoring:
            tasks = scoring.environment.scored_tasks()
            scores = await scoring.of(tasks)
            if fresh:
                held_out = [task for task in tasks if task.split == "held_out"]
                comparisons = await compared(scoring, held_out, trained, fresh, seed)
    progress = Progress(environment_of(config).labels())
    progress.fold(Evaluation(version=number, scores=scores, errors=0, wall_s=0.0))
    success, best = progress.evaluations[number], policy.choice
    report = {"policy": policy.name, "success": success, "scores": scores, "chosen": best}
    report |= {"halves": progress.halves[number]}
    lines = [policy.name, *caveats(subject, best, progress), *score_tables(progress, WIDTH)]
    if not fresh:
        return report, Group(*lines)
    return report | {"fresh": comparisons}, Group(*lines, table(comparisons))


def caveats(subject: Subject, best: Choice | None, progress: Progress) -> Sequence[str]:
    """Return what to bear in mind about the scores, if a choice of the version makes them high."""
    if best is not None:
        return (_caveat(best, progress),)
    if not (isinstance(subject, OfRun) and subject.version.isdecimal()):
        return ()
    (halves,) = progress.halves.values()
    told = f"if a score on these tasks made you name version {subject.version}, it is too high here"
    if any(half not in halves or halves[half].tasks < LEAST for half in HALVES):
        return (f"{told}: they are too few for two halves of {LEAST}",)
    chosen, other = halves["selection"], halves["reporting"]
    return (
        f"{told}; choose on one half ({progress.measure} {chosen.percent} of {chosen.tasks}) and "
        f"report the other ({other.percent} of {other.tasks}), as --version best does without "
        "canaries",
    )


def _caveat(best: Choice, progress: Progress) -> str:
    """Return what chose the version, and which scores took no part in that."""
    match best.chosen_on:
        case "canaries":
            return f"{best.origin}; the scores are of held-out tasks, {APART}"
        case "tasks of one held-out half":
            (halves,) = progress.halves.values()
            other = halves["reporting"]
            return f"{best.origin}; {progress.measure} on the other {other.tasks}: {other.percent}"
        case "held-out tasks":
            return f"{best.origin}; {progress.measure} of these, {TOO_HIGH}"
