"""Trades right requests against wrong ones, for a small language model that reads by likelihood.

The cases are those of `tests.meant`; counted are those that pass the executed gates. The model sees
ten right cases of the suite, which are not counted, and gives the probability of a request after
its calls, and of the calls after their request: by themselves, against what it gives without the
other half (*gain*), and against the decoys' calls (*margin*) or no calls. *Linear* is a logistic
regression on these scores. It and its threshold, which lets nine tenths of the right ones through,
are fitted on the other suite alone.

The model is a GGUF file that transformers (with the package `gguf`) or a folder that it can read.
"""

import asyncio
import copy
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from rich.console import Group, RenderableType
from transformers import AutoModelForCausalLM, AutoTokenizer

from coevolve.environments.tools.gates.decoys import decoys
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.reading import read_call, tools_of, written
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.validation.gates import Sound
from tests.bench import output
from tests.bench.lexical import Curve, drawn, points_of
from tests.meant.cases import GOOD, WORLDS, Suite, cases
from tests.planted import candidate
from tests.simulated import InProcessSimulator

SHOTS = 10
SHOT_EVERY = 4
"""Every fourth template of right cases is a shot, until there are `SHOTS`."""

KEPT = 0.9
"""Share of the other suite's right cases that the threshold of *linear* lets through."""

RIDGE = 0.05
EXACT = "no more and no less"
OF_REQUEST = (
    f"Each line has the calls that an assistant made and what the user had asked for, {EXACT}."
)
OF_CALLS = f"Each line has what a user asked for and the calls that an assistant made, {EXACT}."
NOTHING = "nothing"

Scores = Mapping[str, float]
Pair = tuple[str, str]
"""What stands before, and the text that gets a probability."""


class Read(NamedTuple):
    """A candidate as the model sees it."""

    request: str
    calls: str
    decoys: tuple[str, ...]


class Counted(NamedTuple):
    """A case that passes the gates, and is no shot."""

    kind: str
    scores: Scores


class Transferred(msgspec.Struct, frozen=True, kw_only=True):
    """What the linear reader admits with a threshold of the other suite."""

    suite: str
    right: int
    right_admitted: int
    wrong: int
    wrong_admitted: int
    by_kind: dict[str, int]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All curves, and the seconds that a candidate took."""

    curves: tuple[Curve, ...]
    transferred: tuple[Transferred, ...]
    seconds: float


class Likelihood:
    """A causal language model that continues a few shots."""

    def __init__(self, path: Path) -> None:
        folder, file = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, **file)
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, **file
        ).eval()
        self._needs_start = self._model.config.model_type.startswith("gemma")

    @torch.no_grad()
    def after(self, shots: str) -> Any:
        """Return the cache after a text."""
        start = [self._tokenizer.bos_token_id] if self._needs_start else []
        ids = [*start, *self._tokens(shots)]
        return self._model(torch.tensor([ids]), use_cache=True).past_key_values

    @torch.no_grad()
    def logprobs(self, cache: Any, pairs: Sequence[Pair]) -> list[list[float]]:
        """Return the log probabilities of the tokens of each pair's second text."""
        tokens = [(self._tokens(before), self._tokens(f" {text}")) for before, text in pairs]
        length, known = max(len(a) + len(b) for a, b in tokens), cache.get_seq_length()
        ids = torch.zeros(len(pairs), length, dtype=torch.long)
        mask = torch.zeros(len(pairs), known + length, dtype=torch.long)
        for row, (before, text) in enumerate(tokens):
            ids[row, : len(before) + len(text)] = torch.tensor([*before, *text])
            mask[row, : known + len(before) + len(text)] = 1
        cache = copy.deepcopy(cache)
        cache.batch_repeat_interleave(len(pairs))
        hidden = self._model.model(
            ids, attention_mask=mask, past_key_values=cache
        ).last_hidden_state
        found: list[list[float]] = []
        for row, (before, text) in enumerate(tokens):
            places = hidden[row, len(before) - 1 : len(before) + len(text) - 1]
            logits = self._model.lm_head(places).float().log_softmax(-1)
            found.append(logits[torch.arange(len(text)), torch.tensor(text)].tolist())
        return found

    def _tokens(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False).input_ids


