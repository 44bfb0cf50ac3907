"""What an installation or a machine may lack, refused in one sentence with the remedy.

Whoever imports a package that an installation may lack calls `require` first. A check of everything
that a run needs collects the refusals with `lacking`.
"""

import importlib.util
from collections.abc import Callable, Sequence

from protocols.errors import DependencyError


def extra(name: str) -> str:
    """Return the command that installs an extra of this project, wherever it came from."""
    return f"pip install 'coevolve[{name}]'"


def require(package: str, needed_for: str, remedy: str) -> None:
    """Raise DependencyError unless ``package`` can be imported.

    Args:
        package: What an import statement calls it.
        needed_for: Subject of the refusal, for example ``rollout.engine.kind vllm``.
        remedy: What to do, usually a command.
    """
    if importlib.util.find_spec(package) is None:
        raise DependencyError(
            f"{needed_for} needs the package {package}, which is not installed; {remedy}"
        )


def lacking(*checks: Callable[[], object]) -> list[str]:
    """Return what the checks refuse by DependencyError, each sentence once, in order."""
    found: dict[str, None] = {}
    for check in checks:
        try:
            check()
        except DependencyError as error:
            found[str(error)] = None
    return list(found)


def refuse(missing: Sequence[str]) -> None:
    """Raise one DependencyError that names all that is missing; return where nothing is."""
    if len(missing) == 1:
        raise DependencyError(missing[0])
    if missing:
        listed = "\n".join(f"  {each}" for each in missing)
        raise DependencyError(f"{len(missing)} things are missing:\n{listed}")
