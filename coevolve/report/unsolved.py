"""What nothing ever solved: skills, and suspect tasks by whether their skill is one of these."""

from collections import defaultdict
from dataclasses import dataclass

from coevolve.history.differences import Suspect
from coevolve.history.run_history import RunHistory, skills_of
from coevolve.report.sections.success import held_out_by_skill


@dataclass(frozen=True)
class Attempts:
    """Attempts at a skill, none of which succeeded."""

    trained: int
    """Rollouts in training, on tasks with the skill."""

    held_out: int
    """Attempts at it on held-out tasks, at all scored versions."""

    @property
    def all(self) -> int:
        """Both together."""
        return self.trained + self.held_out


def never_solved(data: RunHistory) -> dict[str, Attempts]:
    """Return the attempts at each skill that was attempted, and never with success.

    In training a skill is solved if a rollout of a task with it succeeded; on held-out tasks, if
    its turn passed.
    """
    trained: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    held_out: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for task_id, task in data.evolution.tasks.items():
        groups = data.evolution.history(task_id).groups
        for skill in skills_of(data, task):
            trained[skill][0] += groups.successes
            trained[skill][1] += groups.rollouts
    for (skill, _), (passed, reached) in held_out_by_skill(data).items():
        held_out[skill][0] += passed
        held_out[skill][1] += reached
    found: dict[str, Attempts] = {}
    for skill in sorted({*trained, *held_out}):
        attempts = Attempts(trained[skill][1], held_out[skill][1])
        if attempts.all and not trained[skill][0] and not held_out[skill][0]:
            found[skill] = attempts
    return found


@dataclass(frozen=True)
class Doubt:
    """Suspect tasks with the same reason for the doubt."""

    finding: str
    """The beginning of a sentence that goes on with the tasks."""

    title: str
    note: str
    suspects: list[Suspect]


def doubts(data: RunHistory) -> list[Doubt]:
    """Return the suspect tasks by reason, the most telling first; no reason without tasks."""
    unsolved = never_solved(data).keys()
    wording, contradicted, unlearned = list[Suspect](), list[Suspect](), list[Suspect]()
    for each in data.suspects.values():
        if each.by == "wording":
            wording.append(each)
        elif unsolved & doubted_skills(data, each):
            unlearned.append(each)
        else:
            contradicted.append(each)
    every = (
        Doubt(
            "Possibly wrong, as other tasks use the same wording for other work: ",
            "Suspect tasks, by their wording",
            "Other tasks use the same wording for other work. Either this task's reference is "
            "wrong, or that of the others: read the task.",
            wording,
        ),
        Doubt(
            "Wrong, or not learned yet: nothing solved them, and all rollouts of the newest group "
            "make the same other call than the reference, though the skill is solved elsewhere: ",
            "Suspect tasks, by their rollouts",
            "A weaker doubt. No rollout ever solved these, and all rollouts of the newest group "
            "make the same other call, which the simulator accepts, though their skill is solved "
            "on other tasks. A policy that makes one mistake each time looks the same as a wrong "
            "task: read the task.",
            contradicted,
        ),
        Doubt(
            "Rather never learned than wrong, as nothing solved their skill on any task, and all "
            "rollouts agree on another call than the reference: ",
            "Suspect tasks of skills that are never solved",
            "As above, but nothing ever solved the skill of the turn that fails, on any task: "
            "rather the policy never learned the right call.",
            unlearned,
        ),
    )
    return [each for each in every if each.suspects]


def doubted_skills(data: RunHistory, suspect: Suspect) -> set[str]:
    """Return the skill of the doubtful turn, or all if the task has not one for each turn."""
    task = data.evolution.tasks[suspect.task_id]
    by_turn = data.describe(task).skills or task.skills
    if len(by_turn) == suspect.turns:
        return {by_turn[suspect.turn - 1]}
    return set(skills_of(data, task))
