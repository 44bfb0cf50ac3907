from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.tools.synthesis.brief import tool_context
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.synthesis.arms import ArmBriefs
from protocols.errors import ConfigError
from protocols.evolution import GroupSummary, OnPattern, OnTask, PatternCount, PatternKind
from protocols.synthesis import Anything, Brief
from tests.scripted import CONFIG, add, rollout, signal, task, told

TASKS = ("a", "b", "c", "d")
ARMS = ("full", "random", "placebo")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


def visit(
    task_id: str, evidence: Sequence[int], *patterns: tuple[PatternKind, str]
) -> GroupSummary:
    return GroupSummary(
        group_id=f"g-{task_id}",
        group=0,
        task_id=task_id,
        root=task_id,
        version_min=0,
        version_max=0,
        successes=0,
        rollouts=len(evidence),
        errors=0,
        surprise=0.0,
        sampled_tokens=0,
        calls=0,
        patterns=tuple(PatternCount(kind=k, pattern=p, count=1) for k, p in patterns),
        evidence=tuple(evidence),
    )


async def visited(store: LocalStore, *tasks: str, patterns: bool = True) -> dict[str, list[int]]:
    """Add tasks with two rollouts each, and their summaries; return the rollouts by task."""
    evidence: dict[str, list[int]] = {}
    for name in tasks:
        _, *evidence[name] = await add(
            store, task(name), rollout(name, said=f"{name}1()"), rollout(name, said=f"{name}2()")
        )
        seen: list[tuple[PatternKind, str]] = [("tool", name), ("error_class", f"no {name}")]
        await add(store, visit(name, evidence[name], *(seen if patterns else ())))
    return evidence


def arm_briefs(store: LocalStore, arm: str, seed: int = 0) -> ArmBriefs:
    config = msgspec.structs.replace(CONFIG, arm=arm, seed=seed)
    return ArmBriefs(config, reader=store, context=told(config), cells={})


def said(brief: Brief) -> list[str]:
    return [attempt.actions[0].text for attempt in brief.attempts]


async def test_the_arms_have_the_same_number_of_rounds_steps_and_attempts(store: LocalStore):
    evidence = await visited(store, *TASKS)
    flagged = signal("s", about=OnTask(task_id="a"), evidence=evidence["a"])
    (sequence,) = await add(store, flagged)
    full, random, placebo = [await arm_briefs(store, a).brief(flagged, sequence) for a in ARMS]
    assert {
        (len(tool_context(b).starts), b.steps, b.seed, b.kind) for b in (full, random, placebo)
    } == {(3, 5, full.seed, "forgetting")}
    assert len(full.attempts) == len(placebo.attempts) == 2
    assert tool_context(full).starts[1:] == tool_context(placebo).starts[1:]


async def test_full_gives_the_signals_subject_and_random_none(store: LocalStore):
    evidence = await visited(store, *TASKS)
    flagged = signal("s", about=OnTask(task_id="a"), evidence=evidence["a"])
    full = await arm_briefs(store, "full").brief(flagged, 99)
    assert (full.about, tool_context(full).starts[0].origin) == (OnTask(task_id="a"), "a")
    assert said(full) == ["a1()", "a2()"]
    random = await arm_briefs(store, "random").brief(flagged, 99)
    assert (random.about, tool_context(random).instructions, random.attempts) == (
        Anything(),
        (),
        (),
    )
    assert all(start.origin.startswith("start:") for start in tool_context(random).starts)


async def test_a_placebo_tells_of_another_task_with_its_own_rollouts(store: LocalStore):
    evidence = await visited(store, *TASKS)
    drawn = Counter[str]()
    for number in range(300):
        flagged = signal(f"s{number}", about=OnTask(task_id="a"), evidence=evidence["a"])
        brief = await arm_briefs(store, "placebo").brief(flagged, 99)
        assert isinstance(brief.about, OnTask)
        other = brief.about.task_id
        drawn[other] += 1
        assert tool_context(brief).instructions == (f"do {other}", f"then {other}")
        assert tool_context(brief).starts[0].origin == other
        assert said(brief) == [f"{other}1()", f"{other}2()"]
    assert set(drawn) == {"b", "c", "d"}
    assert min(drawn.values()) > 70


async def test_a_placebo_for_a_pattern_is_another_one_of_its_kind(store: LocalStore):
    evidence = await visited(store, *TASKS)
    drawn = Counter[str]()
    for number in range(100):
        about = OnPattern(kind="tool", pattern="a")
        flagged = signal(f"s{number}", about=about, evidence=evidence["a"][:1])
        brief = await arm_briefs(store, "placebo").brief(flagged, 99)
        assert isinstance(brief.about, OnPattern)
        assert brief.about.kind == "tool"
        assert said(brief) == [f"{brief.about.pattern}1()"]
        drawn[brief.about.pattern] += 1
    assert set(drawn) == {"b", "c", "d"}


async def test_a_placebo_can_be_drawn_again_and_looks_at_nothing_later(store: LocalStore):
    evidence = await visited(store, "a", "b", "c")
    flagged = [
        signal(f"s{number}", about=OnTask(task_id="a"), evidence=evidence["a"])
        for number in range(10)
    ]
    sequences = await add(store, *flagged)
    pairs = list(zip(flagged, sequences, strict=True))
    before = arm_briefs(store, "placebo")
    first = [await before.brief(*pair) for pair in pairs]
    await visited(store, "d", "e", "f")
    await add(store, visit("b", evidence["c"]))
    after = arm_briefs(store, "placebo")
    assert [await after.brief(*pair) for pair in pairs] == first
    assert [await before.brief(*pair) for pair in pairs] == first
    other = arm_briefs(store, "placebo", seed=1)
    assert [(await other.brief(*pair)).about for pair in pairs] != [each.about for each in first]


async def test_a_placebo_shows_as_many_rollouts_as_the_signal_the_newest_first(store: LocalStore):
    evidence = await visited(store, "a", "b")
    _, *later = await add(store, task("b2"), rollout("b", said="b3()"), rollout("b", said="b4()"))
    await add(store, visit("b", later))
    flagged = signal("s", about=OnTask(task_id="a"), evidence=(*evidence["a"], evidence["a"][0]))
    brief = await arm_briefs(store, "placebo").brief(flagged, 99)
    assert said(brief) == ["b3()", "b4()", "b1()"]


async def test_a_placebo_without_another_subject_is_empty(store: LocalStore):
    evidence = await visited(store, "a")
    await add(store, visit("failed", ()))
    flagged = signal("s", about=OnTask(task_id="a"), evidence=evidence["a"])
    brief = await arm_briefs(store, "placebo").brief(flagged, 99)
    assert (brief.about, brief.attempts, len(tool_context(brief).starts)) == (Anything(), (), 3)


@pytest.mark.parametrize("arm", ["uniform", "static"])
async def test_an_arm_without_synthesis_is_refused(store: LocalStore, arm: str):
    with pytest.raises(ConfigError, match=f"{arm} synthesizes no tasks"):
        await arm_briefs(store, arm).brief(signal("s"), 1)
