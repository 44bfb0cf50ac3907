"""Links within the page, to the lives of signals and tasks and to the rows of skills."""

from urllib.parse import quote

from coevolve.report.markup import Markup, clipped, tag

SHORT = 60
"""Maximum characters of a name in a link."""


def signal_anchor(signal_id: str) -> str:
    """Return the fragment that leads to the life of a signal."""
    return f"signal-{quote(signal_id, safe='')}"


def task_anchor(task_id: str) -> str:
    """Return the fragment that leads to the life of a task."""
    return f"task-{quote(task_id, safe='')}"


def skill_anchor(name: str) -> str:
    """Return the fragment that leads to the row of a skill."""
    return f"skill-{quote(name, safe='')}"


def to(anchor: str, text: str) -> Markup:
    """Return a link to a section, or to another place with an anchor."""
    return _link(anchor, text)


def to_signal(signal_id: str, text: str = "") -> Markup:
    """Return a link to the life of a signal."""
    return _link(signal_anchor(signal_id), text or signal_id)


def to_task(task_id: str, text: str = "") -> Markup:
    """Return a link to the life of a task."""
    return _link(task_anchor(task_id), text or task_id)


def to_rollouts(task_id: str) -> Markup:
    """Return a link that chooses the groups of a task among the rollouts."""
    return _link(f"rollouts-{quote(task_id, safe='')}", "rollouts")


def to_skill(name: str) -> Markup:
    """Return a link to the row of a skill."""
    return _link(skill_anchor(name), name)


def _link(anchor: str, text: str) -> Markup:
    return tag("a", clipped(text, SHORT), href=f"#{anchor}")
