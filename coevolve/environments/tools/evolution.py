"""Builds the synthesizer, the gates and the judge of tasks with tools."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.gates import contrast
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.instructions import InstructionReader, SwappedReader
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.synthesis.accounts import Account, FindAccount
from coevolve.environments.tools.synthesis.questions import CALLS, Questions
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.wire import ToolClient
from coevolve.journal.codec import SIGNALS_BY_ID, decode_as
from coevolve.llm.recorded_calls import Budget, JournalCallLog, Ledger
from coevolve.models.model_folder import model_folder
from coevolve.parts.context import PartContext
from coevolve.synthesis.briefs import BriefContext
from coevolve.synthesis.worker import SynthesizerWorker
from coevolve.validation.judge import Judge, NoJudge
from protocols.config import RunConfig
from protocols.errors import AnswerError, EndpointError
from protocols.evolution import Candidate, Signal
from protocols.interfaces import SimulatorService, Synthesizer
from protocols.synthesizers import (
    EndpointModel,
    NoReader,
    PolicyModel,
    SynthesizerModel,
    SynthesizerReader,
)

GATHER_S = 0.3
"""Seconds that commands of exploration and judging wait for others; these need no low latency."""

TRIALS_IN_BATCH = 32
"""Maximum trials of the gates that a simulator gets at a time: it has to answer them in time, and a
trial in a large world takes a tenth of a second."""

SYNTHESIZER = "synthesizer"
"""Name of the part, and of its engine if the policy synthesizes."""

SYNTHESES = 128
"""Conversations at a time of the policy as a synthesizer."""


def synthesizer(
    context: PartContext,
    told: BriefContext,
    cells: Mapping[str, str],
    simulators: Sequence[SimulatorService],
    questions: Questions,
) -> SynthesizerWorker:
    """Return the part that makes tasks from signals; ``told`` adds to its requests.

    ``cells`` are the environment's.
    """
    return SynthesizerWorker(
        context,
        open_model=lambda model: synthesizer_model(context, simulators, questions, model),
        told=told,
        cells=cells,
    )


def synthesizer_model(
    context: PartContext,
    simulators: Sequence[SimulatorService],
    questions: Questions,
    model: SynthesizerModel,
) -> Synthesizer:
    """Return the synthesizer with ``model``; it has not called the model yet."""
    simulator = SimulatorPool(list(map(ToolClient, simulators)), gather_s=GATHER_S)
    match model:
        case PolicyModel():
            from coevolve.engine.generator import TransformersGenerator
            from coevolve.environments.tools.filesystem.synthesizer import PolicySynthesizer

            folder = model_folder(context.config.policy.model)
            generator = TransformersGenerator(
                folder,
                context.run_dir,
                max_concurrent=SYNTHESES,
                max_length=context.config.rollout.max_tokens,
            )
            return PolicySynthesizer(
                model,
                engine=VerifiedEngine(context, SYNTHESIZER, generator),
                simulator=simulator,
                renderer=TinyRenderer.load(folder),
                reader=context.reader,
            )
        case EndpointModel():
            from coevolve.environments.tools.synthesis.endpoint import EndpointSynthesizer

            return EndpointSynthesizer(model, simulator=simulator, questions=questions)


async def model_faults(config: RunConfig) -> list[str]:
    """Return why endpoints that make or read tasks are of no use; they reflect on an example."""
    from coevolve.environments.tools.synthesis.endpoint import check_model

    if not config.synthesizes:
        return []
    named = (
        ("validator.reader", config.validator.reader),
        ("synthesizer.model", config.synthesizer.model),
    )
    # One that is named twice is asked once.
    asked = {model: name for name, model in named if isinstance(model, EndpointModel)}
    faults: list[str] = []
    for model, name in asked.items():
        try:
            await check_model(model)
        except (EndpointError, AnswerError) as error:
            faults.append(f"{name}: {error}")
    return faults


def gates(
    context: PartContext,
    simulators: Sequence[SimulatorService],
    held_out_cell: Callable[[ToolTask], str],
) -> ToolGates:
    """Return the gates, which execute candidates."""
    config = context.config
    return ToolGates(
        trial_pool(simulators),
        calls_per_turn=config.rollout.max_calls_per_turn,
        positive_reward=config.validator.positive_reward_clause,
        reader=reader(context, partial(instruction_reader, config)),
        held_out_cell=held_out_cell,
    )


def trial_pool(simulators: Sequence[SimulatorService]) -> SimulatorPool:
    """Return simulators for the trials of gates."""
    clients = list(map(ToolClient, simulators))
    return SimulatorPool(clients, TRIALS_IN_BATCH, gather_s=GATHER_S)


def reader(
    context: PartContext, open_reader: Callable[[SynthesizerModel, FindAccount], InstructionReader]
) -> InstructionReader | None:
    """Return the reader of instructions, whose calls are recorded; None if the run has none."""
    config = context.config
    model = reading_model(config)
    if model is None:
        return None

    def opened(model: SynthesizerModel) -> InstructionReader:
        return open_reader(model, _accounts(context, _name(model), "reader"))

    if isinstance(config.validator.reader, SynthesizerReader):
        return SwappedReader(model, opened, context.reader)
    return opened(model)


def instruction_reader(
    config: RunConfig,
    model: SynthesizerModel,
    account_of: FindAccount,
    questions: Questions = CALLS,
    options: contrast.Options = contrast.among_calls,
) -> InstructionReader:
    """Return a reader with a model; ``account_of`` finds where its calls are recorded.

    An endpoint is asked ``questions`` about ``options``, by default about calls.
    """
    settings = config.validator
    match model:
        case PolicyModel():
            from coevolve.environments.tools.filesystem import reader

            folder = model_folder(config.policy.model)
            limit = settings.agreement or reader.AGREEMENT
            return reader.PolicyReader(folder, account_of=account_of, agreement=limit)
        case EndpointModel():
            from coevolve.environments.tools.synthesis.reader import EndpointReader

            return contrast.AskedReader(
                EndpointReader(model, account_of=account_of, questions=questions),
                rebuilds=settings.rebuilds,
                agreement=settings.agreement or contrast.AGREEMENT,
                options=options,
            )


def reading_model(config: RunConfig) -> SynthesizerModel | None:
    """Return the model that reads instructions; None if the run has none, or makes no tasks."""
    match config.validator.reader:
        case NoReader():
            return None
        case SynthesizerReader():
            return config.synthesizer.model if config.synthesizes else None
        case EndpointModel() as model:
            return model if config.synthesizes else None


def _name(model: SynthesizerModel) -> str:
    return model.model if isinstance(model, EndpointModel) else "policy@0"


def judge(context: PartContext, questions: Questions) -> Judge:
    """Return the judge, whose calls count towards the run's budget; the default has no opinions."""
    config, model = context.config, context.config.synthesizer.model
    if not (config.validator.judge and isinstance(model, EndpointModel)):
        return NoJudge()
    from coevolve.environments.tools.synthesis.judge import EndpointJudge

    account_of = _accounts(context, model.model, "judge")
    return EndpointJudge(model, account_of=account_of, questions=questions)


def _accounts(context: PartContext, model: str, name: str) -> FindAccount:
    """Return a function that finds the record of a candidate's calls of ``model``.

    ``name`` writes it.

    The calls count towards the budget of synthesis.
    """
    ledger = Ledger(Budget.of_synthesizer(context.config.synthesizer), context.reader)
    append = context.appender(name, name)

    async def account_of(candidate: Candidate) -> Account:
        found = await context.reader.find(SIGNALS_BY_ID, candidate.signal_id, limit=1)
        kind = decode_as(found[0], Signal).kind
        calls = JournalCallLog(
            candidate.signal_id,
            kind,
            model,
            ledger=ledger,
            reader=context.reader,
            append=append,
        )
        return Account(calls=calls, kind=kind)

    return account_of
