"""The run's own node, as parts on any node see it.

One node of the cluster, the launcher's, has the run's folder with the journal. A part on that node
reads the journal through its memory map and works in the run's folder. A part on another node reads
through the store's actor, and works in a folder of copies.
"""

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import ray
import structlog
from msgspec.structs import replace
from ray.util import get_node_ip_address  # pyright: ignore[reportUnknownVariableType]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.node import node_id
from actors.remote_files import RemoteFiles
from actors.remote_store import RemoteStore
from coevolve.environments.packages import install
from coevolve.environments.registry import environment_of
from coevolve.journal.reader import run_reader
from coevolve.llm import keys
from coevolve.models.model_folder import HUB_ID, TINY, whole_model
from coevolve.parts.context import PartContext
from coevolve.parts.files import MODEL_COPY, LocalFiles
from coevolve.parts.privacy import keep_private
from coevolve.parts.starting import starting
from protocols.config import RunConfig

LOOPBACK = "127.0.0.1"

REMOVAL_S = 10.0

log = structlog.get_logger()


def copies_folder(run_id: str) -> Path:
    """Return the folder of a node that has copies of the run's files."""
    return Path(tempfile.gettempdir()) / f"coevolve-{run_id}"


def _remove_folder(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


_remove: Any = ray.remote(num_cpus=0)(_remove_folder)


def remove_copies(run_id: str) -> None:
    """Remove the folders of copies from every node that can be reached."""
    found = cast("list[dict[str, Any]]", cast("Any", ray).nodes())
    places = [
        NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        for node in found
        if node["Alive"]
    ]
    folder = str(copies_folder(run_id))
    calls = [_remove.options(scheduling_strategy=place).remote(folder) for place in places]
    ray.wait(calls, num_returns=len(calls), timeout=REMOVAL_S)


@dataclass(frozen=True, kw_only=True)
class Home:
    """Where the run's folder is, and how parts elsewhere reach it."""

    folder: str
    run_id: str = ""
    node: str = ""
    """Ray's id of the node that has the folder."""

    files: Any = None
    """The actor `actors.files.FilesActor`; None if the cluster is this node alone."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Endpoints' keys, by variable, for a part that calls endpoints."""

    def reach(self) -> LocalFiles | RemoteFiles:
        """Return the run's files, as this process has them."""
        if self.files is None or node_id() == self.node:
            return LocalFiles(Path(self.folder))
        return RemoteFiles(self.files, copies_folder(self.run_id))

    def address(self) -> str:
        """Return this node's address, as the cluster's other nodes reach it."""
        return LOOPBACK if self.files is None else cast("str", get_node_ip_address())

    def starting(self, part: str) -> AbstractContextManager[None]:
        """Return the context for the creation of a part in this process."""
        keep_private()
        files = self.reach()
        send = partial(files.log, part) if isinstance(files, RemoteFiles) else None
        return starting(files.folder, part, send)

    def settings(self, config: RunConfig) -> RunConfig:
        """Return the settings of a part on this node, and prepare the node for them.

        Installs the environment's packages and fetches the run's model, if necessary. Makes the
        endpoints' keys known to this process. Raises DependencyError and TransferError.
        """
        keys.provide(self.keys)
        files = self.reach()
        if isinstance(files, LocalFiles):
            return config
        environment = environment_of(config)
        install(environment.requires, environment.name, log.info)
        return self.with_model(config)

    def with_model(self, config: RunConfig) -> RunConfig:
        """Return the settings with the initial model as this node has it; copies it if necessary.

        Raises TransferError.
        """
        files = self.reach()
        if isinstance(files, LocalFiles):
            return config
        model = config.policy.model
        if model == TINY or (HUB_ID.fullmatch(model) and whole_model(model)):
            return config
        copy = files.fetch_now(MODEL_COPY)
        return replace(config, policy=replace(config.policy, model=str(copy)))

    def context(self, config: RunConfig, store: RemoteStore) -> PartContext:
        files = self.reach()
        is_here = isinstance(files, LocalFiles)
        reader = run_reader(files.folder) if is_here else store.reader()
        return PartContext(config=config, files=files, store=store, reader=reader)
