"""A learner in this process, and what it reports."""

from pathlib import Path

from coevolve.environments.tools.observer import ReferenceSupervision
from coevolve.journal.local_store import LocalStore
from coevolve.learning.learner import Learner
from protocols.config import RunConfig
from protocols.learning import StepReport
from tests.contexts import context_of
from tests.learning import MemoryJournal, ReferenceRenderer


def learner(config: RunConfig, run_dir: Path, journal: MemoryJournal | LocalStore) -> Learner:
    """Return a learner that imitates references."""
    return Learner(
        context_of(config, journal, "learner", folder=run_dir),
        supervision=ReferenceSupervision(ReferenceRenderer()),
    )


def reports(journal: MemoryJournal) -> list[StepReport]:
    """Return the reports of all steps."""
    return [each for each in journal.all(StepReport) if isinstance(each, StepReport)]
