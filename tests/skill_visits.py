"""Summaries of groups that attempted one skill."""

from protocols.evolution import GroupSummary, SkillCount


def skill_visit(
    number: int, skill: str, passed: int, *, rollouts: int = 8, per_version: int = 8
) -> GroupSummary:
    """Return the visit with this number, of which each policy version makes so many."""
    return GroupSummary(
        group_id=f"g{number}",
        group=number,
        task_id=skill,
        root=skill,
        version_min=number // per_version,
        version_max=number // per_version,
        successes=passed,
        rollouts=rollouts,
        errors=0,
        surprise=0.0,
        sampled_tokens=0,
        calls=0,
        skills=(SkillCount(skill=skill, passed=passed, attempts=rollouts),),
        evidence=(number,),
    )
