"""The findings at the top of the page: each from records, each with a link to its evidence."""

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from coevolve.history.differences import Suspect
from coevolve.report.page import page
from coevolve.report.sections.findings import findings_section
from coevolve.report.sections.lives import lives_data
from coevolve.report.sections.pool import pool_section
from coevolve.report.sections.signals import candidates_section
from coevolve.report.sections.skills import skills_section
from coevolve.report.sections.teaching import teaching_section
from coevolve.report.sections.weaknesses import weaknesses_section
from protocols.control import PartFailed, RunResumed, RunStarted, Stalled
from protocols.evolution import Refused
from protocols.journal import Message
from protocols.learner_config import ImitationConfig
from protocols.learning import (
    CanaryScores,
    Evaluation,
    PolicyRegressed,
    TaskScore,
    WarmStartEnded,
)
from tests import evolving
from tests.coevolve.report.pages import data, parsed, scored, stepped, whole_story

SUSPECT = Suspect(
    task_id="seed-1",
    by="rollouts",
    successes=0,
    attempts=16,
    turn=2,
    turns=2,
    reference="cd('x')",
    otherwise="cd('y')",
    why="Nothing solved it.",
)


def told(messages: Sequence[Message]) -> str:
    return parsed(findings_section(data(messages))).text


def evaluated(version: int, passed: int) -> Evaluation:
    """Return scores of 40 tasks, of which the first ``passed`` are solved."""
    return Evaluation(
        version=version,
        scores=tuple(
            TaskScore(task_id=f"h{n}", turns_passed=int(n < passed), turns_total=1)
            for n in range(40)
        ),
        errors=0,
        wall_s=1.0,
    )


def test_every_finding_links_to_evidence_that_the_page_has():
    found = replace(data(whole_story()), suspects={"seed-1": SUSPECT})
    items = re.findall(r"<li>(.*?)</li>", findings_section(found))
    assert len(items) >= 6
    whole = page(found)
    for item in items:
        anchors = re.findall(r'href="#([^"]+)"', item)
        assert anchors, item
        for anchor in anchors:
            assert f'id="{anchor}"' in whole or f'"{anchor}":' in whole


def test_no_sentence_is_without_data():
    assert "There is no record yet to conclude from." in told([])
    assert "Held-out" not in told([scored(0, 0, 1)])
    assert "forgotten" not in told([scored(0, 0, 1)])
    assert told([evolving.seed(), evolving.visit("seed-1", 3)]).startswith(
        "FindingsOn tasks that were attempted in training nothing was forgotten: success dropped "
        "beyond chance on none of 1."
    )


def test_a_score_rises_or_falls_only_beyond_chance():
    assert "rose from 5.0" in told([evaluated(0, 2), evaluated(9, 30)])
    assert "fell from 75.0" in told([evaluated(0, 30), evaluated(9, 2)])
    assert "did not change beyond chance: 5.0" in told([evaluated(0, 2), evaluated(9, 3)])


def test_a_change_of_the_score_is_told_task_by_task():
    same = [f"h{n}" for n in range(40)]
    before, after = (
        Evaluation(
            version=version,
            scores=tuple(
                TaskScore(task_id=task_id, turns_passed=int(n < count), turns_total=1)
                for n, task_id in enumerate(same)
            ),
            errors=0,
            wall_s=1.0,
        )
        for version, count in ((0, 20), (9, 30))
    )
    change = "on 40 tasks: +25.0 \N{PLUS-MINUS SIGN} 6.9 points, task by task. "
    error = "\N{PLUS-MINUS SIGN} is one standard error over the choice of tasks, not over seeds."
    assert change + error in told([before, after])
    other = msgspec.structs.replace(after, scores=after.scores[1:])
    assert "task by task" not in told([before, other])


def test_the_warm_start_and_the_gain_of_the_loop_are_told_apart():
    ended = WarmStartEnded(reason="steps", ready=1, skills=4)
    counts = {"stage/skills_ready": 1.0, "stage/skills": 4.0}
    warm = msgspec.structs.replace(
        stepped(1), stage="warm_start", warm_start_ended=ended, metrics=counts
    )
    text = told([evaluated(0, 2), warm, evaluated(1, 20), stepped(2), evaluated(2, 30)])
    assert "Warm start: 1 step, its maximum; 1 of 4 skills succeed in 5 % of attempts. " in text
    assert "before (version 0), 50.0 \N{PLUS-MINUS SIGN} 7.6 % after the warm start" in text
    assert "(version 2). Gain of the loop: +25.0 \N{PLUS-MINUS SIGN} 6.9 points, task by" in text
    assert "Warm start" not in told([evaluated(0, 2), stepped(1), evaluated(1, 20)])


