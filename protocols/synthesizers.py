"""Which model synthesizes, and what it is handed."""

from typing import Annotated, Literal

import msgspec

from protocols.numbers import Dollars, Seconds, Temperature, Tokens, Tries

Url = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]\\]+)(:[0-9]{1,5})?(/[^\s?#@]*)?\Z",
        description="a URL that begins with http:// or https://, without user, password and query",
    ),
]
"""A server's address. It is printed and recorded, so it may hold no credentials."""

Variable = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?\Z", description="the name of an environment variable"
    ),
]


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
    """Which weights synthesize. ``start``: those that the run began with; training does not wear
    them down. ``newest``: the version that rollouts use."""

    temperature: Temperature = 1.0
    """Sampling temperature. Below 1 the policy's wording looks surer than it is, and wrong
    instructions are believed."""


class EndpointModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="endpoint",
):
    """A model behind an OpenAI-compatible server."""

    base_url: Url
    """Address of the server, for example ``http://127.0.0.1:8000/v1``. It is recorded, so a key
    does not belong into it: ``key_variable`` names the variable that holds the key."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    """Name of the model, as the server has it."""

    key_variable: Variable = ""
    """Environment variable that holds the key, in the process that asks the model; one that is
    named has to be set. Empty for ``OPENAI_API_KEY``, which may be unset for servers that want no
    key. The key itself is never recorded."""

    temperature: Temperature = 0.7
    """Sampling temperature that the server is asked for; 0 is greedy."""

    max_answer_tokens: Tokens = 2048
    """Maximum tokens of one answer."""

    timeout_s: Seconds = 120.0
    """Seconds that one call may take."""

    tries: Tries = 4
    """Attempts at one call. Between two of them the client waits as long as the server's
    Retry-After says, or else twice as long each time."""

    usd_per_million_prompt_tokens: Dollars = 0.0
    """Price of prompts, in US dollars, to count the cost; 0 counts none."""

    usd_per_million_answer_tokens: Dollars = 0.0
    """Price of answers, in US dollars, to count the cost; 0 counts none."""


SynthesizerModel = PolicyModel | EndpointModel


class NoReader(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="none",
):
    """Nobody reads the instructions of candidates."""


class SynthesizerReader(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="synthesizer",
):
    """The model of ``synthesizer.model``, which does not see what it wrote as a synthesizer.

    An endpoint is asked. The tiny policy says how probable an instruction's wording is for its
    calls; where it is not, the candidate is admitted only if the policy solves it.
    """


ReaderModel = NoReader | SynthesizerReader | EndpointModel
