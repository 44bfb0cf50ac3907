"""Which model synthesizes, and what it is handed."""

from typing import Annotated, Literal

import msgspec

Price = Annotated[float, msgspec.Meta(ge=0.0)]


class PolicyModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="policy",
):
    """The policy itself, in its second role."""

    weights: Literal["start", "newest"] = "start"
    """``start``: those that the run began with, which training does not wear down. ``newest``: the
    version that rollouts use."""

    temperature: Annotated[float, msgspec.Meta(ge=0.0)] = 1.0
    """Below 1 the policy's wording looks surer than it is, and wrong instructions are believed."""


class EndpointModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="endpoint",
):
    """A model behind an OpenAI-compatible server."""

    base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/]+")]
    """For example ``http://127.0.0.1:8000/v1``."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    key_variable: str = ""
    """Environment variable that holds the key, in the process that asks the model; one that is
    named has to be set. Empty for ``OPENAI_API_KEY``, which may be unset for servers that want no
    key. The key itself is never recorded."""

    temperature: Annotated[float, msgspec.Meta(ge=0.0)] = 0.7
    max_answer_tokens: Annotated[int, msgspec.Meta(ge=1)] = 2048
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0)] = 120.0
    tries: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Attempts at one call; between them as long as the server's Retry-After says, or twice as long
    each time."""

    usd_per_million_prompt_tokens: Price = 0.0
    usd_per_million_answer_tokens: Price = 0.0


SynthesizerModel = PolicyModel | EndpointModel
