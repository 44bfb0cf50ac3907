"""The tables that can be exported from a run whose policy calls tools."""

from collections.abc import Mapping

from coevolve.export.exporter import Exporter

EXPORTERS: Mapping[str, Exporter] = {
    "pool": Exporter(
        about="the training tasks with references, lineage, weights and status, as parquet",
        file="train.parquet",
        module="coevolve.environments.tools.export.pool",
    ),
    "rollouts": Exporter(
        about="the rollouts with their chats, rewards and tokens, as parquet",
        file="train.parquet",
        module="coevolve.environments.tools.export.rollouts",
    ),
    "sft": Exporter(
        about="successful rollouts and references for supervised fine-tuning, as JSON lines",
        file="train.jsonl",
        module="coevolve.environments.tools.export.sft",
    ),
    "verl": Exporter(
        about="the training tasks as verl's prompts for RL, as parquet",
        file="train.parquet",
        module="coevolve.environments.tools.export.verl",
    ),
}
