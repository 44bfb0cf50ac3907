"""Starts the actors of a run. Only this module decides which part runs in which process."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from actors.files import FilesActor
from actors.home import Home, remove_copies
from actors.node import node_id
from actors.part import RemotePart
from actors.rank import RemoteRanks
from actors.remote_files import FILES_NAME
from actors.remote_store import STORE_NAME, RemoteStore
from actors.simulator import RemoteSimulator, SimulatorActor
from actors.store import StoreActor
from coevolve.engine.vllm.environment import environment
from coevolve.environments.open_parts import PartSpec
from coevolve.environments.registry import environment_of
from coevolve.history.directory import RunDirectory
from coevolve.journal.reader import run_reader
from coevolve.launcher.engines import ClusterEngines
from coevolve.launcher.fitting import engine_gpus, rank_gpus
from coevolve.launcher.placement import Placement
from coevolve.loop import LOOP
from coevolve.models.model_folder import whole_model
from coevolve.runs.drive import Run
from coevolve.runs.run_parts import RunParts
from coevolve.runs.scaling import EnginePool
from coevolve.screen.display import Display
from protocols.config import RunConfig, TransformersEngine, VllmEngine
from protocols.evolution import ModelCall, SwapRequested


async def compose(
    config: RunConfig,
    directory: RunDirectory,
    display: Display,
    started: float,
    keys: Mapping[str, str],
    withheld: Mapping[str, str],
) -> Run:
    """Start every actor of the run and return the object that drives them.

    ``started`` is the program's start, in seconds of `time.monotonic`. ``keys`` are the endpoints'
    keys by variable. ``withheld`` are other secrets that processes do not find in their
    environment, by variable; the synthesizer may swap to a model whose key is one of them.
    """
    place = Placement(config, node_id())
    options = place.launcher()
    journal = StoreActor.options(name=STORE_NAME, **options).remote(directory.store, config.store)
    store = RemoteStore(journal)
    home = _home(config, directory, place)
    workers, simulators = _simulators(config, home, place)
    await store.statistics()
    start = _Starter(config, place, home, store, workers, keys, withheld)
    return Run(
        config,
        directory,
        await _parts(config, start, simulators, [RemotePart(STORE_NAME, journal), *_files(home)]),
        store=store,
        reader=run_reader(directory.path),
        labels=environment_of(config).labels(),
        unearned=len(environment_of(config).unearned()),
        display=display,
        started=started,
    )


class _Starter:
    """Starts the actors of parts; each has the same arguments."""

    def __init__(
        self,
        config: RunConfig,
        place: Placement,
        home: Home,
        store: RemoteStore,
        workers: Sequence[RemoteSimulator],
        keys: Mapping[str, str],
        withheld: Mapping[str, str],
    ) -> None:
        """``keys`` and ``withheld`` are those of `compose`; each part gets what it needs."""
        self._config = config
        self._place = place
        self._home = home
        self._store = store
        self._workers = workers
        self._keys = keys
        self._withheld = withheld

    def __call__(self, spec: PartSpec, name: str = "", node: str = "") -> RemotePart:
        """Start the actor of a part, on this ``node`` if one is given; its name is the part's."""
        name = name or spec.name
        home = replace(self._home, keys=self._keys_of(spec))
        options, ranks = self._place.of(spec.name, node), None
        if spec.is_sharded:
            each = self._place.ranks(self._config.learner.devices, rank_gpus(self._config))
            options, ranks = each[0], RemoteRanks(config=self._config, home=home, options=each)
        if spec.conversations(self._config):
            options = {**options, **_engine_options(self._config)}
        actor = getattr(import_module(f"actors.{spec.name}"), f"{spec.name.capitalize()}Actor")
        started = actor.options(name=name, **options).remote(
            name, self._config, home, self._store, self._workers, ranks
        )
        return RemotePart(name, started)

    def _keys_of(self, spec: PartSpec) -> Mapping[str, str]:
        """Return the keys for parts that call endpoints, and more for those that may swap."""
        keys = dict(self._keys) if ModelCall in spec.gives else {}
        return {**self._withheld, **keys} if SwapRequested in spec.takes else keys


async def _parts(
    config: RunConfig,
    start: _Starter,
    simulators: Sequence[RemotePart],
    services: Sequence[RemotePart],
) -> RunParts:
    specs = [spec for spec in LOOP if spec.exists(config)]
    (pooled,) = (spec for spec in specs if spec.is_pooled)
    pool = EnginePool(ClusterEngines(config, partial(start, pooled)), config.rollout.actors)
    # Actors that load a model take longest to start, so they start first.
    await pool.open()
    single = [spec for spec in specs if spec is not pooled]
    started = {each.name: start(each) for each in sorted(single, key=lambda s: not s.loads(config))}
    return RunParts(
        supervised=[
            part
            for each in specs
            for part in (pool.parts if each is pooled else (started[each.name],))
        ],
        pool=pool,
        models=[started[each.name] for each in single if each.loads(config)],
        simulators=simulators,
        services=services,
        optional=[each.name for each in single if each.is_optional],
    )


def _files(home: Home) -> list[RemotePart]:
    """Return the actor of the run's files, which lives as long as something holds it."""
    return [RemotePart(FILES_NAME, home.files)] if home.files is not None else []


def clean_up(config: RunConfig, directory: RunDirectory) -> None:
    """Remove what parts on other nodes have copied."""
    if config.cluster.address:
        remove_copies(directory.identity().run_id)


def _home(config: RunConfig, directory: RunDirectory, place: Placement) -> Home:
    """Return where the run's folder is; in a cluster of several nodes, start its actor."""
    files = None
    if config.cluster.address:
        files = FilesActor.options(name=FILES_NAME, **place.launcher()).remote(
            directory.path, whole_model(config.policy.model)
        )
    return Home(
        folder=str(directory.path),
        run_id=directory.identity().run_id,
        node=node_id(),
        files=files,
    )


def _engine_options(config: RunConfig) -> dict[str, Any]:
    """Return the Ray options of an actor with a sampling engine: its GPUs and its environment."""
    match config.rollout.engine:
        case TransformersEngine():
            return {}
        case VllmEngine() as engine:
            return {
                "num_gpus": engine_gpus(config),
                "runtime_env": {"env_vars": environment(engine)},
            }


def _simulators(
    config: RunConfig, home: Home, place: Placement
) -> tuple[list[RemoteSimulator], list[RemotePart]]:
    """Start the pool of simulators of the run's environment."""
    patience_s = environment_of(config).patience_s
    names = [f"simulator-{n}" for n in range(config.simulator.workers)]
    options = place.of("simulator")
    actors = [
        SimulatorActor.options(name=name, **options).remote(name, config, home) for name in names
    ]
    parts = [RemotePart(name, actor) for name, actor in zip(names, actors, strict=True)]
    return [RemoteSimulator(actor, patience_s) for actor in actors], parts
