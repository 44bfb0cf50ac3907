"""The run's own node, as parts on any node see it.

One node of the cluster, the launcher's, has the run's folder with the journal. A part on that node
reads the journal through its memory map and works in the run's folder. A part on another node reads
through the store's actor, and works in a folder of copies.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import ray
import structlog
from msgspec.structs import replace
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.remote_files import RemoteFiles
from actors.remote_store import RemoteStore
from coevolve.environments.packages import install
from coevolve.environments.registry import environment_of
from coevolve.journal.reader import run_reader
from coevolve.llm import keys
from coevolve.models.model_folder import HUB_ID, TINY, whole_model
from coevolve.parts.context import PartContext
from coevolve.parts.files import MODEL_COPY, LocalFiles
from protocols.config import RunConfig

REMOVAL_S = 10.0

log = structlog.get_logger()


def node_id() -> str:
    """Return Ray's id of the node on which this process runs."""
    context: Any = ray.get_runtime_context()
    return context.get_node_id()


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
    """Endpoints' keys, by the variables that hold them on the run's node."""

    @property
    def is_here(self) -> bool:
        """Whether this process runs on the run's node."""
        return self.files is None or node_id() == self.node

    def work_folder(self) -> Path:
        """Return the run's folder, or this node's folder of copies."""
        return Path(self.folder) if self.is_here else copies_folder(self.run_id)

    def log_line(self, part: str) -> Callable[[str], None] | None:
        """Return a function that copies a part's log lines to the run's folder, if necessary."""
        if self.is_here:
            return None
        files = RemoteFiles(self.files, self.work_folder())
        return lambda line: files.log(part, line)

    def settings(self, config: RunConfig) -> RunConfig:
        """Return the settings of a part on this node, and prepare the node for them.

        Installs the environment's packages and fetches the run's model, if necessary. Makes the
        endpoints' keys known to this process. Raises DependencyError and TransferError.
        """
        keys.provide(self.keys)
        if self.is_here:
            return config
        environment = environment_of(config)
        install(environment.requires, environment.name, log.info)
        model = config.policy.model
        if model == TINY or (HUB_ID.fullmatch(model) and whole_model(model)):
            return config
        copy = RemoteFiles(self.files, self.work_folder()).fetch_now(MODEL_COPY)
        return replace(config, policy=replace(config.policy, model=str(copy)))

    def context(self, config: RunConfig, store: RemoteStore) -> PartContext:
        """Return the context of a part on this node."""
        folder = self.work_folder()
        if self.is_here:
            return PartContext(
                config=config, files=LocalFiles(folder), store=store, reader=run_reader(folder)
            )
        return PartContext(
            config=config,
            files=RemoteFiles(self.files, folder),
            store=store,
            reader=store.reader(),
        )