@pytest.mark.parametrize(
    ("waited", "computed", "verdict"),
    [
        (5.5, 4.5, "55.0 % of its time and computed 45.0 %: nearly balanced. "),
        (9.0, 1.0, "90.0 % of its time and computed 10.0 %: groups came slower than it trained. "),
        (1.0, 9.0, "10.0 % of its time and computed 90.0 %: it was the slower. "),
    ],
)
def test_how_the_learner_spent_its_time_is_a_finding(waited: float, computed: float, verdict: str):
    times = {"timing_s/wait": waited, "timing_s/update_actor": computed}
    text = told([msgspec.structs.replace(stepped(1), metrics=times)])
    assert f"The learner waited for groups of rollouts {verdict}The wait includes" in text


def test_a_learner_that_spent_its_time_on_neither_has_no_such_finding():
    times = {"timing_s/wait": 1.0, "timing_s/save_weights": 3.0}
    assert "waited" not in told([msgspec.structs.replace(stepped(1), metrics=times)])


def solved(version: int, count: int) -> Evaluation:
    """Return 40 scores of the task with the skill ls alone."""
    scores = (
        TaskScore(task_id="h1", turns_passed=int(n < count), turns_total=1) for n in range(40)
    )
    return Evaluation(version=version, scores=tuple(scores), errors=0, wall_s=1.0)


def test_that_memorization_was_not_measured_is_a_caveat():
    text = told([solved(0, 1), solved(20, 1)])
    assert "Memorization was not measured" in text
    assert "Memorization" not in told([solved(0, 1)])


def measured(*, held_out: Sequence[int], trained: Sequence[int]) -> Evaluation:
    """Return an evaluation with all tasks solved as given, and with these results elsewhere."""

    def score(name: str, passed: int) -> TaskScore:
        return TaskScore(task_id=name, turns_passed=passed, turns_total=1)

    sides = {"h": held_out, "t": trained}
    fresh = [score(f"{s}{n}~1", x) for s, passed in sides.items() for n, x in enumerate(passed)]
    return Evaluation(
        version=20,
        scores=tuple(score(f"h{n}", 1) for n in range(40)),
        trained=tuple(score(f"t{n}", 1) for n in range(40)),
        instances=tuple(fresh),
        errors=0,
        wall_s=1.0,
    )


def test_memorization_is_the_gap_of_trained_tasks_minus_that_of_held_out_ones():
    both = measured(held_out=[1] * 30 + [0] * 10, trained=[1] * 10 + [0] * 30)
    assert "Minus the gap of held-out tasks, +50.0 ± 9.8 points are memorization. " in told([both])
    same = measured(held_out=[1] * 10 + [0] * 30, trained=[1] * 10 + [0] * 30)
    assert "+0.0 ± 9.8 points are memorization, within chance. " in told([same])
    alone = measured(held_out=[], trained=[1] * 10 + [0] * 30)
    assert "the gap of held-out tasks is not known, so this is not memorization" in told([alone])


def test_a_skill_that_training_hardly_ever_solves_is_still_weak():
    groups = [evolving.visit("seed-1", 0, version=version) for version in range(20)]
    once = evolving.visit("seed-1", 1, version=20)
    text = told([evolving.seed(), *groups, once])
    assert "Still weak, in the newest 20 groups of the skill: cd (1 of 160 rollouts; 21 gro" in text
    assert "about it, 0 tasks admitted from these; 0 made tasks in all exercise it)" in text
    assert "Still weak" not in told([evolving.seed(), *groups[1:]])
    solved = [evolving.visit("seed-1", 4, version=version) for version in range(20)]
    assert "Still weak" not in told([evolving.seed(), *solved])


def test_a_skill_that_nothing_ever_solved_is_named_and_not_as_weak():
    groups = [evolving.visit("seed-1", 0, version=version) for version in range(20)]
    text = told([evolving.seed(), *groups])
    assert (
        "Never solved, at no version, 2 skills: cd (0 of 160 rollouts in training, no held-out "
        "attempt came to it; 20 groups; 0 signals about it" in text
    )
    assert "Still weak" not in text
    assert "Never solved" not in told([evolving.seed(), groups[0]])  # 8 attempts are too few
    assert "1 skill: cd" in told([evolving.seed(), *groups, scored(0, 1, 0)])  # `ls`, held out


