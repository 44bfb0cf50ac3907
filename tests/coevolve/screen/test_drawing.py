"""The live screen: what a person has to see of a run, on a small and on a large terminal."""

from collections.abc import Sequence

import msgspec
import pytest

from coevolve.base.terminal import Terminal
from coevolve.base.visible import UNSAFE
from coevolve.screen.drawing import draw
from coevolve.screen.lines import curve
from coevolve.screen.view import View
from protocols.config import RunConfig
from protocols.control import (
    CopyFailed,
    PartsRest,
    PartStatus,
    RunContinued,
    RunCopied,
    RunPaused,
    RunResumed,
    Stalled,
    StopRequested,
)
from protocols.journal import Message
from protocols.learning import NothingDelivered, WeightSyncAlarm
from tests.evolving import settled, swapped
from tests.screens import plain, progress_of, report, staged, status, whole_story

SMALL, LARGE = (80, 24), (120, 40)
HOSTILE = "\x1b]0;title\x07\x1b[2J\u202e\nred"
PARTS = (
    status("learner", "complete groups (5 of 8)", policy_version=40),
    status("rollout-0", "64 conversations, or more requests", policy_version=39),
    status("rollout-1", "64 conversations, or more requests", policy_version=40),
    *(status(f"simulator-{number}", "requests") for number in range(8)),
    status("curriculum", "the learner to consume groups (24 in flight)"),
    status("signals", "is starting", pid=None),
)
ALARM = WeightSyncAlarm(
    engine="rollout-0", version=3, reason=NothingDelivered(waited_s=300.0, newest=2)
)


def view(config: RunConfig, messages: Sequence[Message], **fields: object) -> View:
    learner = msgspec.structs.replace(config.learner, steps=120)
    given: dict[str, object] = {"elapsed_s": 95.0, "parts": PARTS} | fields
    return View(
        config=msgspec.structs.replace(config, learner=learner),
        progress=progress_of(messages),
        **given,  # pyright: ignore[reportArgumentType]
    )


def shown(
    config: RunConfig,
    messages: Sequence[Message],
    size: tuple[int, int] = SMALL,
    **fields: object,
) -> list[str]:
    lines = plain(draw(view(config, messages, **fields), *size), size)
    assert len(lines) < size[1]
    assert all(len(line) <= size[0] for line in lines)
    return lines


def of(name: str, lines: Sequence[str]) -> str:
    (line,) = [each for each in lines if each.startswith(name)]
    return " ".join(line.split())


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_glance_says_how_far_the_run_is_and_how_it_does(
    quickstart: RunConfig, size: tuple[int, int]
):
    lines = shown(quickstart, whole_story(), size)
    assert lines[0].startswith("quickstart \u00b7 arm full \u00b7 seed 0")
    assert lines[0].endswith("runs 1:35")
    assert lines[1].endswith(" step 40 of 120, about 2:40 left")
    filled, empty = lines[1].count("\u2501"), lines[1].count("\u2500")
    assert filled == pytest.approx((filled + empty) / 3, abs=1)
    assert of("reward", lines).startswith("reward 0.650 ")
    assert of("reward", lines).endswith("\u2191 better")
    assert of("held-out success ", lines).endswith("\u2581\u2588 +50.0 points at step 40")
    assert " 75.0 ± 16.7 % " in of("held-out success ", lines)
    assert of("imitation loss", lines).endswith("\u2193 better")
    for name, value in (
        ("policy loss", "-0.125"),
        ("KL from start", "0.500 nats"),
        ("entropy", "0.750 nats"),
        ("gradient norm", "1.500"),
        ("tokens per second", "3,210"),
    ):
        assert f"{name} {value} " in of(name, lines)
        assert of(name, lines).endswith("\u2192 level")
    assert of("a step takes", lines) == (
        "a step takes 2.0 s: 75 % waits for rollouts, 25 % trains, 0 % saves"
    )
    assert of("its groups", lines) == "its groups 8 (6 mixed, 2 all fail)"
    assert of("signals found", lines) == "signals found 2 (1 forgetting, 1 rare); 1 open"
    assert of("tasks made", lines) == "tasks made parked 1, admitted 1 learnable"
    assert of("tasks refused", lines) == "tasks refused 1 duplicate"
    assert of("learner", lines) == "learner 3 s waits for complete groups (5 of 8) v40"
    assert of("2 x rollout", lines).endswith("or more requests v39-40")
    assert of("8 x simulator", lines) == "8 x simulator 3 s waits for requests"


