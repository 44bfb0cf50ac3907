"""The conversations of one attempt, as a tree of messages.

A client sends a conversation from its beginning. `MessageTree.find` follows it down the tree as far
as it is known. If the rest of it is for the policy to read, it continues on the sampled tokens of
the last known message of the policy. If that message was continued before, another conversation
forks from it: both share what comes before. If the rest has messages of the assistant that are not
known there, a conversation begins whose whole history is context.

So every sampled message belongs to exactly one conversation, the one in which it is trained.
Conversations that fork from it repeat its tokens as context.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from coevolve.gateway.matching import Notes, difference
from coevolve.gateway.messages import Message, Said
from coevolve.rollouts.transcript import Transcript
from protocols.generation import Generation

LEFT_OUT = "a message of the policy was left out"
AGAIN = "the same request again"
OTHER_TOOLS = "other tools"
OTHER_OPENING = "another opening"
CONTINUED = "another continuation"
REWRITTEN = "the history before a message was edited or cut"
UNSAMPLED = "a message of the assistant that nobody sampled"
TWINS = "several messages of the same text"


@dataclass(eq=False)
class Branch:
    """A conversation: the sampled messages that are trained in it."""

    number: int
    last: "Node | None" = None
    is_busy: bool = False
    """Whether the policy writes its next message."""

    is_broken: bool = False
    """Whether a client edited its history and went on with that."""


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """The tokens of a message of the policy."""

    branch: Branch
    base: "Node | None"
    """The sampled message that it continues; None if the conversation begins with what was fed."""

    fed: tuple[int, ...]
    """The tokens of others since ``base``."""

    generation: Generation


@dataclass(eq=False)
class Node:
    """A message after those of its parents; without message, the beginning of conversations."""

    parent: "Node | None"
    message: Message | Said | None = None
    sampled: Sampled | None = None
    children: "list[Node]" = field(default_factory=list["Node"])
    is_returned: bool = False
    """Whether a client sent it back."""

    @property
    def text(self) -> str:
        """The words; empty without a message."""
        return self.message.text if self.message else ""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Where a request continues."""

    node: Node
    """The last known message."""

    known: int
    """The number of known messages."""

    base: Node | None
    """The sampled message to continue on; None: the whole request is rendered anew."""

    at: int
    """The number of messages up to ``base``."""

    reason: str
    """Why it is another conversation, if it is one."""

    broken: Branch | None
    """The conversation that the client goes on with, but for an edit."""

    notes: Notes


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What a request was found to repeat; the next one mostly repeats it, too."""

    opening: bytes
    messages: tuple[Message, ...]
    node: Node
    base: Node | None
    at: int


class TooManyError(Exception):
    """An attempt may have no further conversation."""


class MessageTree:
    """The messages of one attempt."""

    def __init__(self, most: int) -> None:
        """Allow ``most`` conversations."""
        self._most = most
        self._roots: dict[bytes, Node] = {}
        self._branches: dict[int, Branch] = {}
        self._known: _Known | None = None
        self.begun = 0
        """The number of conversations that began; some may have no message."""

        self.sampled: list[Node] = []
        """All messages of the policy, in the order in which they were written."""

        self.reasons: Counter[str] = Counter()
        """Why conversations after the first one began."""

    def find(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Found:
        """Return where a conversation with these tools continues."""
        opening = hashlib.sha256(msgspec.json.encode(tools, order="sorted")).digest()
        node = root = self._roots.setdefault(opening, Node(None))
        base, at, known, notes, edit = None, 0, 0, list[str](), _NO_EDIT
        before = self._known
        if before and before.opening == opening and _begins(messages, before.messages):
            node, base, at, known = before.node, before.base, before.at, len(before.messages)
        for message in messages[known:]:
            child, edit, changed = _child(node, message)
            if child is None:
                break
            node, known = child, known + 1
            if child.sampled:
                base, at = child, known
                notes += () if child.is_returned else changed
                child.is_returned = True
        rest = messages[known:]
        self._known = _Known(
            opening=opening, messages=tuple(messages[:known]), node=node, base=base, at=at
        )
        if _assistants(messages[at:]):
            base, at = None, 0
        if not edit[0]:
            edit = self._edit(node, rest, root)
        return Found(
            node=node,
            known=known,
            base=base,
            at=at,
            reason=edit[0],
            broken=edit[1],
            notes=tuple(notes),
        )

    def find_tokens(self, token_ids: Sequence[int]) -> Found:
        """Return where a conversation with these tokens continues."""
        base, known = None, list[int]()
        for each in reversed(self.sampled):
            ids = token_ids_of(each)
            if len(ids) > len(known) and list(token_ids[: len(ids)]) == ids:
                base, known = each, ids
        node = base or self._roots.setdefault(b"", Node(None))
        asked = (base, tuple(token_ids[len(known) :]))
        is_again = asked in [(each.base, each.fed) for each in map(_sampled, self.sampled)]
        reason = AGAIN if is_again else CONTINUED if base else OTHER_OPENING
        return Found(node=node, known=0, base=base, at=0, reason=reason, broken=None, notes=())

    def _edit(self, node: Node, rest: Sequence[Message], root: Node) -> "_Edit":
        """Return why a request whose ``rest`` is not known is another conversation, if it is."""
        assistants, is_new = _assistants(rest), not root.children
        if not assistants:
            return (OTHER_TOOLS if is_new and self.sampled else _fork(node, rest)), None
        ids = {call.id for each in assistants for call in each.calls} - {""}
        for each in reversed(self.sampled):
            assert isinstance(each.message, Said)
            assert each.sampled
            is_known = ids & {call.id for call in each.message.calls}
            if is_known or not difference(each.message, assistants[0])[0]:
                return (OTHER_TOOLS, None) if is_new else (REWRITTEN, each.sampled.branch)
        return UNSAMPLED, None

    def claim(self, found: Found) -> Branch:
        """Return the conversation for the next message. Raises TooManyError.

        It is busy until `add` or `give_up`.
        """
        if found.base and found.base.sampled:
            branch = found.base.sampled.branch
            if branch.last is found.base and not branch.is_busy:
                branch.is_busy = True
                return branch
        if len(self._branches) >= self._most:
            raise TooManyError
        if self._branches:
            self.reasons[found.reason] += 1
        if found.broken:
            found.broken.is_broken = True
        branch = self._branches[self.begun] = Branch(self.begun, is_busy=True)
        self.begun += 1
        return branch

    def give_up(self, branch: Branch) -> None:
        """Take back a claim: no message was sampled."""
        branch.is_busy = False
        if branch.last is None:
            del self._branches[branch.number]

    def add(self, found: Found, messages: Sequence[Message], said: Said, sampled: Sampled) -> None:
        """Record a message of the policy, after the messages of its request."""
        node = found.node
        for message in messages[found.known :]:
            node = _child(node, message)[0] or self._added(Node(node, message))
        child = self._added(Node(node, said, sampled))
        self.sampled.append(child)
        sampled.branch.last, sampled.branch.is_busy = child, False

    def _added(self, node: Node) -> Node:
        assert node.parent
        if node.parent.children:
            self._known = None  # of messages of the same text, the newest is meant
        node.parent.children.append(node)
        return node

    def conversations(self) -> list[Transcript]:
        """Return the tokens of each conversation, in the order in which they began."""
        return [_transcript(each) for each in self._branches.values() if each.last]

    def broken_tokens(self) -> int:
        """Return the number of tokens sampled in conversations that edits broke off."""
        return sum(
            len(each.sampled.generation.token_ids)
            for each in self.sampled
            if each.sampled and each.sampled.branch.is_broken
        )


_Edit = tuple[str, Branch | None]
"""Why a message is not the one that was sampled, and the conversation in which that one is."""

_NO_EDIT: _Edit = ("", None)


def token_ids_of(node: Node | None) -> list[int]:
    """Return the tokens of a conversation up to the end of a sampled message."""
    ids: list[int] = []
    for sampled in _path(node):
        ids += sampled.fed
        ids += sampled.generation.token_ids
    return ids


def _sampled(node: Node) -> Sampled:
    assert node.sampled
    return node.sampled


def _path(node: Node | None) -> list[Sampled]:
    """Return the sampled messages up to ``node``, in order."""
    found: list[Sampled] = []
    while node is not None and node.sampled:
        found.append(node.sampled)
        node = node.sampled.base
    return found[::-1]


def _transcript(branch: Branch) -> Transcript:
    transcript = Transcript()
    for sampled in _path(branch.last):
        transcript.feed(sampled.fed)
        if sampled.branch is branch:
            transcript.add(sampled.generation)
        else:
            transcript.feed(sampled.generation.token_ids)
    return transcript


def _begins(messages: Sequence[Message], known: tuple[Message, ...]) -> bool:
    return tuple(messages[: len(known)]) == known


def _assistants(messages: Sequence[Message]) -> list[Message]:
    return [each for each in messages if each.role == "assistant"]


def _fork(node: Node, rest: Sequence[Message]) -> str:
    """Return why a request that is known up to ``node`` is another conversation, if it is one."""
    if not rest:
        return AGAIN
    if any(each.sampled for each in node.children):
        return LEFT_OUT
    return OTHER_OPENING if _is_opening(node) else CONTINUED


def _is_opening(node: Node | None) -> bool:
    """Return whether nothing was sampled up to ``node``."""
    while node is not None:
        if node.sampled:
            return False
        node = node.parent
    return True


def _child(node: Node, message: Message) -> tuple[Node | None, _Edit, Notes]:
    """Return the child that ``message`` is, with harmless changes; if there is none, the edit."""
    if message.role == "assistant":
        child, edit, notes = _said(node, message)
        if child is not None:
            return child, edit, notes
    else:
        edit = _NO_EDIT
    for child in reversed(node.children):
        if isinstance(child.message, Message) and _is_same(child.message, message):
            return child, _NO_EDIT, ()
    return None, edit, ()


def _said(node: Node, message: Message) -> tuple[Node | None, _Edit, Notes]:
    """Return the sampled child that ``message`` is: with its calls, the likest, the newest."""
    edit, found = _NO_EDIT, list[tuple[bool, int, Node, Notes]]()
    ids = {call.id for call in message.calls}
    for child, said in _sampled_children(node):
        reason, notes = difference(said, message)
        is_named = any(call.id in ids for call in said.calls)
        if not reason:
            found.append((not is_named, len(notes), child, notes))
        elif child.sampled and (is_named or not edit[0]):
            edit = reason, child.sampled.branch
    if not found:
        return None, edit, ()
    is_other, changes, child, notes = min(found, key=lambda each: each[:2])
    twins = [each for each in found if each[:2] == (is_other, changes)]
    return child, _NO_EDIT, (*notes, *([TWINS] if is_other and len(twins) > 1 else []))


def _sampled_children(node: Node) -> Iterator[tuple[Node, Said]]:
    """Yield the messages of the policy after ``node``, the newest first."""
    for child in reversed(node.children):
        if isinstance(child.message, Said):
            yield child, child.message


def _is_same(mine: Message, yours: Message) -> bool:
    return (mine.speaker, mine.text, mine.calls) == (yours.speaker, yours.text, yours.calls)
