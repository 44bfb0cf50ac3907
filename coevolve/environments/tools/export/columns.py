"""The type of a column of chats, as `tools.export.conversation` makes them."""

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
"""A field that a message lacks is null."""
