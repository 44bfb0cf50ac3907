"""Steps of an agent on a design, made by hand."""

from coevolve.environments.hdl.curation.states import state_key
from coevolve.environments.hdl.policy.transition import (
    Author,
    Blank,
    ChatText,
    DesignState,
    Graded,
    Transition,
    TransitionCost,
)
from coevolve.environments.hdl.simulate.messages import (
    METRICS,
    CompileFailed,
    Coverage,
    Covered,
    KindCount,
)


def coverage(*shares: tuple[int, int]) -> Coverage:
    """Return coverage of the first kinds, as (covered, total)."""
    kinds = tuple(
        KindCount(metric=metric, covered=covered, total=total)
        for metric, (covered, total) in zip(METRICS, shares, strict=False)
    )
    return Coverage(points_hash="p", hits=b"", kinds=kinds)


def covered(*shares: tuple[int, int], testbench: str = "tb") -> Graded:
    outcome = Covered(coverage=coverage(*shares), ended="finish", slots=1, time=1, log="")
    return Graded(testbench=testbench, outcome=outcome, key="k")


FAILED = Graded(testbench="broken", outcome=CompileFailed(message="tb.sv:1:1: error: x"), key="k")


def transition(
    transition_id: str,
    before: DesignState,
    after: Graded,
    *,
    design: str = "fifo",
    prompt: tuple[ChatText, ...] = (ChatText(role="user", text="write"),),
) -> Transition:
    return Transition(
        transition_id=transition_id,
        state_key=state_key(design, before),
        design_id=design,
        parent="" if isinstance(before, Blank) else "t0",
        before=before,
        after=after,
        form="testbench",
        prompt=prompt,
        answer="an answer",
        author=Author(name="student", version=3),
        stage=1,
        round=1,
        seed=0,
        cost=TransitionCost(
            prompt_tokens=1, answer_tokens=1, simulator_calls=1, cpu_s=0.5, wall_s=1.0
        ),
    )
