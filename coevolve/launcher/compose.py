"""Starts the actors of a run. Only this module decides which part runs in which process."""

from collections.abc import Sequence
from typing import Any

from actors.curriculum import CurriculumActor
from actors.evaluator import EvaluatorActor
from actors.learner import LearnerActor
from actors.part import RemotePart
from actors.rollout import RolloutActor
from actors.signals import SignalsActor
from actors.simulator import RemoteSimulator, SimulatorActor
from actors.store import STORE_NAME, RemoteStore, StoreActor
from actors.synthesizer import SynthesizerActor
from actors.validator import ValidatorActor
from coevolve.build import parts as build
from coevolve.engine.vllm.environment import environment
from coevolve.environments.registry import environment_of
from coevolve.journal.reader import run_reader
from coevolve.launcher.devices import engine_gpus, learner_gpus
from coevolve.runs.directory import RunDirectory
from coevolve.runs.display import Display
from coevolve.runs.drive import Run
from protocols.config import RunConfig, TransformersEngine, VllmEngine


async def compose(
    config: RunConfig, directory: RunDirectory, display: Display, started: float
) -> Run:
    """Start every actor of the run and return the object that drives them.

    ``started`` is the program's start, in seconds of `time.monotonic`.
    """
    run_dir = str(directory.path)
    store_actor = StoreActor.options(name=STORE_NAME).remote(directory.store, config.store)
    store = RemoteStore(store_actor)
    workers, simulators = _simulators(config, run_dir)
    await store.statistics()
    engine = _engine_options(config)
    # Actors that load a model take longest to start, so they start first.
    sampling = [
        RemotePart(
            name := f"rollout-{n}",
            RolloutActor.options(name=name, **engine).remote(name, config, run_dir, store, workers),
        )
        for n in range(config.rollout.actors)
    ]
    learner = RemotePart(
        "learner",
        LearnerActor.options(name="learner", num_gpus=learner_gpus(config)).remote(
            "learner", config, run_dir, store
        ),
    )
    evaluator = RemotePart(
        "evaluator",
        EvaluatorActor.options(name="evaluator", **engine).remote(
            "evaluator", config, run_dir, store, workers
        ),
    )
    evolving, synthesizing = _evolving(config, run_dir, store, workers)
    curriculum = RemotePart(
        "curriculum",
        CurriculumActor.options(name="curriculum").remote("curriculum", config, run_dir, store),
    )
    return Run(
        config,
        directory,
        store=store,
        reader=run_reader(directory.path),
        parts=[curriculum, *evolving, *sampling, learner, evaluator],
        models=[*synthesizing, *sampling, learner, evaluator],
        simulators=simulators,
        store_part=RemotePart(STORE_NAME, store_actor),
        labels=build.labels(config),
        display=display,
        started=started,
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


def _simulators(config: RunConfig, run_dir: str) -> tuple[list[RemoteSimulator], list[RemotePart]]:
    """Start the pool of simulators of the run's environment."""
    patience_s = environment_of(config).patience_s
    names = [f"simulator-{n}" for n in range(config.simulator.workers)]
    actors = [SimulatorActor.options(name=name).remote(name, config, run_dir) for name in names]
    parts = [RemotePart(name, actor) for name, actor in zip(names, actors, strict=True)]
    return [RemoteSimulator(actor, patience_s) for actor in actors], parts


def _evolving(
    config: RunConfig, run_dir: str, store: RemoteStore, workers: Sequence[RemoteSimulator]
) -> tuple[list[RemotePart], list[RemotePart]]:
    """Start the signals part and, in arms that synthesize, the synthesizer and the validator.

    Returns all of these parts, and those of them that have a model.
    """
    signals = RemotePart(
        "signals",
        SignalsActor.options(name="signals").remote("signals", config, run_dir, store, workers),
    )
    if not config.synthesizes:
        return [signals], []
    kinds = {"synthesizer": SynthesizerActor, "validator": ValidatorActor}
    synthesizer, validator = (
        RemotePart(name, kind.options(name=name).remote(name, config, run_dir, store, workers))
        for name, kind in kinds.items()
    )
    return [signals, synthesizer, validator], [synthesizer]
