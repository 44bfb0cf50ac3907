"""`coevolve completion`."""

import sys

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    r"""Print the completion script of a shell.

    \b
    bash:  eval "$(coevolve completion bash)"     in ~/.bashrc
    zsh:   eval "$(coevolve completion zsh)"      in ~/.zshrc
    fish:  coevolve completion fish > ~/.config/fish/completions/coevolve.fish
    """
    from coevolve.cli.main import coevolve

    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(coevolve, {}, "coevolve", "_COEVOLVE_COMPLETE").source() + "\n")
