"""What the followers of a run need to be installed."""

from coevolve.base.dependencies import extra, require
from coevolve.followers import import_path
from protocols.followers_config import TRACKERS

NEEDED = {"mlflow": ("mlflow", "sqlalchemy")}
"""Packages of a tracker's extra, as import statements call them, if they are not its name."""


def check_tracker(name: str) -> None:
    """Raise DependencyError if a tracker of ``trackers.use`` is not installed."""
    if name not in TRACKERS:
        import_path.check(name, "trackers.use")
        return
    for package in NEEDED.get(name, (name,)):
        require(package, f"trackers.use {name}", extra(name))