def test_a_skill_that_was_never_solved_and_is_that_of_a_suspect_task_says_so():
    groups = [evolving.visit("seed-1", 0, version=version) for version in range(20)]
    found = replace(data([evolving.seed(), *groups]), suspects={"seed-1": SUSPECT})
    text = parsed(findings_section(found)).text
    assert (
        "cd (0 of 160 rollouts in training, no held-out attempt came to it; 20 groups; 0 signals "
        "about it, 0 tasks admitted from these; 0 made tasks in all exercise it; of its 1 training "
        "task, 1 is suspect: seed-1; such a skill may come from a wrong task)" in text
    )
    assert "ls (0 of 160 rollouts in training, no held-out attempt came to it" in text
    assert text.count("is suspect") == 1  # the doubtful turn exercises `cd`, and not `ls`
    untested = replace(found, skills={"h1": ("ls",)})
    assert "cd (0 of 160 rollouts in training, no held-out task has it; 20 gr" in (
        parsed(findings_section(untested)).text
    )


def test_a_skill_that_succeeds_in_training_and_never_on_held_out_tasks_is_named():
    story = [evolving.seed(), evolving.visit("seed-1", 4)]
    text = told([*story, solved(0, 0)])
    assert (
        "Never solved on held-out tasks, at no version, 1 skill: ls (0 of 40 attempts; 50 % "
        "[22, 78], 4/8 in its newest groups in training; 1 group; 0 signals about it" in text
    )
    assert "Never solved" not in told([*story, solved(0, 0), solved(20, 1)])


def test_the_skills_that_are_lowest_on_held_out_tasks_are_named():
    pairs = [("h1", 1, 1)] * 60 + [("h2", 1, 3)] * 40  # of `h2`, `ls` passes and `cd` fails
    scores = tuple(
        TaskScore(task_id=name, turns_passed=passed, turns_total=total)
        for name, passed, total in [*pairs, *[("h2", 2, 3)] * 4]
    )
    text = told([Evaluation(version=20, scores=scores, errors=0, wall_s=1.0)])
    assert (
        "Lowest on held-out tasks at version 20, beyond chance below all skills together (71 %), "
        "1 skill: cd (9 % [4, 21], 4/44). Success by" in text
    )
    assert "Lowest" not in told([solved(0, 0)])  # then it is never solved


def test_what_was_forgotten_is_told_with_what_was_done_about_it():
    text = told(whole_story())
    assert "Forgotten at step" in text
    assert (
        "on one task (ls, cd): success dropped from 75 % [41, 93], 6/8 to 12 % [2, 47], 1/8."
        in text
    )
    assert "8/8, not below that, beyond chance; it was last tried at version 7. In order" in text
    assert (
        "On held-out tasks, at the newest version: ls 2/2, cd 1/1; none of them ever fell beyond "
        "chance. The signal" in text
    )
    lost = told([*whole_story(), *of_one_skill(38, 20)])
    assert "at the newest version: ls 20/40, cd 1/1; ls fell there beyond chance. " in lost
    assert (
        "Then: 3 candidates made from it, 1 admitted; the newest groups of the task since then:"
        in text
    )


def test_the_order_of_training_and_recovery_is_told_without_a_claim_about_the_cause():
    order = (
        "In order: flagged at step 3; the task itself trained on at steps 7, 9; tasks made from "
        "the signal trained on at steps 7, 8, 9; a first group within chance of its earlier "
        "success at version 7 (8/8). The order alone does not show what helped."
    )
    assert order in told(whole_story())
    assert order in parsed(lives_data(data(whole_story()))["signal-s1"]).text
    early = whole_story()[: whole_story().index(evolving.visit("seed-1", 8, version=7))]
    assert "trained on at no step since; no group since is within chance of" in told(early)


def test_a_group_that_is_a_little_below_its_earlier_success_is_within_chance_of_it():
    story = whole_story()
    story[story.index(evolving.visit("seed-1", 8, version=7))] = evolving.visit("seed-1", 5, 7)
    assert "a first group within chance of its earlier success at version 7 (5/8)." in told(story)


OPENED = (RunStarted(run_id="r", config="{}"),)


def test_alarms_discards_and_restarts_are_findings():
    stalled = Stalled(quiet_s=60.0, waiting=("learner waits",))
    text = told([stepped(1), stalled, PartFailed(part="rollout-0", reason="killed")])
    assert "Alarm after step 1: no progress for 60 s: learner waits." in text
    assert "Parts were restarted, 1 time: rollout-0 (1)." in text
    assert "No alarm" not in text
    assert "No alarm and no restart is on record" in told([stepped(1)])
    resumed = told([*OPENED, stepped(1), RunResumed(run_id="r", config="{}"), stepped(2)])
    assert "The run was resumed, 1 time." in resumed
    assert "no restart" not in resumed
    assert "No alarm and no restart is on record" in told([*OPENED, stepped(1)])
    assert "1 of 8 groups (12.5 %) were discarded before any step: 1 stale." in told(whole_story())


