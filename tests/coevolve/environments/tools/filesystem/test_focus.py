from collections import Counter

import numpy as np

from coevolve.environments.tools.filesystem.coverage import Coverage
from coevolve.environments.tools.filesystem.focus import Planner, focus_of
from coevolve.environments.tools.filesystem.manual import manual
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.synthesis.brief import Precedent, ToolContext
from protocols.evolution import OnPattern, OnTask, PatternKind
from protocols.rollouts import Action
from protocols.synthesis import Anything, Attempt, Brief
from protocols.tasks import body_of

TOOLS = manual(CLASS)


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
    assert focus_of(brief(pattern("tool", "wc")), TOOLS) == (("wc",),)
    assert focus_of(brief(pattern("tool_bigram", "find > cd")), TOOLS) == (("find", "cd"),)
    assert focus_of(brief(pattern("argument_shape", "mv(source, destination)")), TOOLS) == (
        ("mv",),
    )
    assert focus_of(brief(pattern("error_class", "rm: No such thing")), TOOLS) == (("rm",),)


def test_a_task_points_to_what_got_others_through_the_turn() -> None:
    focus = focus_of(
        brief(
            OnTask(task_id="t"),
            attempt(1, 2, (0, "ls()"), (1, "cat(file_name='a.txt')")),
            attempt(2, 2, (0, "ls()"), (1, "find(path='.')"), (1, "cd(folder='b')")),
        ),
        TOOLS,
    )
    assert focus == (("find", "cd"),)


def test_where_none_got_through_it_points_to_what_was_tried() -> None:
    focus = focus_of(
        brief(OnTask(task_id="t"), attempt(0, 1, (0, "cat(file_name='a.txt')"), (0, "oops()"))),
        TOOLS,
    )
    assert focus == (("cat",),)


def test_without_a_signal_any_tool_is_tried() -> None:
    assert focus_of(brief(Anything()), TOOLS) == ()
    planner = Planner(TOOLS, Coverage(), np.random.default_rng(0))
    tried = {tool for chain in planner.errands((), 300) for tool in chain}
    assert tried == set(TOOLS)


def test_the_first_errand_has_the_focus() -> None:
    for seed in range(50):
        planner = Planner(TOOLS, Coverage(), np.random.default_rng(seed))
        first, *_ = planner.errands((("mkdir", "mv"),), 3)
        assert first == ("mkdir", "mv")
        first, *_ = planner.errands((("rm",),), 3)
        assert "rm" in first
        assert len(first) <= 3


def test_what_is_covered_or_cannot_be_described_is_tried_less() -> None:
    known = (
        Precedent(tools=("ls",), explored=60, described=60),
        Precedent(tools=("pwd",), explored=8, described=0),
    )
    planner = Planner(TOOLS, Coverage(known), np.random.default_rng(0))
    singles = Counter(chain for chain in planner.errands((), 2000) if len(chain) == 1)
    usual = singles[("cat",)]
    assert singles[("ls",)] < usual / 3
    assert singles[("pwd",)] < usual / 3
