"""The stages of training on designs: which stage a group belongs to, and who writes in it.

Source: LLM4Cov (arXiv 2602.16953), section 3: in a stage one model makes the states and another one
writes the testbenches that training uses; each stage continues from the weights of the one before.
The length of a stage is in groups, so a group's number determines its stage.
"""

from collections.abc import Sequence

from coevolve.environments.hdl.config import StageConfig
from protocols.rollouts import Writer


def stage_of(stages: Sequence[StageConfig], group: int) -> int:
    """Return the index of the stage of the group with number ``group``."""
    for index, stage in enumerate(stages[:-1]):
        if group < stage.groups:
            return index
        group -= stage.groups
    return len(stages) - 1


def writer_of(stage: StageConfig, round_: int) -> Writer:
    """Return the writer of a round on a design; rounds are counted from 0."""
    return stage.writers[min(round_, len(stage.writers) - 1)]


def is_learned_from(stage: StageConfig, writer: Writer) -> bool:
    """Return whether training uses the steps of ``writer``; else they only make states."""
    return writer == stage.writers[-1]


def teaches_itself(stages: Sequence[StageConfig]) -> bool:
    """Return whether every stage trains on the policy's own steps, and none on those of others."""
    return all(is_learned_from(stage, "policy") for stage in stages)
