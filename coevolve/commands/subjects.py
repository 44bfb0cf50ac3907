"""Opens the subject of an evaluation: a run's policy, a run file's model, or an endpoint's model.

This module builds the engine and the simulator in this process as a run does, but without Ray. It
writes nothing to the run, which may continue meanwhile. Records go to a temporary journal.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coevolve.build import parts as build
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.evaluation.bounded import BoundedSimulator
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.registry import environment_of
from coevolve.export.source import open_source
from coevolve.journal.reader import run_reader
from coevolve.llm.usage import ModelUsage
from coevolve.models.tiny_random.resolve import MODEL, running
from coevolve.parts.context import PartContext
from coevolve.runs.directory import RunDirectory
from protocols.config import RunConfig
from protocols.learning import PolicyVersion
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.environments.hdl.evaluation.attempts import Writer
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


@dataclass(frozen=True, kw_only=True)
class AtEndpoint:
    """A model behind an OpenAI-compatible server."""

    model: EndpointModel
    rules: bool


Subject = OfRun | OfRunFile | AtEndpoint


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An opened subject, ready to write testbenches."""

    name: str
    writer: "Writer"
    usage: ModelUsage | None = None
    """Usage of an endpoint; None for a policy."""


@asynccontextmanager
async def opened_simulator(config: RunConfig) -> AsyncGenerator[TestbenchSimulator]:
    """Yield a simulator with the same number of concurrent evaluations as a run."""
    simulator = hardware.simulator(config)
    try:
        most = config.simulator.workers * hdl_settings(config).concurrent
        yield BoundedSimulator(simulator, most=most, tries=config.rollout.tries)
    finally:
        await simulator.close()


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy version with its name, and the context to run it in."""

    name: str
    context: PartContext
    version: PolicyVersion | None
    """None for the run's initial model."""


@asynccontextmanager
async def opened(
    subject: Subject, config: RunConfig, simulator: TestbenchSimulator, temperature: float
) -> AsyncGenerator[Opened]:
    """Yield the subject as a writer, under the settings of ``config``.

    Raises ConfigError, RunError or GeneratorError if the subject cannot be opened.
    """
    # Imported here: these modules load the RTL parser, which only designs need.
    from coevolve.environments.hdl.evaluation.writers import ChatWriter, PlayingWriter
    from coevolve.environments.hdl.policy.teacher import EndpointTeacher

    if isinstance(subject, AtEndpoint):
        teacher = EndpointTeacher(subject.model)
        designs = {design.design_id: design for design in hardware.designs(config)}
        writer = ChatWriter(
            model=teacher,
            simulator=simulator,
            designs=designs,
            hdl=hdl_settings(config),
            rules=subject.rules,
        )
        try:
            yield Opened(name=subject.model.model, writer=writer, usage=writer.usage)
        finally:
            await teacher.close()
        return
    async with opened_policy(subject, config) as policy:
        context = policy.context
        engine = build.generator(context, config.evaluator.concurrent)
        try:
            if policy.version is not None:
                await build.proven_engine(context, "evaluate", engine).serve(policy.version)
            agent = hardware.policy_agent(
                context.config, engine, [simulator], context.reader, temperature=temperature
            )
            yield Opened(name=policy.name, writer=PlayingWriter(agent))
        finally:
            await engine.close()


@asynccontextmanager
async def opened_policy(subject: OfRun | OfRunFile, config: RunConfig) -> AsyncGenerator[Policy]:
    """Yield the subject, of any environment; its records go to a temporary journal."""
    with build.spare_store() as (spare, store):
        if isinstance(subject, OfRunFile):
            config = made_model(config, spare)
            context = PartContext(config=config, run_dir=spare, store=store, reader=store)
            yield Policy(name=f"{config.name} before training", context=context, version=None)
            return
        run_dir = subject.directory.path
        held = (await found_version(subject)).unpacked(config, spare)
        path = str(held.folder.absolute())  # outside of the run, if a checkpoint was unpacked
        yield Policy(
            name=f"version {held.version.version} of {config.name}",
            context=build.context(config, run_dir, store),
            version=msgspec.structs.replace(held.version, path=path),
        )


def made_model(config: RunConfig, folder: Path) -> RunConfig:
    """Write the model to ``folder``, if runs make their own; return settings that use it."""
    if config.policy.tiny_random:
        from coevolve.models.tiny_random.model import write_model

        write_model(config, folder / MODEL, environment_of(config).texts())
    else:
        environment_of(config).make_model(folder / MODEL)
    return running(config, folder)


async def found_version(subject: OfRun) -> "HeldVersion":
    """Return the requested version. Raises RunError if its weights were deleted."""
    # Imported here, because it loads torch, which endpoints do not need.
    from coevolve.export.versions import find_version

    path = subject.directory.path
    canaries: dict[int, float] = {}
    if subject.version == "best":
        environment = environment_of(subject.directory.config())
        canaries = open_source(subject.directory, environment).material.progress.canaries
    return await find_version(path, run_reader(path), subject.version, canaries)
