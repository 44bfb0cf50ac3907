"""Opens the policy that an evaluation scores: a run's, or the model that a run file starts from.

This module builds the engine in this process as a run does, but without Ray. It writes nothing to
the run, which may continue meanwhile. Records go to a temporary journal.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from coevolve.commands.scoring import spare_store
from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.open_engine import open_engine
from coevolve.environments.evaluation import ServedPolicy
from coevolve.environments.initial_model import make_model
from coevolve.environments.registry import environment_of
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import progress_snapshots
from coevolve.history.score import Choice
from coevolve.journal.reader import run_reader
from coevolve.models.tiny_random.resolve import running
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from protocols.learning import PolicyVersion

if TYPE_CHECKING:
    from coevolve.export.versions import HeldVersion


@dataclass(frozen=True)
class OfRun:
    """A policy version of a run."""

    directory: RunDirectory
    version: str
    """A version number, ``newest`` or ``best``."""


@dataclass(frozen=True)
class OfRunFile:
    """The initial model of a run with the given settings."""


Subject = OfRun | OfRunFile


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy version with its name, and the context to run it in."""

    name: str
    context: PartContext
    version: PolicyVersion | None
    """None for the run's initial model."""

    choice: Choice | None = None
    """How it was found to be the best version of a run; None if the user named it."""


@asynccontextmanager
async def opened_policy(subject: Subject, config: RunConfig) -> AsyncGenerator[Policy]:
    """Yield the subject, of any environment; its records go to a temporary journal."""
    with spare_store() as (spare, store):
        if isinstance(subject, OfRunFile):
            make_model(config, spare)
            config = running(config, spare)
            context = PartContext(config=config, files=LocalFiles(spare), store=store, reader=store)
            yield Policy(name=f"{config.name} before training", context=context, version=None)
            return
        files = LocalFiles(subject.directory.path)
        held = (await _version(subject)).unpacked(config, spare)
        path = str(held.folder.absolute())  # outside of the run, if a checkpoint was unpacked
        yield Policy(
            name=f"version {held.version.version} of {config.name}",
            context=PartContext(
                config=config, files=files, store=store, reader=run_reader(files.folder)
            ),
            version=msgspec.structs.replace(held.version, path=path),
            choice=held.choice,
        )


@asynccontextmanager
async def served_policy(subject: Subject, config: RunConfig) -> AsyncGenerator[ServedPolicy]:
    """Yield the subject with an engine that serves it, under the settings of ``config``.

    Raises ConfigError, RunError or GeneratorError if the subject cannot be opened.
    """
    async with opened_policy(subject, config) as policy:
        engine = open_engine(
            policy.context.config, policy.context.run_dir, config.evaluator.concurrent
        )
        try:
            if policy.version is not None:
                await VerifiedEngine(policy.context, "evaluate", engine).serve(policy.version)
            best = policy.choice
            name = f"{policy.name}, {best.manner}" if best else policy.name
            yield ServedPolicy(name=name, context=policy.context, engine=engine)
        finally:
            await engine.close()


async def _version(subject: OfRun) -> "HeldVersion":
    """Return the requested version. Raises RunError if its weights were deleted."""
    # Imported here, because it loads torch.
    from coevolve.export.versions import find_version

    path = subject.directory.path
    reader = run_reader(path)
    labels = environment_of(subject.directory.config()).labels()
    progress, _ = await progress_snapshots(reader, labels).folded()
    return await find_version(path, reader, subject.version, progress)
