"""The command `coevolve attach`, also available as `python -m coevolve.attach`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from coevolve.base.similar import did_you_mean
from coevolve.cli.lazy_group import nearest_hint, split_options
from coevolve.cli.options import FOLDER, code_option, json_option, runs_option
from coevolve.llm.urls import url_of
from protocols.evolution import SignalKind

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from coevolve.cli.attach_views.subject import Subject

COUNT = click.IntRange(min=0)


class AttachGroup(click.Group):
    """A group with an optional RUN before the command; its options may be anywhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove RUN from the arguments. Raises UsageError if no command follows it."""
        options, rest = split_options(args, ("--runs", "--address", "--code"))
        ctx.obj = None
        if rest and rest[0] not in self.commands and rest[0][:1] != "-":
            ctx.obj = rest.pop(0)
            if not rest:
                ctx.fail(_without_command(ctx.obj, list(self.commands)))
            if rest[0] not in self.commands and rest[0][:1] != "-":
                ctx.fail(f"no such command {rest[0]!r}{nearest_hint(rest[0], list(self.commands))}")
        return super().parse_args(ctx, [*options, *rest])

    def invoke(self, ctx: click.Context) -> Any:
        """Execute the command; an error about extra arguments says where RUN belongs."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.message.startswith("Got unexpected extra argument"):
                place = f"a run's name stands before {ctx.invoked_subcommand!r}"
                raise click.UsageError(f"{error.message}; {place}", error.ctx) from error
            raise


def _without_command(word: str, known: list[str]) -> str:
    """Return the fault of a command line with one word, which is a misspelled command or a RUN."""
    if meant := did_you_mean(word, known):
        return f"there is no command {word!r}{meant}"
    return f"a command has to follow the run {word!r}, one of {', '.join(known)}"


@click.group(cls=AttachGroup, name="attach", subcommand_metavar="[RUN] COMMAND [ARGS]...")
@runs_option
@code_option
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Ray cluster of the run, if its folder is on another machine.",
)
@click.pass_context
def command(context: click.Context, *, runs: Path, address: str | None) -> None:
    """Look into a run from another terminal, and steer it.

    RUN is a run's folder, or its name under the folder of all runs; default: the newest run.
    Commands that only look also work on a run that has ended.
    """
    from coevolve.cli.attach_views.run_choice import RunChoice

    context.obj = RunChoice(run=context.obj, runs=runs, address=address)


def _carry_out(act: "Callable[[Subject], Awaitable[None]]", *, join: bool = True) -> None:
    from coevolve.cli.attach_views.run_choice import carry_out

    carry_out(click.get_current_context().obj, act, join=join)


