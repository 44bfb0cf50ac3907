"""Decodes a policy's messages from the tokens of its rollouts."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from coevolve.environments.registry import environment_of
from coevolve.environments.tools.chat.call_text import MalformedCallsError
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.export.conversation import Said
from coevolve.environments.tools.interfaces import Renderer
from coevolve.models.model_folder import model_folder
from coevolve.models.tokenizer_file import TOKENIZER, read_tokenizer
from protocols import columns
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.rollouts import Ending, Rollout, Tokens


class Transcriber:
    """Decodes the messages of the rollouts of one run."""

    def __init__(self, config: RunConfig, renderer: Renderer) -> None:
        """Load the policy's tokenizer. Raises RunError if its folder has none that is usable."""
        folder = model_folder(config.policy.model)
        path = folder / TOKENIZER
        if not path.is_file():
            raise RunError(
                f"{path}: not found; decoding rollouts needs the policy's fast tokenizer; save it "
                "there with AutoTokenizer.from_pretrained(...).save_pretrained(...)"
            )
        self._tokenizer = read_tokenizer(folder, RunError)
        self._renderer = renderer
        self._stop_ids = frozenset(renderer.stop_ids)

    def written(self, rollout: Rollout) -> list[str]:
        """Return each message of the policy, including special tokens."""
        return [
            self._text(ids, skip_special=False)
            for tokens in rollout.conversations
            for ids in sampled(tokens)
        ]

    def said(self, rollout: Rollout) -> Iterator[Said]:
        """Yield each message of the policy with the answers to its calls."""
        messages = sampled(rollout.tokens)
        actions = list(rollout.actions)
        turn = 0
        for place, ids in enumerate(messages):
            if place == len(messages) - 1 and self._is_unparsed(ids, rollout.ended):
                yield Said(turn=turn, text=self._text(ids, skip_special=False))
                return
            calls = self._calls(ids)
            answered = actions[: 1 if calls is None else len(calls)]
            actions = actions[len(answered) :]
            # An answered message that is no call stands as it was written.
            texts = tuple(action.text for action in answered)
            yield Said(
                turn=turn,
                text="" if calls or texts else self._text(ids, skip_special=True),
                calls=(*texts, *(calls or ())[len(texts) :]),
                answers=tuple(action.result for action in answered),
            )
            turn += calls == ()

    def _calls(self, ids: Sequence[int]) -> tuple[str, ...] | None:
        """Return the calls of a message; None if they could not be read, and that was answered."""
        try:
            return self._renderer.parse(ids)
        except MalformedCallsError:
            return None

    def _is_unparsed(self, ids: Sequence[int], ended: Ending) -> bool:
        """Return whether the last message is neither a call nor the end of a turn.

        A conversation can also reach its maximum length after a complete message.
        """
        return ended == "malformed" or (ended == "too_long" and ids[-1] not in self._stop_ids)

    def _text(self, ids: Sequence[int], *, skip_special: bool) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)


def transcriber_of(config: RunConfig) -> Transcriber:
    """Return a decoder for the messages of a run. Raises RunError and ConfigError."""
    environment = environment_of(config)
    assert isinstance(environment, ToolEnvironment)
    return Transcriber(config, environment.renderer())


def sampled(tokens: Tokens) -> list[tuple[int, ...]]:
    """Return each contiguous sequence of tokens that the policy wrote."""
    ids = zip(columns.from_int32(tokens.token_ids), tokens.mask, strict=True)
    stretches = groupby(ids, key=lambda each: each[1])
    return [tuple(token for token, _ in stretch) for by_policy, stretch in stretches if by_policy]
