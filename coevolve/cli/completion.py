"""`coevolve completion`."""

import sys

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")

USE = """\b
Where it belongs:
  bash:  eval "$(coevolve completion bash)"     in ~/.bashrc
  zsh:   eval "$(coevolve completion zsh)"      in ~/.zshrc
  fish:  coevolve completion fish > ~/.config/fish/completions/coevolve.fish
"""


@click.command(name="completion", epilog=USE)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from coevolve.cli.main import coevolve

    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(coevolve, {}, "coevolve", "_COEVOLVE_COMPLETE").source() + "\n")