def _scale_of(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Return N of ``rollout=N``. Raises BadParameter for other words."""
    del context
    kind, _, number = text.partition("=")
    if kind != "rollout" or not number.isdecimal() or int(number) < 1:
        raise click.BadParameter(
            f"needs rollout=N with a whole number of at least 1, found {text!r}; only rollout "
            "engines can be added and removed while a run continues",
            param=parameter,
        )
    return int(number)


def _last_option(default: int) -> Callable[[Any], Any]:
    return click.option(
        "-n", "--last", type=COUNT, default=default, show_default=True, help="How many."
    )


@command.command()
@click.option("--journal", is_flag=True, help="Also the journal's records and backlogs.")
@json_option
def status(*, journal: bool, as_json: bool) -> None:
    """Show the run's progress and scores, every actor, and the synthesis of tasks."""
    from coevolve.cli.attach_views.status import status

    _carry_out(lambda subject: status(subject, as_json=as_json, journal=journal))


@command.command()
@json_option
def watch(*, as_json: bool) -> None:
    """Show the live screen of a running run, until it ends or Ctrl-C."""
    from coevolve.base.terminal import Terminal
    from coevolve.screen.start import StartScreen

    with StartScreen(Terminal(), "coevolve attach watch") as screen:
        from coevolve.cli.attach_views.watch import watch
        from coevolve.launcher.interrupts import end_after_output

        async def until_it_ends(subject: "Subject") -> None:
            await watch(subject, screen, as_json=as_json)
            if subject.live is not None:  # Ray would wait for a cluster that ended with the run
                screen.close()
                end_after_output()

        screen.begin("join the run")
        _carry_out(until_it_ends)


@command.command()
@click.option("--kind", type=click.Choice(get_args(SignalKind)), help="Only of this kind.")
@_last_option(20)
@json_option
def signals(*, kind: SignalKind | None, last: int, as_json: bool) -> None:
    """Show the weaknesses that were found and what became of them, newest first."""
    import time

    from coevolve.cli.attach_views.views import signals

    _carry_out(
        lambda subject: signals(subject, kind=kind, count=last, now_s=time.time(), as_json=as_json),
        join=False,
    )


@command.command()
@click.option("--origin", type=click.Choice(("seed", "synthesized")), help="Only of this origin.")
@_last_option(20)
@json_option
def tasks(*, origin: Literal["seed", "synthesized"] | None, last: int, as_json: bool) -> None:
    """Show the tasks that the run trained on or may draw, newest first."""
    from coevolve.cli.attach_views.views import tasks

    _carry_out(
        lambda subject: tasks(subject, origin=origin, count=last, as_json=as_json), join=False
    )


def _letters_of(
    context: click.Context, parameter: click.Parameter, numbers: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the numbers of letters, or ``all``. Raises BadParameter for other words."""
    del context
    wrong = [each for each in numbers if each != "all" and not each.isdecimal()]
    if wrong:
        raise click.BadParameter(f"needs a number, or `all`, found {wrong[0]!r}", param=parameter)
    return numbers


@command.command()
@click.option(
    "--retry",
    metavar="NUMBER|all",
    multiple=True,
    callback=_letters_of,
    help="Attempt this one again.",
)
@json_option
def letters(*, retry: tuple[str, ...], as_json: bool) -> None:
    """Show the units of work that failed at each attempt and were given up, or retry them."""
    from coevolve.cli.attach_views.letters import letters

    _carry_out(lambda subject: letters(subject, retry, as_json=as_json), join=bool(retry))


@command.command()
@click.argument("task")
@json_option
def lineage(task: str, *, as_json: bool) -> None:
    """Show where a task comes from and what it led to. TASK is its id, or how that begins."""
    from coevolve.cli.attach_views.lineage import lineage

    _carry_out(lambda subject: lineage(subject, task, as_json=as_json), join=False)


@command.command()
@click.argument("topic")
@click.option("-f", "--follow", is_flag=True, help="Wait for more.")
@_last_option(10)
@json_option
def tail(topic: str, *, follow: bool, last: int, as_json: bool) -> None:
    """Print records of a topic, for example step_report, signal or rollout."""
    from coevolve.cli.attach_views.tail import tail

    _carry_out(
        lambda subject: tail(subject, topic, count=last, follow=follow, as_json=as_json),
        join=follow,
    )


@command.command(name="swap-synthesizer")
@click.option("--policy", is_flag=True, help="The policy itself synthesizes.")
@click.option(
    "--base-url",
    metavar="URL",
    callback=url_of,
    help="An OpenAI-compatible server synthesizes.",
)
@click.option("--weights", type=click.Choice(("start", "newest")), help="The policy's weights.")
@click.option("--model", metavar="NAME", help="The model's name at the server.")
@click.option("--key-variable", metavar="NAME", help="Variable with the key, where actors run.")
@click.option("--temperature", metavar="X", help="Sampling temperature.")
@click.option("--max-answer-tokens", metavar="N", help="Longest answer, tokens.")
@click.option("--timeout-s", metavar="SECONDS", help="Longest wait for one call.")
@click.option("--tries", metavar="N", help="Attempts at one call.")
@click.option("--usd-per-million-prompt-tokens", metavar="USD", help="Price.")
@click.option("--usd-per-million-answer-tokens", metavar="USD", help="Price.")
@json_option
def swap_synthesizer(*, as_json: bool, **options: Any) -> None:
    """Let another model synthesize, from the next signal on."""
    if bool(options["policy"]) == bool(options["base_url"]):
        raise click.UsageError("give either --policy or --base-url URL")
    from coevolve.cli.attach_views.swap import model_of, swap_synthesizer

    model = model_of(options)
    _carry_out(lambda subject: swap_synthesizer(subject, model, as_json=as_json))


@command.command()
@click.argument("target", metavar="rollout=N", callback=_scale_of)
@click.option("--no-wait", is_flag=True, help="Return when the run has accepted or refused.")
@json_option
def scale(*, target: int, no_wait: bool, as_json: bool) -> None:
    """Change the number of rollout engines, and wait until new ones serve the policy.

    A resumed run keeps the number. With rollout.actors_per_node it is the maximum on all nodes.
    """
    from coevolve.cli.attach_views.scaling import scale

    _carry_out(lambda subject: scale(subject, target, wait=not no_wait, as_json=as_json))


@command.command()
@json_option
def pause(*, as_json: bool) -> None:
    """Pause the run: it finishes the work in progress and starts no new work until resume."""
    from coevolve.cli.attach_views.steering import pause

    _carry_out(lambda subject: pause(subject, as_json=as_json))


@command.command()
@json_option
def resume(*, as_json: bool) -> None:
    """End a pause."""
    from coevolve.cli.attach_views.steering import resume

    _carry_out(lambda subject: resume(subject, as_json=as_json))


@command.command()
@click.option("--to", type=FOLDER, help="New folder; default: one in the run's own.")
@json_option
def checkpoint(*, to: Path | None, as_json: bool) -> None:
    """Copy the journal while it is being written."""
    from coevolve.cli.attach_views.steering import checkpoint

    _carry_out(lambda subject: checkpoint(subject, to, as_json=as_json))


@command.command()
@json_option
def stop(*, as_json: bool) -> None:
    """Stop the run cleanly: it finishes the current step and writes a checkpoint."""
    from coevolve.cli.attach_views.steering import stop

    _carry_out(lambda subject: stop(subject, as_json=as_json))
