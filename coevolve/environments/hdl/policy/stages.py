"""The stages of training on designs: which group belongs to which, and who writes in it.

Source: LLM4Cov (arXiv 2602.16953), section 3: in a stage one model makes the states and another one
writes what is learned from them, and each stage goes on from the weights of the one before. Stages
are counted in groups, so which stage a group belongs to depends on its number alone.
"""

from collections.abc import Sequence

from coevolve.environments.hdl.config import StageConfig
from protocols.rollouts import Writer


def stage_of(stages: Sequence[StageConfig], group: int) -> int:
    """Return which stage the group with the number ``group`` belongs to, from 0."""
    for index, stage in enumerate(stages[:-1]):
        if group < stage.groups:
            return index
        group -= stage.groups
    return len(stages) - 1


def writer_of(stage: StageConfig, round_: int) -> Writer:
    """Return who writes in a round on a design, rounds counted from 0."""
    return stage.writers[min(round_, len(stage.writers) - 1)]


def is_learned_from(stage: StageConfig, writer: Writer) -> bool:
    """Return whether what ``writer`` writes is trained on, or only makes states."""
    return writer == stage.writers[-1]


def teaches_itself(stages: Sequence[StageConfig]) -> bool:
    """Return whether every stage trains on what the policy wrote, and none on what others did."""
    return all(is_learned_from(stage, "policy") for stage in stages)