class Scorer:
    """Scores candidates after shots."""

    def __init__(self, model: Likelihood, shots: Sequence[Read]) -> None:
        self._model = model
        requests = "".join(f"Calls: {each.calls}\nUser: {each.request}\n\n" for each in shots)
        calls = "".join(f"User: {each.request}\nCalls: {each.calls}\n\n" for each in shots)
        self._requests = model.after(f"{OF_REQUEST}\n\n{requests}")
        self._calls = model.after(f"{OF_CALLS}\n\n{calls}")

    def scores(self, read: Read) -> Scores:
        """Return all scores of a candidate."""
        options = (read.calls, *read.decoys)
        request, *others, alone = self._model.logprobs(
            self._requests,
            [*((f"Calls: {each}\nUser:", read.request) for each in options), _bare(read.request)],
        )
        calls, *wrong, nothing, free = self._model.logprobs(
            self._calls,
            [
                *((f"User: {read.request}\nCalls:", each) for each in (*options, NOTHING)),
                ("Calls:", read.calls),
            ],
        )
        gains = [a - b for a, b in zip(request, alone, strict=True)]
        return {
            "request: mean": statistics.fmean(request),
            "request: least": min(request),
            "request: margin": min((sum(request) - sum(each) for each in others), default=0.0),
            "request: mean gain": statistics.fmean(gains),
            "request: least gain": min(gains),
            "request: gain": sum(gains),
            "calls: mean": statistics.fmean(calls),
            "calls: least": min(calls),
            "calls: margin": min((sum(calls) - sum(each) for each in wrong), default=0.0),
            "calls: mean margin": min(
                (statistics.fmean(calls) - statistics.fmean(each) for each in wrong), default=0.0
            ),
            "calls: over none": sum(calls) - sum(nothing),
            "calls: mean over none": statistics.fmean(calls) - statistics.fmean(nothing),
            "calls: mean gain": statistics.fmean(calls) - statistics.fmean(free),
        }


def _bare(request: str) -> Pair:
    return "User:", request


def _shown(turns: Turns) -> str:
    return " then ".join("; ".join(calls) or NOTHING for calls in turns)


async def _read(body: ToolTask) -> Read:
    tools = tools_of(body.classes)
    read = [[read_call(call, tools) for call in turn.reference] for turn in body.turns]
    trials = Trials(InProcessSimulator(), "likelihood", body)
    others = await decoys(body, read, trials, Random(0))
    return Read(
        " / ".join(turn.instruction for turn in body.turns),
        _shown(written(read)),
        tuple(map(_shown, others)),
    )


async def _counted(
    suite: Suite, worlds: int, model: Likelihood
) -> tuple[list[Counted], Mapping[str, int], float]:
    """Return the scored cases, how many there are of each kind, and the seconds that one took."""
    gates = ToolGates(InProcessSimulator(), calls_per_turn=20)
    sound: list[tuple[str, Read]] = []
    shots: list[Read] = []
    counts: defaultdict[str, int] = defaultdict(int)
    numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
    for case in cases(suite, worlds):
        template, world = divmod(next(numbers[case.kind]), worlds)
        outcome = (await gates.examine(candidate(case.body))).outcome
        is_shot = case.kind == GOOD and template % SHOT_EVERY == 0 and template < SHOTS * SHOT_EVERY
        counts[case.kind] += not is_shot
        if isinstance(outcome, Sound):
            read = await _read(read_body(outcome.body))
            if not is_shot:
                sound.append((case.kind, read))
            elif world == 0:
                shots.append(read)
    scorer = Scorer(model, shots)
    started = time.monotonic()
    found = [Counted(kind, scorer.scores(read)) for kind, read in sound]
    return found, counts, (time.monotonic() - started) / len(found)


