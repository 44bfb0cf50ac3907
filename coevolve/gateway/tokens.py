"""Requests that are token ids, and their answers, as vLLM's ``/inference/v1/generate`` has them.

A client that renders conversations itself sends all tokens of one each time. What begins with the
tokens of a known conversation continues it.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from coevolve.gateway.messages import (
    IGNORED,
    Chat,
    ChatRequest,
    Counted,
    RefusedError,
    Said,
    converted,
    decoded,
)

TokenId = Annotated[int, msgspec.Meta(ge=0)]


class _Parameters(msgspec.Struct, frozen=True):
    max_tokens: Counted | None = None
    n: int | None = None
    stop: Any = None
    structured_outputs: Any = None


class _Request(msgspec.Struct, frozen=True):
    token_ids: Annotated[tuple[TokenId, ...], msgspec.Meta(min_length=1)]
    sampling_params: _Parameters = _Parameters()
    stream: bool | None = None


def read_tokens(body: bytes) -> Chat:
    """Return the request in a body. Raises RefusedError."""
    given = decoded(body)
    request = converted(given, _Request)
    wanted = request.sampling_params
    for name, is_unknown in (
        ("n", wanted.n not in (None, 1)),
        ("stop", bool(wanted.stop)),
        ("structured_outputs", wanted.structured_outputs is not None),
        ("stream", bool(request.stream)),
    ):
        if is_unknown:
            raise RefusedError(f"a request of token ids needs to leave out {name}, found it")
    # Log probabilities are always told.
    names = (name for name in IGNORED if name != "logprobs")
    parameters: dict[str, Any] = given.get("sampling_params") or {}
    return Chat(
        request=ChatRequest(messages=(), max_tokens=wanted.max_tokens),
        messages=(),
        tools=(),
        ignored=tuple(name for name in names if parameters.get(name) not in (None, False)),
        token_ids=request.token_ids,
    )


def check_known(token_ids: Sequence[int], vocabulary: int) -> None:
    """Refuse tokens that the policy does not have. Raises RefusedError."""
    highest = max(token_ids)
    if highest >= vocabulary:
        raise RefusedError(f"token ids need to be below {vocabulary}, found {highest}")


def generated(said: Said, number: int) -> dict[str, Any]:
    """Return the attempt's message ``number`` in tokens, the one that ended it included."""
    generation = said.generation
    logprobs: list[dict[str, Any]] = [
        {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in zip(generation.token_ids, generation.logprobs, strict=True)
    ]
    choice: dict[str, Any] = {
        "index": 0,
        "token_ids": generation.token_ids,
        "logprobs": {"content": logprobs},
        "finish_reason": "stop" if generation.stopped else "length",
    }
    return {"request_id": f"gen-{number}", "choices": [choice], "prompt_logprobs": None}