def test_a_large_terminal_also_shows_the_groups_of_held_out_tasks(quickstart: RunConfig):
    assert not any(line.startswith("all ") for line in shown(quickstart, whole_story()))
    lines = shown(quickstart, whole_story(), LARGE)
    assert of("held-out success, %", lines) == "held-out success, % step 0 step 40 std error tasks"
    assert of("all ", lines) == "all 25.0 75.0 16.7 4"


def test_before_the_first_step_the_parts_say_what_the_run_waits_for(quickstart: RunConfig):
    lines = shown(quickstart, [])
    assert lines[0].endswith("starts 1:35")
    assert lines[1].endswith(" step 0 of 120")
    assert of("reward", lines) == "reward no step yet"
    assert of("held-out success ", lines) == "held-out success not scored"
    assert of("signals ", lines) == "signals 3 s is starting"


def test_a_worse_reward_is_called_worse_and_noise_is_called_level(quickstart: RunConfig):
    falling = [report(n, critic__rewards__mean=1 - 0.01 * n) for n in range(1, 21)]
    noisy = [report(n, critic__rewards__mean=0.5 + 0.1 * (n % 3)) for n in range(1, 21)]
    assert of("reward", shown(quickstart, falling)).endswith("\u2193 worse")
    assert of("reward", shown(quickstart, noisy)).endswith("\u2192 level")
    assert of("reward", shown(quickstart, falling[:5])).split()[-1] not in ("worse", "level")


def test_the_screen_says_that_and_how_far_a_run_is_in_its_warm_start(quickstart: RunConfig):
    lines = shown(quickstart, staged(9, 3))
    assert lines[0].endswith("warm start 1:35")
    assert of("warm start", lines) == (
        "warm start step 3 of at most 0; 4 of 6 skills succeed in 5 % of attempts"
    )
    over = shown(quickstart, staged(3, 5))
    assert over[0].endswith("runs 1:35")
    assert of("warm start", over) == "warm start 3 steps; 4 of 6 skills succeed in 5 % of attempts"
    assert not any(each.startswith("warm start") for each in shown(quickstart, whole_story()))


def test_a_metric_that_is_not_finite_does_not_break_the_screen(quickstart: RunConfig):
    lines = shown(quickstart, [report(1), report(2, actor__pg_loss=float("nan"))])
    assert "-0.125" in of("policy loss", lines)


def marked(lines: Sequence[str]) -> list[str]:
    return [line.removeprefix("! ") for line in lines if line.startswith("! ")]


@pytest.mark.parametrize(
    ("begun", "over", "words"),
    [
        (RunPaused(run_id="r"), RunContinued(run_id="r"), "paused; no work is handed out"),
        (swapped(), settled("s9", by="glm"), "swap: glm synthesizes from now on"),
        (PartsRest(causes={"signals": "no memory"}), PartsRest(causes={}), "signals rests"),
        (ALARM, RunResumed(run_id="r", config=""), "ALARM: rollout-0 must serve version 3"),
        (
            CopyFailed(reason="the disk is full"),
            RunCopied(number=1, step=1, records=1, size_bytes=1, sent_bytes=1, wall_s=1.0),
            "not copied: the disk is full",
        ),
    ],
)
def test_what_passes_is_shown_until_it_is_over(
    quickstart: RunConfig, begun: Message, over: Message, words: str
):
    before = whole_story()
    assert not marked(shown(quickstart, before))
    (notice,) = marked(shown(quickstart, [*before, begun]))
    assert notice.startswith(words)
    assert not marked(shown(quickstart, [*before, begun, over]))


