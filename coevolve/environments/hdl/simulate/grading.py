"""Builds the simulator's request for a submission, and the graded state from its answer."""

import msgspec

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Evaluated,
    SimulationLimits,
    Stimulus,
    Submission,
)
from coevolve.environments.hdl.simulate.reward import MutantTrial


def grading(
    design: Design,
    submission: Submission,
    limits: SimulationLimits,
    *,
    instance: str = "",
    trial: MutantTrial | None = None,
) -> Evaluate:
    """Return the request to grade ``submission``, with the design's own seed."""
    return Evaluate(
        unit=design.unit,
        submission=submission,
        instance=instance,
        seed=design.file.seed,
        limits=limits,
        trial=trial,
    )


def encodable(request: Evaluate) -> Evaluate:
    """Return the request with ``?`` in place of halves of surrogate pairs.

    UTF-8 cannot encode such a half, so no journal record could hold a policy's text with one.
    """
    submission = request.submission
    texts = {
        name: text.encode(errors="replace").decode()
        for name, text in msgspec.structs.asdict(submission).items()
        if isinstance(text, str)
    }
    return msgspec.structs.replace(request, submission=msgspec.structs.replace(submission, **texts))


def graded(submission: Submission, evaluated: Evaluated) -> Graded:
    """Return ``submission`` with its grade."""
    return Graded(
        testbench=evaluated.testbench,
        program=submission.program if isinstance(submission, Stimulus) else "",
        outcome=evaluated.outcome,
        key=evaluated.key,
    )