def test_what_the_guard_saw_is_a_finding():
    def canaries(version: int, passed: int) -> CanaryScores:
        scores = tuple(
            TaskScore(task_id=f"c{n}", turns_passed=int(n < passed), turns_total=1)
            for n in range(20)
        )
        return CanaryScores(version=version, scores=scores, errors=0)

    assert "The guard" not in told([canaries(0, 5)])
    text = told([canaries(0, 5), canaries(10, 15), canaries(20, 13), canaries(30, 15)])
    assert (
        "The guard scored 4 versions on 20 canary tasks, and returned to an earlier version 0 "
        "times. The largest fall is 10 points, from 75.0 % at version 10 to 65.0 % at version 20: "
        "no loss by its rule. " in text
    )
    assert "No version scored below an earlier one." in told([canaries(0, 5), canaries(10, 15)])
    loss = PolicyRegressed(
        version=20,
        score=0.1,
        best_version=10,
        best_score=0.75,
        lost=13,
        gained=0,
        canaries=20,
        chance=0.001,
        action="return",
    )
    text = told([canaries(0, 5), canaries(10, 15), canaries(20, 2), loss])
    assert "returned to an earlier version 1 time. The largest fall is 65 points" in text
    assert "to 10.0 % at version 20: a loss by its rule. " in text


def test_the_shares_of_the_sources_of_gradient_stand_together():
    metrics = {
        "source/objective/tokens": 30.0,
        "source/replay/tokens": 70.0,
        "source/replay/rows": 5.0,
        "source/objective/movement_share": 0.06,
        "gradient_noise/scale_groups": 100.0,
    }
    step = msgspec.structs.replace(stepped(1, ("seed-1", 4)), metrics=metrics)
    loud = msgspec.structs.replace(
        stepped(2, ("seed-1", 4)), metrics={**metrics, "gradient_noise/scale_groups": 9000.0}
    )
    found = data([step, step, loud])
    assert (
        "The steps learned from policy gradient: 100.0 % of the groups, 30.0 % of the tokens; "
        "replay: 70.0 % of the tokens. Replay imitates references of earlier steps again. Of the "
        "weights' movement the policy gradient made 6.0 %. A share does not say"
        in parsed(findings_section(found)).text
    )
    text = parsed(teaching_section(found)).text
    assert "imitation and replay together 94.0 %, as they share an optimizer." in text
    assert "replay5 references per step70.0 %0" in text
    assert "newest, groups9,000" in text
    assert "gradient noise scale, median of 3 steps, groups100" in text
    assert "The steps learned from" not in told([stepped(1, ("seed-1", 4))])  # one source alone
    assert "movement the" not in parsed(teaching_section(data([stepped(1)]))).text


def test_contamination_and_the_choice_of_the_best_version_are_caveats():
    refused = Refused(gate="contaminated", found="turn 1 is like a held-out task")
    story = [evolving.seed(), evolving.signal("s"), evolving.settled("s", candidates=1)]
    story += [evolving.candidate("c", "s"), evolving.verdict("c", "s", refused)]
    assert "Refused as contaminated, 1 candidate, as training on such tasks" in told(story)
    scores = tuple(TaskScore(task_id=f"c{n}", turns_passed=1, turns_total=1) for n in range(9))
    canaries = CanaryScores(version=9, scores=scores, errors=0)
    assert "which did not choose it" in told([evaluated(9, 20), canaries])


def test_contaminated_candidates_are_counted_by_rule():
    reasons = ("similarity 0.91 to a held-out task", "similarity 1.00 to a held-out task")
    others = ("it shares its requests", "ls, then cd: only held out", "cd, then rm: only held out")
    story: list[Message] = [evolving.seed(), evolving.signal("s")]
    for place, found in enumerate((*reasons, *others, "cd, then ls: only held out")):
        story.append(evolving.candidate(f"c{place}", "s"))
        refused = Refused(gate="contaminated", found=found)
        story.append(evolving.verdict(f"c{place}", "s", refused))
    assert (
        "Refused as contaminated, 6 candidates, as training on such tasks would spoil the held-out "
        "score; by rule: only held out (3), similarity of 0.80 or more to a held-out task (2), it "
        "shares its requests (1). The page" in told(story)
    )
    text = parsed(candidates_section(data(story))).text
    assert "All 6 that the journal has." in text
    assert "only held out3similarity of 0.80 or more to a held-out task2" in text


