"""Puts together what makes tasks and judges them: synthesizers, validator, judge."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.build.parts import Simulators, Site, append_at_once, task_source
from coevolve.delivery.engine import Append, ProvenEngine
from coevolve.environments.hdl.assembly import HardwareSimulators
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.journal.codec import SIGNALS_BY_ID, decode_as
from coevolve.journal.mailbox import Mailbox
from coevolve.llm.recorded_calls import JournalCallLog, Ledger
from coevolve.models.model_folder import model_folder
from coevolve.synthesis.worker import SynthesizerWorker
from coevolve.validation.judge import Judge, NoJudge
from coevolve.validation.validator import Validator
from protocols.config import RunConfig
from protocols.evolution import Candidate, Signal
from protocols.interfaces import Reader, SimulatorWorker, Synthesizer
from protocols.synthesizers import EndpointModel, PolicyModel, SynthesizerModel

if TYPE_CHECKING:
    from coevolve.parts.record_handler import AnsweringPart

GATHER_S = 0.3
"""How long exploring and judging have their commands wait for others: nobody waits for them."""

SYNTHESIZER = "synthesizer"
"""Name of the part, and of its engine where the policy synthesizes."""

SYNTHESES = 128
"""Conversations of the policy in its second role at a time."""


def synthesizer(site: Site, simulators: Simulators) -> "SynthesizerWorker | AnsweringPart":
    """Return the part that makes tasks out of signals."""
    if isinstance(simulators, HardwareSimulators):
        from coevolve.environments.hdl.evolution import assembly as designs

        return designs.synthesizer(site.config, site.store, site.reader, simulators.workers)
    if isinstance(site.config.synthesizer.model, PolicyModel):
        # Loaded before the part says that it has started, so that this counts as starting.
        importlib.import_module("coevolve.engine.generator")
    append = append_at_once(site, SYNTHESIZER)
    return SynthesizerWorker(
        site.config,
        store=site.store,
        reader=site.reader,
        open_model=lambda model: synthesizer_model(
            site.config, site.run_dir, site.reader, append, simulators, model
        ),
        source=task_source(site.config),
    )


def synthesizer_model(
    config: RunConfig,
    run_dir: Path,
    reader: Reader,
    append: Append,
    workers: Sequence[SimulatorWorker],
    model: SynthesizerModel,
) -> Synthesizer:
    """Return what stands behind ``model``; nothing is asked of it yet.

    ``append`` writes what a policy with its newest weights proves of them.
    """
    simulator = SimulatorPool(workers, gather_s=GATHER_S)
    match model:
        case PolicyModel():
            from coevolve.engine.generator import TransformersGenerator
            from coevolve.environments.tools.filesystem.synthesizer import PolicySynthesizer

            folder = model_folder(config.policy.model)
            generator = TransformersGenerator(
                folder,
                run_dir,
                max_concurrent=SYNTHESES,
                max_length=config.rollout.max_tokens,
            )
            return PolicySynthesizer(
                model,
                engine=ProvenEngine(
                    SYNTHESIZER,
                    generator,
                    reader=reader,
                    append=append,
                    run_dir=run_dir,
                    config=config,
                ),
                simulator=simulator,
                renderer=TinyRenderer.load(folder),
                reader=reader,
            )
        case EndpointModel():
            from coevolve.synthesis.endpoint import EndpointSynthesizer

            return EndpointSynthesizer(model, simulator=simulator)


def validator(site: Site, simulators: Simulators) -> "Validator | AnsweringPart":
    """Return the part that judges candidates."""
    if isinstance(simulators, HardwareSimulators):
        from coevolve.environments.hdl.evolution import assembly as designs

        return designs.validator(site.config, site.store, site.reader, simulators.workers)
    return Validator(
        site.config,
        store=site.store,
        reader=site.reader,
        simulator=SimulatorPool(simulators, gather_s=GATHER_S),
        held_out=task_source(site.config).held_out(),
        judge=_judge(site),
    )


def _judge(site: Site) -> Judge:
    """Return who is asked for a second opinion; its calls are on the run's account."""
    model = site.config.synthesizer.model
    if not (site.config.validator.judge and isinstance(model, EndpointModel)):
        return NoJudge()
    from coevolve.synthesis.judge import Account, EndpointJudge

    ledger = Ledger(site.config.synthesizer, site.reader)
    mailbox = Mailbox(
        site.store, consumer="judge", topics=(), member="judge", lease_s=site.config.store.lease_s
    )

    async def account_of(candidate: Candidate) -> Account:
        found = await site.reader.find(SIGNALS_BY_ID, candidate.signal_id, limit=1)
        kind = decode_as(found[0], Signal).kind
        calls = JournalCallLog(
            candidate.signal_id,
            kind,
            model.model,
            ledger=ledger,
            reader=site.reader,
            append=mailbox.append,
        )
        return Account(calls=calls, kind=kind)

    return EndpointJudge(model, account_of=account_of)
