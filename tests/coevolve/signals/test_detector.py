import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.signals.detector import Detector
from protocols.evolution import GroupSummary, OnTask, Signal
from protocols.evolution_config import SignalsConfig
from tests.coevolve.signals.histories import visit

TOOLS = ("cd", "du", "mv", "wc")
EAGER = SignalsConfig(
    kinds=("forgetting", "boundary", "rare", "uncertainty"),
    rare_share=0.3,
    confidence=0.6,
    forgetting_drop=0.1,
    false_discovery=0.4,
    cool_down_versions=2,
)


def judged(visits: list[GroupSummary], config: SignalsConfig = EAGER) -> list[Signal]:
    detector = Detector(config, TOOLS, 100)
    return [signal for each in visits for signal in detector.judge(each)]


def test_a_signal_names_its_subject_and_version():
    [signal] = judged([visit(4, version=5, version_max=6, group=17)], SignalsConfig())
    assert signal.signal_id == "boundary-g17-0"
    assert signal.about == OnTask(task_id="task")
    assert signal.policy_version == 6
    assert signal.evidence == (1701, 1702)


def test_only_the_configured_kinds_are_raised():
    visits = [visit(4, version=n, group=n) for n in range(9)]
    assert not judged(visits, SignalsConfig(kinds=("forgetting",)))
    assert not judged(visits, SignalsConfig(kinds=()))
    assert {each.kind for each in judged(visits, SignalsConfig(rules="paper"))} == {"boundary"}


def test_a_rule_does_not_repeat_itself_while_it_cools_down():
    visits = [visit(4, version=version, group=version) for version in range(10)]
    quiet = SignalsConfig(cool_down_versions=4)
    assert [each.policy_version for each in judged(visits, quiet)] == [0, 4, 8]
    always = SignalsConfig(cool_down_versions=0)
    assert [each.policy_version for each in judged(visits, always)] == list(range(10))


def test_one_task_cools_down_without_another():
    visits = [visit(4, version=1, task_id=task, group=n) for n, task in enumerate("abab")]
    about = [each.about for each in judged(visits, SignalsConfig())]
    assert about == [OnTask(task_id="a"), OnTask(task_id="b")]


def test_a_visit_raises_two_rare_signals_and_the_next_visit_the_others():
    config = SignalsConfig(kinds=("rare",), half_life_visits=1e15)
    visits = [visit(0, version=1, group=n, patterns=[("tool", "cd", 1)]) for n in range(63)]
    found = judged(visits, config)
    assert [each.signal_id for each in found] == ["rare-g58-0", "rare-g58-1", "rare-g59-0"]
    assert len({each.about for each in found}) == 3


def test_the_tools_are_among_the_settings_on_which_the_state_depends():
    assert Detector(EAGER, TOOLS, 9).settings != Detector(EAGER, TOOLS[1:], 9).settings


def some_visit(group: int) -> st.SearchStrategy[GroupSummary]:
    return st.builds(
        lambda task, successes, tool, surprise: visit(
            successes,
            group=group,
            version=group // 2,
            task_id=task,
            surprise=surprise,
            patterns=[("tool", tool, 2), ("error_class", tool, 1)],
        ),
        st.sampled_from("ab"),
        st.sampled_from([0, 4, 8]),
        st.sampled_from(TOOLS),
        st.floats(0, 3),
    )


some_visits = st.integers(1, 25).flatmap(
    lambda count: st.tuples(*(some_visit(group) for group in range(count)))
)


@settings(max_examples=50)
@given(some_visits, st.sampled_from(["paper", "posterior"]), st.data())
def test_a_detector_that_is_rebuilt_goes_on_where_the_old_one_was(
    visits: tuple[GroupSummary, ...], rules: str, data: st.DataObject
):
    config = msgspec.structs.replace(EAGER, rules=rules)
    whole = judged(list(visits), config)
    cut = data.draw(st.integers(0, len(visits)))
    said = judged(list(visits[:cut]), config)
    rebuilt = Detector(config, TOOLS, 100)
    for message in (*visits[:cut], *said):
        rebuilt.recall(message)
    assert said + [s for each in visits[cut:] for s in rebuilt.judge(each)] == whole
    assert len({signal.signal_id for signal in whole}) == len(whole)
    assert all(0 <= signal.score <= 1 for signal in whole)


@settings(max_examples=30)
@given(some_visits, st.integers(0, 25))
def test_failed_groups_change_nothing(visits: tuple[GroupSummary, ...], at: int):
    failed = visit(0, 0, version=-1, task_id="a", group=99)
    assert judged([*visits[:at], failed, *visits[at:]]) == judged(list(visits))
