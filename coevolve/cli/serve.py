"""`coevolve serve`."""

from pathlib import Path

import click

from coevolve.cli.options import code_option, port_option, runs_option, served_options


@click.command(name="serve")
@served_options
@port_option(8767)
@runs_option
@code_option
def command(policy: str, *, version: str, temperature: float | None, port: int, runs: Path) -> None:
    """Serve a trained policy, or a model, to any OpenAI client, until Ctrl-C.

    RUN is a run's folder or its name, MODEL a model's folder or ORG/NAME. The base URL and the key
    that are printed are for programs of this machine: chat completions, plain and as a stream,
    with tools where the model's chat template, or the run's policy.chat.tools, lists them. Limits
    of tokens are the run's (rollout.max_tokens, rollout.max_call_tokens), and so are the chat
    settings.
    """
    from coevolve.commands.serve import Policy, serve

    serve(Policy(given=policy, runs=runs, version=version, temperature=temperature), port)
