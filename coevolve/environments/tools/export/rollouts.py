"""Rollouts as a table: each with its chat, its reward and its original tokens.

Columns: `sequence` (of the journal), `group_id`, `group`, `index`, `task_id`, `instance` (0 if the
task was attempted as given), `seed`, `reward`,
`turns_passed`, `turns_total`, `ended`, `version_min` and `version_max` (of the policy versions
that wrote it), `wall_s`, `messages`, `tools` (JSON), `written` (each message of the policy as its
tokenizer decodes it, special tokens included), and the token columns `token_ids`, `mask` (1 on
the policy's tokens), `logprobs` (under the distribution that was sampled from), `versions` and
`cache_versions` (the oldest version whose keys and values a token was sampled over). All token
columns have the same length. They hold the rollout's conversations one after another, and
`conversation_tokens` has the number of tokens of each.

The token columns are copies of the journal's; `messages` and `written` are decoded from them.
The table has no failed rollouts, and none that retention removed from the journal.
"""

# pyarrow is partly untyped.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from coevolve.environments.tools.export.columns import MESSAGES
from coevolve.environments.tools.export.conversation import chat
from coevolve.environments.tools.export.decoding import transcriber_of
from coevolve.environments.tools.export.tools import tools_json
from coevolve.environments.tools.task import tool_task
from coevolve.export.parquet import writing
from coevolve.export.source import Source
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import whole_topic
from coevolve.journal.task_cache import TaskCache
from protocols.rollouts import Rollout, Tokens
from protocols.tasks import attempted

PLAIN = (
    *("group_id", "group", "index", "task_id", "instance", "seed", "reward", "turns_passed"),
    *("turns_total", "ended", "version_min", "version_max", "wall_s"),
)
"""Fields of a rollout that become columns without change."""

COLUMNS: dict[str, Any] = {
    "sequence": pa.int64(),
    "group_id": pa.string(),
    "group": pa.int64(),
    "index": pa.int32(),
    "task_id": pa.string(),
    "instance": pa.int64(),
    "seed": pa.int64(),
    "reward": pa.float64(),
    "turns_passed": pa.int32(),
    "turns_total": pa.int32(),
    "ended": pa.string(),
    "version_min": pa.int32(),
    "version_max": pa.int32(),
    "wall_s": pa.float64(),
    "messages": MESSAGES,
    "tools": pa.string(),
    "written": pa.list_(pa.string()),
    "token_ids": pa.list_(pa.int32()),
    "mask": pa.list_(pa.uint8()),
    "logprobs": pa.list_(pa.float32()),
    "versions": pa.list_(pa.int32()),
    "cache_versions": pa.list_(pa.int32()),
    "conversation_tokens": pa.list_(pa.int32()),
}


async def write(source: Source, path: Path) -> str:
    """Write the table to ``path`` and return a description of it."""
    transcriber = transcriber_of(source.config)
    tasks = TaskCache(source.reader, tool_task)
    with writing(path, COLUMNS) as table:
        async for record in whole_topic(source.reader, topic_of(Rollout)):
            rollout = decode_as(record, Rollout)
            if rollout.task_id not in source.tasks:
                continue
            body = await tasks.get(attempted(rollout.task_id, rollout.instance))
            messages = chat(body, tuple(transcriber.said(rollout)))
            table.add(
                {name: getattr(rollout, name) for name in PLAIN}
                | _columns(rollout.conversations)
                | {
                    "sequence": record.sequence,
                    "messages": msgspec.to_builtins(messages),
                    "tools": tools_json(body),
                    "written": transcriber.written(rollout),
                }
            )
    return f"{table.count} rollouts"


def _columns(conversations: Sequence[Tokens]) -> dict[str, Any]:
    def joined(column: Callable[[Tokens], bytes], dtype: Any) -> Any:
        return np.frombuffer(b"".join(map(column, conversations)), dtype=dtype)

    return {
        "token_ids": joined(lambda each: each.token_ids, np.int32),
        "mask": joined(lambda each: each.mask, np.uint8),
        "logprobs": joined(lambda each: each.logprobs, np.float32),
        "versions": joined(lambda each: each.versions, np.int32),
        "cache_versions": joined(lambda each: each.cache_versions or each.versions, np.int32),
        "conversation_tokens": [each.count for each in conversations],
    }
