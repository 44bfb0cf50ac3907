"""Starts the actors of a run. Only this module decides which part runs in which process."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.curriculum import CurriculumActor
from actors.evaluator import EvaluatorActor
from actors.files import FilesActor
from actors.home import Home, remove_copies
from actors.learner import LearnerActor
from actors.node import node_id
from actors.part import RemotePart
from actors.rank import RemoteRanks
from actors.remote_files import FILES_NAME
from actors.remote_store import STORE_NAME, RemoteStore
from actors.rollout import RolloutActor
from actors.signals import SignalsActor
from actors.simulator import RemoteSimulator, SimulatorActor
from actors.store import StoreActor
from actors.synthesizer import SynthesizerActor
from actors.validator import ValidatorActor
from coevolve.build import parts as build
from coevolve.engine.vllm.environment import environment
from coevolve.environments.registry import environment_of
from coevolve.journal.reader import run_reader
from coevolve.launcher.engines import ClusterEngines
from coevolve.launcher.fitting import engine_gpus, rank_gpus
from coevolve.launcher.placement import Placement
from coevolve.models.model_folder import whole_model
from coevolve.runs.directory import RunDirectory
from coevolve.runs.display import Display
from coevolve.runs.drive import Run, RunParts
from coevolve.runs.scaling import EnginePool
from protocols.config import PlacedPart, RunConfig, TransformersEngine, VllmEngine


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
    # Only these parts call endpoints.
    provided = {"rollout": keys, "validator": keys, "synthesizer": {**withheld, **keys}}
    start = _Starter(config, place, home, store, provided)
    # Actors that load a model take longest to start, so they start first.
    pool = _engines(config, place, start, workers)
    await pool.open()
    learner = _learner(config, home, place, start)
    has_engine = config.evaluator.engine == "own"
    engine = _engine_options(config) if has_engine else {}
    evaluator = start("evaluator", EvaluatorActor, workers, **engine)
    evolving = [start("signals", SignalsActor, workers)]
    synthesizing: list[RemotePart] = []
    if config.synthesizes:
        synthesizing = [start("synthesizer", SynthesizerActor, workers)]
        evolving += [*synthesizing, start("validator", ValidatorActor, workers)]
    curriculum = start("curriculum", CurriculumActor)
    parts = RunParts(
        supervised=[curriculum, *evolving, *pool.parts, learner, evaluator],
        pool=pool,
        models=[*synthesizing, learner, *([evaluator] if has_engine else [])],
        simulators=simulators,
        services=[RemotePart(STORE_NAME, journal), *_files(home)],
    )
    return Run(
        config,
        directory,
        parts,
        store=store,
        reader=run_reader(directory.path),
        labels=build.labels(config),
        display=display,
        started=started,
    )


class _Starter:
    """Starts the actors of parts; each has the same first arguments."""

    def __init__(
        self,
        config: RunConfig,
        place: Placement,
        home: Home,
        store: RemoteStore,
        keys: Mapping[str, Mapping[str, str]],
    ) -> None:
        """``keys`` are those that a kind of part gets, by kind."""
        self._config = config
        self._place = place
        self._home = home
        self._store = store
        self._keys = keys

    def __call__(
        self,
        part: PlacedPart,
        actor: Any,
        workers: Sequence[RemoteSimulator] = (),
        *arguments: object,
        name: str = "",
        placed: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RemotePart:
        """Start an actor of this kind of part with Ray's ``options``; its name is the kind's.

        ``placed`` are Ray's options of its place, instead of those of the kind.
        """
        name = name or part
        placed = self._place.of(part) if placed is None else placed
        started = actor.options(name=name, **placed, **options)
        home = replace(self._home, keys=self._keys.get(part, {}))
        own = (name, self._config, home, self._store)
        return RemotePart(name, started.remote(*own, workers, *arguments))


def _engines(
    config: RunConfig, place: Placement, start: _Starter, workers: Sequence[RemoteSimulator]
) -> EnginePool:
    """Return the pool of rollout engines, which starts them."""
    engine = _engine_options(config)

    def started(name: str, node: str) -> RemotePart:
        placed = place.of("rollout", node)
        return start("rollout", RolloutActor, workers, name=name, placed=placed, **engine)

    return EnginePool(ClusterEngines(config, started), config.rollout.actors)


def _learner(config: RunConfig, home: Home, place: Placement, start: _Starter) -> RemotePart:
    """Start the learner, which is rank 0 and starts the others."""
    options = place.ranks(config.learner.devices, rank_gpus(config))
    ranks = RemoteRanks(config=config, home=home, options=options)
    return start("learner", LearnerActor, (), ranks, placed=options[0])


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
