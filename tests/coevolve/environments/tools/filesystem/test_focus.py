from coevolve.environments.tools.filesystem.focus import focus_of, reflect
from coevolve.environments.tools.synthesis.brief import ToolContext
from protocols.evolution import OnPattern, OnTask, PatternKind
from protocols.rollouts import Action
from protocols.synthesis import Anything, Attempt, Brief
from protocols.tasks import body_of


def brief(about: OnTask | OnPattern | Anything, *attempts: Attempt) -> Brief:
    return Brief(
        signal_id="s",
        kind="rare",
        about=about,
        attempts=attempts,
        context=body_of(ToolContext(starts=())),
        steps=12,
        seed=0,
        policy_version=0,
    )


def attempt(passed: int, of: int, *calls: tuple[int, str]) -> Attempt:
    return Attempt(
        actions=tuple(
            Action(turn=turn, text=text, result="", failed=False) for turn, text in calls
        ),
        succeeded=passed == of,
        turns_passed=passed,
        ended="finished" if passed == of else "wrong",
    )


def pattern(kind: PatternKind, text: str) -> OnPattern:
    return OnPattern(kind=kind, pattern=text)


def test_a_pattern_names_its_tools() -> None:
    assert focus_of(brief(pattern("tool", "wc"))) == (("wc",),)
    assert focus_of(brief(pattern("tool_bigram", "find > cd"))) == (("find", "cd"),)
    assert focus_of(brief(pattern("skill", "cd+touch"))) == (("cd", "touch"),)
    assert focus_of(brief(pattern("argument_shape", "mv(source, destination)"))) == (("mv",),)
    assert focus_of(brief(pattern("error_class", "rm: No such thing"))) == (("rm",),)


def test_a_task_points_to_the_tools_of_attempts_that_passed_the_turn() -> None:
    focus = focus_of(
        brief(
            OnTask(task_id="t"),
            attempt(1, 2, (0, "ls()"), (1, "cat(file_name='a.txt')")),
            attempt(2, 2, (0, "ls()"), (1, "find(path='.')"), (1, "cd(folder='b')")),
        ),
    )
    assert focus == (("find", "cd"),)


def test_without_a_passing_attempt_a_task_points_to_the_tools_that_were_tried() -> None:
    focus = focus_of(
        brief(OnTask(task_id="t"), attempt(0, 1, (0, "cat(file_name='a.txt')"), (0, "oops()"))),
    )
    assert focus == (("cat",),)


def test_where_all_failed_calls_that_got_through_the_turn_are_found_by_its_number() -> None:
    focus = focus_of(
        brief(
            OnTask(task_id="t"),
            attempt(1, 3, (0, "ls()"), (1, "wc(file_name='a.txt')")),
            attempt(1, 3, (0, "ls()"), (1, "sort(file_name='a.txt')")),
            attempt(2, 3, (0, "du()"), (1, "cat(file_name='a.txt')"), (2, "rm(file_name='b')")),
        )
    )
    assert focus == (("cat",),)


def test_without_a_failed_attempt_every_used_tool_is_tried() -> None:
    passed = attempt(2, 2, (0, "ls()"), (1, "cat(file_name='a.txt')"), (1, "ls()"))
    assert focus_of(brief(OnTask(task_id="t"), passed)) == (("cat",), ("ls",))


def test_without_a_signal_or_a_known_tool_there_is_no_focus() -> None:
    assert focus_of(brief(Anything())) == ()
    assert focus_of(brief(pattern("tool", "oops"))) == ()


def test_the_reflection_counts_what_the_attempts_show() -> None:
    wrong = Action(turn=1, text="rm(file_name='x')", result='{"error": "rm: no"}', failed=True)
    failed = Attempt(actions=(wrong,), succeeded=False, turns_passed=1, ended="wrong")
    asked = brief(OnTask(task_id="t"), failed, attempt(2, 2))
    said = reflect(asked, (("find", "cd"),))
    assert said.summary == "rare signal: 2 attempts used it, 1 of them failed."
    assert said.failure_cause == "wrong in turn 2 (1)"
    assert said.instability_pattern == "Attempts differ."
    assert said.focus_pattern == ("find > cd",)
    assert said.avoid_pattern == ('rm(file_name=\'x\') -> {"error": "rm: no"}',)


def test_without_evidence_nothing_is_claimed() -> None:
    said = reflect(brief(Anything()), ())
    assert (said.failure_cause, said.instability_pattern, said.avoid_pattern) == ("", "", ())
    assert said.focus_pattern == ("any tool",)
