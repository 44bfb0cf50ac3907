"""The pool's tasks as prompts for reinforcement learning with verl.

Columns are verl's own: `data_source`, `prompt` (the first instruction), `ability`, `reward_model`
with `style` and `ground_truth` (JSON: the reference calls by turn), and `extra_info` with `split`,
`index`, `task_id`, `tools` (JSON) and `task` (JSON: world and further turns).

Rewards come from executing calls in the task's world; a reward function has to do that.
"""

# pyarrow is partly untyped.
# pyright: reportUnknownMemberType=false

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from coevolve.environments.tools.export.conversation import instruction
from coevolve.environments.tools.export.tools import tools_json
from coevolve.environments.tools.task import tool_task
from coevolve.export.parquet import writing
from coevolve.export.source import Source

COLUMNS: dict[str, Any] = {
    "data_source": pa.string(),
    "prompt": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
    "ability": pa.string(),
    "reward_model": pa.struct([("style", pa.string()), ("ground_truth", pa.string())]),
    "extra_info": pa.struct(
        [
            ("split", pa.string()),
            ("index", pa.int64()),
            ("task_id", pa.string()),
            ("tools", pa.string()),
            ("task", pa.string()),
        ]
    ),
}


async def write(source: Source, path: Path) -> str:
    """Write the table to ``path`` and return a description of it."""
    with writing(path, COLUMNS) as table:
        for index, task in enumerate(source.tasks.values()):
            body = tool_task(task)
            truth = [turn.reference for turn in body.turns]
            table.add(
                {
                    "data_source": f"coevolve/{source.config.uses}",
                    "prompt": [msgspec.to_builtins(instruction(body))],
                    "ability": "tool_use",
                    "reward_model": {"style": "rule", "ground_truth": json.dumps(truth)},
                    "extra_info": {
                        "split": task.split,
                        "index": index,
                        "task_id": task.task_id,
                        "tools": tools_json(body),
                        "task": msgspec.json.encode(body).decode(),
                    },
                }
            )
    return f"{table.count} tasks"
