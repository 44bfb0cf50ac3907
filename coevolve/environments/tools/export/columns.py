"""The type of a column of chats, as `tools.export.conversation` tells them."""

# pyarrow is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import pyarrow as pa

_FUNCTION = pa.struct([("name", pa.string()), ("arguments", pa.string())])
_CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", _FUNCTION)])

MESSAGES: Any = pa.list_(
    pa.struct(
        [
            ("role", pa.string()),
            ("content", pa.string()),
            ("tool_calls", pa.list_(_CALL)),
            ("tool_call_id", pa.string()),
        ]
    )
)
"""What a message has not is null."""