def test_a_stall_names_what_waits_for_what_until_the_next_record(quickstart: RunConfig):
    stalled = Stalled(quiet_s=60.0, waiting=("learner waits for complete groups", "store sleeps"))
    messages = [*whole_story(), stalled]
    lines = shown(quickstart, messages, stalled=progress_of(messages).passing.stalled)
    assert marked(lines) == [
        "no progress for 60 s: learner waits for complete groups; store sleeps"
    ]
    assert progress_of([*messages, report(41)]).passing.stalled is None


def test_the_head_says_that_the_run_is_paused_or_stops(quickstart: RunConfig):
    for message, word in ((RunPaused(run_id="r"), "paused"), (StopRequested(run_id="r"), "stops")):
        assert shown(quickstart, [*whole_story(), message])[0].endswith(f"{word} 1:35")
    assert shown(quickstart, whole_story(), doing="copies")[0].endswith("copies 1:35")
    resumed = [StopRequested(run_id="r"), RunResumed(run_id="r", config="")]
    assert shown(quickstart, [*whole_story(), *resumed])[0].endswith("runs 1:35")


@pytest.mark.parametrize("size", [SMALL, LARGE, (40, 10), (20, 3), (5, 2)])
def test_every_terminal_is_large_enough(quickstart: RunConfig, size: tuple[int, int]):
    events = [f"event {number}: {HOSTILE * 9}" for number in range(40)]
    lines = shown(quickstart, [*whole_story(), ALARM], size, events=events)
    assert lines[0].startswith("qui") or size[0] < 20


def test_no_name_or_sentence_acts_on_the_terminal(quickstart: RunConfig):
    parts = [status(f"{HOSTILE}-{n}", HOSTILE, last_error=HOSTILE) for n in range(3)]
    config = msgspec.structs.replace(quickstart, name=HOSTILE)
    messages = [
        *whole_story(),
        swapped(to=HOSTILE),
        PartsRest(causes={HOSTILE: HOSTILE}),
        CopyFailed(reason=HOSTILE),
    ]
    lines = shown(config, messages, LARGE, parts=parts, events=[HOSTILE], doing="")
    assert not UNSAFE.search("".join(lines))
    assert lines[0].startswith(r"\u001b]0;title\u0007\u001b[2J\u202e red")
    assert sum(HOSTILE.splitlines()[-1] in line for line in lines) >= 4


def test_colours_add_nothing_that_words_do_not_say(
    quickstart: RunConfig, monkeypatch: pytest.MonkeyPatch
):
    drawn = draw(view(quickstart, [*whole_story(), ALARM]), *SMALL)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(width=80, height=24, force_terminal=True, highlight=False)
    with terminal.capture() as captured:
        terminal.print(drawn)
    assert "\x1b[3" not in captured.get()
    assert {"better", "ALARM:"} <= set(captured.get().split())


def test_a_terminal_without_unicode_gets_ascii(quickstart: RunConfig):
    config = msgspec.structs.replace(quickstart, name="l\u00e4uft")
    drawn = draw(view(config, whole_story()), *SMALL, ascii_only=True)
    lines = plain(drawn, SMALL)
    assert all(line.isascii() for line in lines)
    assert of("reward", lines).endswith("^ better")


def test_a_part_that_does_not_answer_is_told_apart(quickstart: RunConfig):
    parts: list[PartStatus] = [
        status("rollout-0", "requests"),
        status("rollout-1", "does not answer", pid=None, since_s=0.0),
    ]
    lines = shown(quickstart, [], parts=parts)
    assert of("rollout-0", lines) == "rollout-0 3 s waits for requests"
    assert of("rollout-1", lines) == "rollout-1 does not answer"


def test_a_curve_does_not_fill_its_height_with_less_than_the_least_range():
    assert curve([32.5, 33.3], 2) == "\u2581\u2588"
    assert curve([32.5, 33.3], 2, least=8.4) == "\u2584\u2585"
    assert curve([0.0, 40.0], 2, least=8.4) == "\u2581\u2588"
