from coevolve.environments.tools.filesystem.reflection import reflect
from coevolve.environments.tools.synthesis.brief import ToolContext
from protocols.evolution import OnPattern, OnTask
from protocols.rollouts import Action
from protocols.synthesis import Anything, Attempt, Brief
from protocols.tasks import body_of


def brief(about: OnTask | OnPattern | Anything, attempts: tuple[Attempt, ...] = ()) -> Brief:
    return Brief(
        signal_id="s",
        kind="boundary",
        about=about,
        attempts=attempts,
        context=body_of(ToolContext(starts=())),
        steps=12,
        seed=0,
        policy_version=0,
    )


def test_the_reflection_counts_what_the_attempts_show() -> None:
    wrong = Action(turn=1, text="rm(file_name='x')", result='{"error": "rm: no"}', failed=True)
    failed = Attempt(actions=(wrong,), succeeded=False, turns_passed=1, ended="wrong")
    passed = Attempt(actions=(), succeeded=True, turns_passed=2, ended="finished")
    said = reflect(brief(OnTask(task_id="t"), (failed, passed)), (("find", "cd"),))
    assert said.summary == "boundary signal on task t: 1 of 2 attempts failed."
    assert said.failure_cause == "1 of 1 failed attempts ended as 'wrong'."
    assert said.instability_pattern == "Some attempts succeeded while others failed at turn 2 (1)."
    assert said.focus_pattern == ("find > cd",)
    assert said.avoid_pattern == ('rm(file_name=\'x\') -> {"error": "rm: no"}',)


def test_without_evidence_nothing_is_claimed() -> None:
    said = reflect(brief(Anything()), ())
    assert said.failure_cause == "No attempt failed."
    assert said.focus_pattern == ("any tool",)
    assert said.avoid_pattern == ()