def test_suspect_tasks_are_named_and_shown_unless_their_content_is_withheld():
    found = replace(data(whole_story()), suspects={"seed-1": SUSPECT})
    text = parsed(page(found)).text
    assert (
        "same other call than the reference, though the skill is solved elsewhere: seed-1 (cd)."
        in text
    )
    assert "Suspect tasks of skills" not in text
    assert "seed0 of 163Turn 2 of 2Go to docs.cd('x')cd('y')Nothing solved it." in text
    hidden = parsed(page(replace(found, withheld="The licence forbids it"))).text
    assert "Turn 2 of 2not shownnot shownnot shownNothing" in hidden
    assert "A file does not hold them. The licence forbids it." in hidden


def test_suspects_whose_skill_nothing_ever_solved_stand_apart():
    messages = [evolving.seed(), evolving.visit("seed-1", 0)]
    found = replace(data(messages), suspects={"seed-1": SUSPECT})
    assert (
        "Rather never learned than wrong, as nothing solved their skill"
        in parsed(findings_section(found)).text
    )
    text = parsed(page(found)).text
    assert "Suspect tasks of skills that are never solved" in text
    other = evolving.visit("seed-2", 1)
    found = replace(data([*messages, evolving.seed("seed-2"), other]), suspects={"seed-1": SUSPECT})
    assert "Suspect tasks of skills" not in parsed(page(found)).text


def test_the_life_of_a_suspect_is_the_first_that_a_page_holds():
    found = replace(data(whole_story()), suspects={"seed-1": SUSPECT})
    assert next(iter(lives_data(found))) == "task-seed-1"
    made = replace(SUSPECT, task_id="made-1")
    found = replace(data(whole_story()), suspects={"made-1": made})
    assert list(lives_data(found))[:2] == ["task-made-1", "signal-s1"]
    assert next(iter(lives_data(data(whole_story())))) == "task-made-1"


def test_a_run_without_the_rule_for_forgetting_does_not_say_that_nothing_was_forgotten():
    signals = msgspec.structs.replace(data([]).config.signals, kinds=("rare",))
    config = msgspec.structs.replace(data([]).config, signals=signals)
    found = data([evolving.seed(), evolving.visit("seed-1", 3)], config)
    assert "forgotten" not in parsed(findings_section(found)).text


def of_one_skill(*passed: int) -> list[Message]:
    """Return scores of 40 held-out tasks with the skill `ls`, one version each 20 steps."""
    return [solved(20 * place, count) for place, count in enumerate(passed)]


def test_the_largest_loss_of_a_skill_is_named_with_its_versions():
    text = told(of_one_skill(4, 38, 20, 36))
    assert "ls fell by 45 points, from 38/40 at version 20 to 20/40 at version 40; " in text
    assert "36/40 at version 60, the newest, it is not below that, beyond chance" in text
    assert "No signal of forgetting is about a training task with it." in text
    assert "Largest loss" not in told(of_one_skill(30, 38, 36))
    stays = of_one_skill(38, 20)
    assert "ls (95 to 50 %, version 0 to 20)" in told(stays)
    assert "38/40 at version 0 to 20/40 at version 20" in parsed(skills_section(data(stays))).text


def test_a_loss_that_no_rule_saw_stands_beside_the_sentence_that_nothing_was_forgotten():
    messages = [evolving.seed(), evolving.visit("seed-1", 3), *of_one_skill(38, 20)]
    words = "On held-out tasks skills fell all the same: ls. "
    assert words in told(messages)
    also = [*messages, evolving.signal("s", kind="rare", pattern="cd")]
    assert words in parsed(weaknesses_section(data(also))).text
    assert "all the same" not in told([*messages[:2], *of_one_skill(38, 38)])


def test_a_loss_that_training_saw_too_links_to_the_signal():
    text = told([*whole_story(), *of_one_skill(38, 20)])
    assert "Forgotten on training tasks with it: s1." in text


def test_why_a_group_gives_a_gradient_follows_the_settings():
    found = data([stepped(1, ("seed-1", 4))])
    assert "imitates the reference if all fail." in parsed(pool_section(found)).text
    learner = msgspec.structs.replace(
        found.config.learner, imitation=ImitationConfig(weight=0.0), credit="turn"
    )
    config = msgspec.structs.replace(found.config, learner=learner)
    text = parsed(pool_section(data([stepped(1, ("seed-1", 4))], config))).text
    assert "Imitation is off (learner.imitation.weight: 0). " in text
    assert "turn by turn (learner.credit: turn)" in text
