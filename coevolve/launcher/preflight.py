"""Checks what a run needs of its cluster, besides what `coevolve.config.preflight` checks."""

import os
from functools import partial

from coevolve import loop
from coevolve.base.dependencies import extra, lacking, refuse, require
from coevolve.config.preflight import (
    as_run,
    check_made,
    endpoint_checks,
    missing_attempts,
    refuse_rates,
)
from coevolve.environments.initial_model import make_model
from coevolve.followers.packages import check_tracker
from coevolve.launcher.address import with_address
from coevolve.launcher.devices import missing_devices
from coevolve.launcher.working_folder import refuse_left_out
from coevolve.models.model_folder import model_config
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.tiny_random.resolve import running
from coevolve.runs.copies.copy_folder import check_place
from protocols.config import RunConfig, TransformersEngine
from protocols.errors import DependencyError

SOCKET_BYTES = 107
"""Maximum bytes of the path of a Unix socket."""

SOCKET = "/cvray-12345678/r/session_YYYY-mm-dd_HH-MM-SS_ffffff_1234567/sockets/plasma_store"
"""The longest path of a socket of Ray in the folder for temporary files."""


def missing(config: RunConfig) -> list[str]:
    """Return one sentence, with its remedy, for each thing that a run lacks on this machine.

    Raises ConfigError if something that the run file names does not exist or does not fit.
    """
    found = missing_attempts(config)
    refuse_left_out(config)
    refuse_rates(config)
    checks = endpoint_checks(config)
    checks += [] if config.cluster.address else [_check_sockets]
    checks += [partial(check_tracker, name) for name in config.trackers.use]
    if config.prometheus.port:
        checks.append(partial(require, "prometheus_client", "prometheus.port", extra("prometheus")))
    if config.store.copies:
        checks.append(partial(check_place, config.store.copies, config.name))
    if lacking(partial(require, "torch", "", "")):
        return found + lacking(*checks)
    return found + lacking(*checks) + missing_devices(as_run(config))


def refuse_missing(config: RunConfig) -> None:
    """Refuse a run that this machine cannot start.

    Raises:
        ConfigError: Something that the run file names does not exist or does not fit.
        DependencyError: Something is missing; the message lists everything that is missing.
    """
    refuse(missing(with_address(config)))


def rehearse(config: RunConfig) -> None:
    """Make the model of a run that makes its own, and read it as a start does, in a spare folder.

    A start does this itself; a check that it would do. Raises CoevolveError.
    """
    with scratch_folder() as spare:
        make_model(config, spare.path)
        check_made(config, spare.path)
        slow_modules(running(config, spare.path))


def slow_modules(config: RunConfig) -> tuple[str, ...]:
    """Return what takes the parts of a run longest to import, in a process that has no device."""
    kind = str(model_config(config.policy).get("model_type", "")).replace("-", "_")
    heavy = ["coevolve.learning.learner", f"transformers.models.{kind}.modeling_{kind}"]
    if isinstance(config.rollout.engine, TransformersEngine):
        heavy.append("coevolve.engine.generator")
    return (loop.__name__, *heavy)


def comment_lines(missing: list[str]) -> str:
    return "".join(f"# missing: {' '.join(each.split())}\n" for each in missing)


def _check_sockets() -> None:
    """Refuse a folder for temporary files whose path is too long for the sockets of a local Ray."""
    variable = "RAY_TMPDIR" if "RAY_TMPDIR" in os.environ else "TMPDIR"
    folder = os.environ.get(variable, "")
    most = SOCKET_BYTES - len(SOCKET)
    if (size := len(os.fsencode(folder))) > most:
        raise DependencyError(
            f"{variable}: Ray's sockets need a folder whose path has at most {most} bytes, found "
            f"{size} in {folder!r}; start the run with a shorter one, such as {variable}=/tmp"
        )
