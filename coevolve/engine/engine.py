"""Continuous batching for causal language models of transformers: one token per row and tick.

Letters: R rows of a forward, Q tokens per row, T positions, V vocabulary.

Between requests, a conversation keeps its slot with the keys and values of its tokens; a request
then feeds only new tokens. If a prompt does not extend the cached tokens, the engine keeps the
common prefix and feeds the rest again. If another slot has a longer common prefix under the present
weights, the engine copies its keys and values: attempts at one task, and all tasks with the same
tools, share most of their prompts. Short continuations are fed one token per tick beside the
decoding rows. Many new tokens get a separate forward. Rows are the slots from 0 to the last active
one, so the cache is read without a copy. Computation for idle slots in between is wasted, so the
engine moves rows into them when more than a quarter is idle. If no slot is free, the engine evicts
the conversation that has been idle longest.

Keys and values stay after a change of weights: a request that continues under new weights attends
to keys and values of the old ones, as in other engines that swap weights in flight. Its tokens
record both versions.

Synchronous and single-threaded: `coevolve.engine.generator` runs it in a thread.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from coevolve.engine.fitting import checked
from coevolve.engine.grammars import GrammarTable
from coevolve.engine.kv_slots import SlotCache
from coevolve.engine.masks import Masks
from coevolve.engine.sampling import sample
from coevolve.models.load import cache_argument
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest

MAX_STOPS = 8
PREFILL_TOKENS = 64
"""Minimum number of new tokens, over all rows, that get a separate forward."""

CHUNK_TOKENS = 512
"""Maximum number of new tokens of one row in one forward."""

Indices = npt.NDArray[np.int64]
Ticket = TypeVar("Ticket")


class Engine(Generic[Ticket]):
    """The slots and the unfinished requests; a ticket identifies a request's owner."""

    def __init__(self, model: PreTrainedModel, slots: int, positions: int, version: int = 0):
        """Serve ``model`` to ``slots`` conversations of up to ``positions`` tokens each."""
        self._model = model
        self._cache = SlotCache(model.config, slots, positions, model.dtype)
        self._cache_name = cache_argument(model)
        self._table = np.zeros(slots, _row(positions))
        self._owners: list[str | None] = [None] * slots
        self._tickets: list[Ticket | None] = [None] * slots
        self._slot_of: dict[str, int] = {}
        """Conversations by name, least recently used first."""
        self._grammars = GrammarTable(model.config.get_text_config().vocab_size)
        self._masks = Masks(model.config, model.dtype, positions)
        self._version = version
        self.positions = positions

    @property
    def busy(self) -> bool:
        return bool(self._table["active"].any())

    def tickets(self) -> list[Ticket]:
        """Return the tickets of the unfinished requests."""
        return [ticket for ticket in self._tickets if ticket is not None]

    def start(self, ticket: Ticket, request: GenerationRequest) -> bool:
        """Start a request; return False if every slot is busy.

        Raises GeneratorError if the request cannot be served.
        """
        state = self._grammars.enter(request.grammar)
        slot = self._slot_of.get(request.conversation_id)
        if slot is not None and self._tickets[slot] is not None:
            raise GeneratorError(
                f"conversation {request.conversation_id!r} already has a request in flight; "
                "send a conversation's requests one after the other"
            )
        if slot is None:
            slot = self._free_slot()
            if slot is None:
                return False
            if self._table["first"][slot] != self._version:
                self._table["cached"][slot] = 0
        self._slot_of.pop(request.conversation_id, None)
        self._slot_of[request.conversation_id] = slot
        self._owners[slot] = request.conversation_id
        self._tickets[slot] = ticket
        self._fill(self._table[slot], request)
        self._table["state"][slot] = state
        return True

    def release(self, conversation_id: str) -> Ticket | None:
        """Drop a conversation; return the ticket of its unfinished request, if any.

        Its keys and values stay until another conversation takes the slot, which may share them.
        """
        slot = self._slot_of.pop(conversation_id, None)
        if slot is None:
            return None
        ticket = self._tickets[slot]
        self._owners[slot] = self._tickets[slot] = None
        self._table[slot]["active"] = False
        return ticket

    def swap_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Serve these weights from now on.

        ``weights`` has every parameter that is not tied, and the buffers that are stored in files.
        """
        own = dict(self._model.named_parameters()) | dict(self._model.named_buffers())
        with torch.no_grad():
            for name, tensor in weights.items():
                own[name].copy_(tensor)
        self._version = version

    @torch.inference_mode()
    def probe(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the served weights' logprobs of each row's tokens, except its first.

        They are natural-log probabilities at temperature 1, from a separate forward that uses no
        slot. Rows are padded at the end, which no token before attends to.
        """
        ids_R_T = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
        for row, token_ids in enumerate(rows):
            ids_R_T[row, : len(token_ids)] = torch.tensor(token_ids)
        output = cast("Any", self._model)(input_ids=ids_R_T[:, :-1], use_cache=False)
        logprobs_R_T_V = torch.log_softmax(output.logits.float(), dim=-1)
        logprobs_R_T = logprobs_R_T_V.gather(2, ids_R_T[:, 1:, None])[:, :, 0]
        listed = cast("list[list[float]]", logprobs_R_T.tolist())
        return [each[: len(row) - 1] for each, row in zip(listed, rows, strict=True)]

    @torch.inference_mode()
    def tick(self) -> list[tuple[Ticket, Generation | GeneratorError]]:
        """Advance every active row by a token, or more of its prompt; return finished requests."""
        table = self._table
        self._close_up()
        new_N = np.where(table["active"], table["known"] - table["cached"], 0)
        rows: Indices = np.flatnonzero(new_N > 1)
        if rows.size and int(new_N[rows].sum()) >= PREFILL_TOKENS:
            self._prefill(rows)
        finished = self._collect()
        active = np.flatnonzero(table["active"])
        if active.size:
            rows = np.arange(int(active[-1]) + 1)
            self._advance(rows, table["active"][rows].astype(np.int64), slice(rows.size))
            finished += self._collect()
        return finished

    def _prefill(self, rows: Indices) -> None:
        """Feed the new tokens of ``rows``: one row first, whose beginning others may share."""
        table = self._table
        for slot in rows:
            self._share(int(slot))
        new_R = table["known"][rows] - table["cached"][rows]
        first = rows[[int(new_R.argmax())]]
        if rows.size > 1 and int(new_R.max()) >= PREFILL_TOKENS:
            self._feed(first)
            rows = rows[rows != first]
            for slot in rows:
                self._share(int(slot))
        self._feed(rows)

    def _feed(self, rows: Indices) -> None:
        """Feed up to `CHUNK_TOKENS` new tokens of each row, in a forward of their own."""
        new_R = self._table["known"][rows] - self._table["cached"][rows]
        self._advance(rows, np.minimum(new_R, CHUNK_TOKENS), torch.from_numpy(rows))

    def _share(self, slot: int) -> None:
        """Copy the keys and values of a longer common prefix, if some slot has them."""
        table = self._table
        row = table[slot]
        most = int(row["known"]) - 1  # the last token is always fed: sampling needs its logits
        differs_N_T = table["tokens"][:, :most] != row["tokens"][:most]
        same_N = np.where(differs_N_T.any(axis=1), differs_N_T.argmax(axis=1), most)
        same_N = np.minimum(same_N, table["cached"])
        same_N[table["first"] != self._version] = 0
        source = int(same_N.argmax())
        if source != slot and same_N[source] >= int(row["cached"]) + PREFILL_TOKENS:
            self._cache.copy(source, slot, int(same_N[source]))
            row["cached"], row["first"] = same_N[source], self._version

    def _advance(self, rows: Indices, counts_R: Indices, view: slice | torch.Tensor) -> None:
        """Feed ``counts_R`` tokens of each row; sample in rows whose tokens are then all fed."""
        table = self._table
        logits_R_V = self._forward(rows, counts_R, view)
        begins_R = (counts_R > 0) & (table["cached"][rows] == 0)
        table["first"][rows[begins_R]] = self._version
        table["cached"][rows] += counts_R
        due = np.flatnonzero((counts_R > 0) & (table["cached"][rows] == table["known"][rows]))
        if not due.size:
            return
        slots, at = rows[due], table["known"][rows[due]]
        states_R = table["state"][slots]
        if due.size < rows.size:
            logits_R_V = logits_R_V[torch.from_numpy(due)]
        tokens_R, logprobs_R = sample(
            self._grammars.masked(logits_R_V, states_R),
            torch.from_numpy(table["temperature"][slots]),
            torch.from_numpy(table["uniforms"][slots, at]),
        )
        table["tokens"][slots, at] = tokens_R.numpy()
        table["logprobs"][slots, at] = logprobs_R.numpy()
        table["versions"][slots, at] = self._version
        # Keys and values are computed from the first position on, so the first are the oldest.
        table["cache_versions"][slots, at] = table["first"][slots]
        table["state"][slots] = self._grammars.following(states_R, tokens_R.numpy())
        table["known"][slots] += 1

    def _forward(
        self, rows: Indices, counts_R: Indices, view: slice | torch.Tensor
    ) -> torch.Tensor:
        """Return the logits after each row's last new token. Rows are padded on the left."""
        table = self._table
        widest = int(counts_R.max())
        cached_R, tokens_N_T = table["cached"][rows], table["tokens"]
        at_R_Q = (cached_R + counts_R)[:, None] + np.arange(-widest, 0)
        is_new_R_Q = at_R_Q >= cached_R[:, None]
        np.maximum(at_R_Q, 0, out=at_R_Q)
        slots_R_1 = rows[:, None]
        longest = int((cached_R + counts_R).max())
        self._cache.aim(
            view,
            torch.from_numpy(slots_R_1),
            torch.from_numpy(np.where(is_new_R_Q, at_R_Q, self._cache.spare)),
            longest,
        )
        positions_R_Q = torch.from_numpy(at_R_Q)
        output = cast("Any", self._model)(
            input_ids=torch.from_numpy(tokens_N_T[slots_R_1, at_R_Q]),
            attention_mask=self._masks.of(positions_R_Q, longest),
            position_ids=positions_R_Q,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        return output.logits[:, -1]

    def _collect(self) -> list[tuple[Ticket, Generation | GeneratorError]]:
        """Remove finished requests from their rows and return their results."""
        table = self._table
        last_N = table["tokens"][np.arange(len(table)), np.maximum(table["known"] - 1, 0)]
        said_N = table["active"] & (table["known"] > table["begin"])
        stopped_N = said_N & (table["stops"] == last_N[:, None]).any(axis=1)
        full_N = said_N & (table["known"] >= table["limit"])
        finished: list[tuple[Ticket, Generation | GeneratorError]] = []
        for slot in map(int, np.flatnonzero(stopped_N | full_N)):
            ticket = self._tickets[slot]
            assert ticket is not None
            self._tickets[slot] = None
            self._table["active"][slot] = False
            finished.append((ticket, self._generation(table[slot], stopped=bool(stopped_N[slot]))))
        return finished

    def _generation(self, row: Any, *, stopped: bool) -> Generation | GeneratorError:
        span = slice(int(row["begin"]), int(row["known"]))
        versions: tuple[int, ...] = tuple(row["versions"][span].tolist())
        cached: tuple[int, ...] = tuple(row["cache_versions"][span].tolist())
        return checked(
            Generation(
                token_ids=tuple(row["tokens"][span].tolist()),
                logprobs=tuple(row["logprobs"][span].tolist()),
                versions=versions,
                cache_versions=cached if cached != versions else (),
                stopped=stopped,
            )
        )

    def _fill(self, row: Any, request: GenerationRequest) -> None:
        prompt_T = np.array(request.prompt_ids)
        begin, limit = len(prompt_T), len(prompt_T) + request.max_tokens
        # Always feed the last token: sampling needs its logits.
        reusable = min(int(row["cached"]), begin - 1)
        differs_T = row["tokens"][:reusable] != prompt_T[:reusable]
        row["cached"] = int(differs_T.argmax()) if differs_T.any() else reusable
        row["tokens"][:begin] = prompt_T
        row["uniforms"][begin:limit] = np.random.default_rng(request.seed).random(limit - begin)
        row["stops"] = -1
        row["stops"][: len(request.stop_ids)] = request.stop_ids
        row["temperature"] = request.temperature
        row["begin"] = row["known"] = begin
        row["limit"] = limit
        row["active"] = True

    def _free_slot(self) -> int | None:
        """Return a slot without an owner, or evict the conversation that has been idle longest."""
        if len(self._slot_of) < len(self._owners):
            return self._owners.index(None)
        for conversation, slot in self._slot_of.items():
            if self._tickets[slot] is None:
                self.release(conversation)
                return slot
        return None

    def _close_up(self) -> None:
        """Move the last rows into idle slots until at most a quarter of the rows is idle."""
        active = np.flatnonzero(self._table["active"])
        idle = np.flatnonzero(~self._table["active"])
        moved = 0
        while moved < idle.size and moved < active.size:
            last, hole = int(active[-1 - moved]), int(idle[moved])
            if hole > last or (last + 1) * 3 <= active.size * 4:
                return
            self._exchange(last, hole)
            moved += 1

    def _exchange(self, one: int, other: int) -> None:
        table = self._table
        self._cache.swap(one, other, int(max(table["cached"][one], table["cached"][other])))
        table[[one, other]] = table[[other, one]]
        owners, tickets = self._owners, self._tickets
        owners[one], owners[other] = owners[other], owners[one]
        tickets[one], tickets[other] = tickets[other], tickets[one]
        for slot in (one, other):
            owner = self._owners[slot]
            if owner is not None:
                self._slot_of[owner] = slot


def _row(positions: int) -> np.dtype[np.void]:
    """Return the table's fields for one slot."""
    return np.dtype(
        [
            ("tokens", np.int64, (positions,)),  # prompt and answer
            ("logprobs", np.float32, (positions,)),  # by position, like the next three fields
            ("versions", np.int32, (positions,)),
            ("cache_versions", np.int32, (positions,)),
            ("uniforms", np.float64, (positions,)),
            ("stops", np.int64, (MAX_STOPS,)),  # -1 in unused entries
            ("temperature", np.float32),
            ("state", np.int64),  # state of the request's grammar; 0 without one
            ("begin", np.int64),  # number of prompt tokens
            ("limit", np.int64),  # maximum number of tokens
            ("known", np.int64),  # number of tokens so far
            ("first", np.int32),  # version that computed the first token's keys and values
            ("cached", np.int64),  # number of tokens with cached keys and values
            ("active", np.bool_),
        ],
        align=True,
    )