class Linear:
    """A logistic regression from scores to whether a case is right."""

    def __init__(self, learnt: Sequence[Counted]) -> None:
        raw = _matrix(learnt)
        self._mean, self._spread = raw.mean(0), raw.std(0) + 1e-6
        is_right = np.array([each.kind == GOOD for each in learnt], dtype=float)
        inputs = self._inputs(learnt)
        ridge = 2 * RIDGE * np.diag([*np.ones(raw.shape[1]), 0.0])
        self._weights = np.zeros(inputs.shape[1])
        for _ in range(20):
            guessed = 1 / (1 + np.exp(-inputs @ self._weights))
            slope = inputs.T @ (guessed - is_right) / len(learnt) + ridge @ self._weights
            curved = (inputs.T * (guessed * (1 - guessed))) @ inputs / len(learnt) + ridge
            self._weights = self._weights - np.linalg.solve(curved, slope)

    def __call__(self, counted: Sequence[Counted]) -> list[float]:
        """Return one number for each case; right ones have larger ones."""
        return (self._inputs(counted) @ self._weights).tolist()

    def _inputs(self, counted: Sequence[Counted]) -> Any:
        standard = (_matrix(counted) - self._mean) / self._spread
        return np.hstack([standard, np.ones((len(counted), 1))])


def _matrix(counted: Sequence[Counted]) -> Any:
    return np.array([list(each.scores.values()) for each in counted])


def _curve(
    suite: str, score: str, counts: Mapping[str, int], values: Iterable[tuple[bool, float]]
) -> Curve:
    every = list(values)
    right, wrong = (
        [value for is_right, value in every if is_right is which] for which in (True, False)
    )
    return Curve(
        suite=suite,
        score=score,
        right=counts[GOOD],
        wrong=sum(counts.values()) - counts[GOOD],
        points=tuple(points_of(right, wrong)),
    )


def _transferred(
    suite: str,
    counts: Mapping[str, int],
    counted: Sequence[Counted],
    values: Sequence[float],
    limit: float,
) -> Transferred:
    admitted = [each.kind for each, value in zip(counted, values, strict=True) if value >= limit]
    return Transferred(
        suite=suite,
        right=counts[GOOD],
        right_admitted=admitted.count(GOOD),
        wrong=sum(counts.values()) - counts[GOOD],
        wrong_admitted=len(admitted) - admitted.count(GOOD),
        by_kind={kind: admitted.count(kind) for kind in counts if kind != GOOD},
    )


def _limit(values: Sequence[float], counted: Sequence[Counted]) -> float:
    right = sorted(v for v, each in zip(values, counted, strict=True) if each.kind == GOOD)
    return right[int((1 - KEPT) * len(right))]


async def measure(path: Path, worlds: int) -> Measured:
    """Return the curves of both suites with the model at ``path``."""
    model = Likelihood(path)
    suites: tuple[Suite, Suite] = ("filesystem", "functions")
    found = {suite: await _counted(suite, worlds, model) for suite in suites}
    curves: list[Curve] = []
    transferred: list[Transferred] = []
    for suite, other in (suites, suites[::-1]):
        counted, counts, _ = found[suite]
        for score in counted[0].scores:
            values = [(each.kind == GOOD, each.scores[score]) for each in counted]
            curves.append(_curve(suite, score, counts, values))
        linear, learnt = Linear(found[other][0]), found[other][0]
        guessed = linear(counted)
        pairs = [(each.kind == GOOD, value) for each, value in zip(counted, guessed, strict=True)]
        curves.append(_curve(suite, "linear", counts, pairs))
        limit = _limit(linear(learnt), learnt)
        transferred.append(_transferred(suite, counts, counted, guessed, limit))
    seconds = statistics.fmean(seconds for _, _, seconds in found.values())
    return Measured(curves=tuple(curves), transferred=tuple(transferred), seconds=seconds)


def drawn_all(measured: Measured) -> RenderableType:
    """Return the tables."""
    rows = [
        [
            each.suite,
            f"{each.right_admitted} of {each.right}",
            f"{each.wrong_admitted} of {each.wrong}",
        ]
        for each in measured.transferred
    ]
    heads = ("suite", "right", "wrong")
    return Group(
        drawn(measured.curves),
        output.table("admitted by *linear*, its limit from the other suite", heads, rows),
        f"{measured.seconds:.2f} s a candidate",
    )


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = output.parser_of("likelihood", __doc__)
    parser.add_argument("model", type=Path, help="a GGUF file, or a folder with a model")
    parser.add_argument("--worlds", type=int, default=WORLDS, help="cases of each template")
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    output.show(asyncio.run(measure(given.model, given.worlds)), drawn_all, as_json=given.json)
