"""Delivers versions correctly, and to engines that do not load them.

Each version differs from the one before by plus or minus a learning rate in every trained number,
as after an optimizer's step, at a sequence of rates. It is written to disk and published with a
probe of its own tokens, in float32. An engine of each kind and precision serves all versions: full
weights, and an adapter of rank 8 on every linear layer, which is merged or, with vLLM, is kept
beside the weights.

*False alarms* are those of the unchanged engine. *Deaf* is the same engine on the same versions
without loading their weights: it only reports another version. The column shows, among the versions
whose weights differ from the previous ones in the served precision, the share that raises an alarm,
and the share that the probe alone would detect.

*Changed rows* are the rows that differ, in the served precision, from those of the version before.
*Off* is the largest difference of a probe's logprob between float32 and the engine, in nats, for
the median version and the worst. *Same bits* counts the correct versions that answered the probe
exactly as the one before. *Serve* is the median time from the order to serve a version to the end
of its proof, *compare* the proof's part of it.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, cast

import msgspec
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from rich.table import Table

from coevolve.delivery.engine import VerifiedEngine
from coevolve.delivery.probe import (
    PROBE_TOKENS,
    ProbeDifference,
    is_exact,
    probe_difference,
    tolerance_of,
)
from coevolve.engine.generator import TransformersGenerator
from coevolve.engine.vllm import environment
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY, model_folder
from coevolve.models.weight_files import WEIGHTS_FILES, model_digest, version_digest
from protocols import columns
from protocols.config import (
    PolicyConfig,
    RolloutConfig,
    RunConfig,
    TransformersEngine,
    VllmEngine,
)
from protocols.errors import DeliveryError
from protocols.interfaces import Generator
from protocols.learning import PolicyVersion, Probe, ServedWeights, WeightsFormat
from tests.bench import output
from tests.contexts import context_of

RATES = (1e-6, 1e-5, 1e-4, 1e-3)
ENGINES = ("transformers", "vllm")
FORMS = ("full", "merged", "adapter")
DTYPES = ("float32", "bfloat16")
RANK, ALPHA = 8, 12
SPREAD = 0.01
"""Initial standard deviation of an adapter's B."""

LENGTH = 256
CONCURRENT = 8


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures for the versions of one rate on one engine."""

    engine: str
    form: str
    dtype: str
    rate: float
    versions: int
    alarms: int
    changed: float
    """Median share of rows, in [0, 1]."""

    off_median: float
    off_most: float
    same_bits: int
    deaf: int
    """Number of versions that the deaf engine got and that differ from the one before."""

    deaf_alarms: int
    deaf_probe: int
    """Number of these that the probe alone would detect."""

    serve_ms: float
    compare_ms: float


class _Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One version, on an unchanged engine and on a deaf one."""

    rate: float
    alarmed: bool
    off: float
    answer: bytes
    changed: float
    deaf_alarmed: bool
    deaf_off: float
    serve_s: float
    compare_s: float


class Deaf:
    """An engine that reports every version as served, but serves ``instead``."""

    def __init__(self, generator: Generator, instead: PolicyVersion) -> None:
        self._generator = generator
        self._instead = instead
        self.answer = b""

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Report ``version`` as served."""
        probed = msgspec.structs.replace(self._instead, probe=version.probe)
        served = await self._generator.load(probed)
        self.answer = served.logprobs
        return msgspec.structs.replace(served, version=version.version, digest=version.digest)


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("delivery", __doc__)
    parser.add_argument("--model", default=TINY, help="tiny, or a folder in Hugging Face layout")
    parser.add_argument("--versions", type=int, default=1000, help="per engine and precision")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    cells = [
        (engine, form, dtype)
        for engine in options.engines
        for form in options.forms
        for dtype in options.dtypes
        if (engine, form) != ("transformers", "adapter")
    ]
    if len(cells) == 1:
        figures = measured(*cells[0], options)
    else:
        figures = [each for cell in cells for each in _apart(*cell, options)]
    output.show(figures, _table, as_json=options.json, width=170)


def _apart(engine: str, form: str, dtype: str, options: Any) -> list[Figures]:
    """Measure in a separate process, because vLLM binds a process for good."""
    command = [sys.executable, "-m", "tests.bench", "delivery", "--json"]
    command += ["--engines", engine, "--forms", form, "--dtypes", dtype, "--model", options.model]
    command += ["--versions", str(options.versions), "--seed", str(options.seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Figures])


def measured(engine: str, form: str, dtype: str, options: Any) -> list[Figures]:
    """Return the figures of one engine, form of weights and precision, by rate."""
    folder = model_folder(options.model)
    rollout = RolloutConfig(
        engine=TransformersEngine(dtype=cast("Any", dtype))
        if engine == "transformers"
        else VllmEngine(
            dtype=cast("Any", dtype),
            kv_cache_mb=64,
            deliver="adapter" if form == "adapter" else "merged",
        )
    )
    train: WeightsFormat = "full" if form == "full" else "lora"
    policy = PolicyConfig(model=str(folder), train=train, lora_rank=RANK, lora_alpha=ALPHA)
    config = RunConfig(name="delivery", policy=policy, rollout=rollout)
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(_delivered(folder, config, Path(place), options))
    same = [False, *(one.answer == other.answer for one, other in pairwise(found))]
    compared = list(zip(found, same, strict=True))
    return [_figures((engine, form, dtype), rate, compared, tolerance_of(config)) for rate in RATES]


async def _delivered(folder: Path, config: RunConfig, place: Path, options: Any) -> list[_Delivery]:
    generator = _generator(folder, config, place)
    store = LocalStore(Journal.open(place / "journal"))

    def proven(one: Any) -> VerifiedEngine:
        return VerifiedEngine(context_of(config, store, folder=place), "bench", one)

    steps = _Steps(folder, place, config, options.seed)
    engine, before = proven(generator), steps.publish(RATES[0])
    await engine.serve(before)
    found: list[_Delivery] = []
    for number in range(options.versions):
        rate = RATES[number % len(RATES)]
        version = steps.publish(rate)
        deaf = Deaf(generator, before)
        deaf_alarmed = await _is_alarmed(proven(deaf), version)
        began = time.perf_counter()
        alarmed = await _is_alarmed(engine, version)
        serve_s = time.perf_counter() - began
        served = await generator.load(version)
        found.append(
            _Delivery(
                rate=rate,
                alarmed=alarmed,
                off=probe_difference(version, served.logprobs).most,
                answer=served.logprobs,
                changed=steps.changed(getattr(torch, config.rollout.engine.dtype)),
                deaf_alarmed=deaf_alarmed,
                deaf_off=_held(probe_difference(version, deaf.answer), config),
                serve_s=serve_s,
                compare_s=max(0.0, serve_s - served.wall_s),
            )
        )
        shutil.rmtree(place / before.path)
        before = version
    await generator.close()
    return found


def _held(difference: ProbeDifference, config: RunConfig) -> float:
    """Return the value that is compared with the tolerance."""
    return difference.most if is_exact(config) else difference.mean


async def _is_alarmed(engine: VerifiedEngine, version: PolicyVersion) -> bool:
    try:
        await engine.serve(version)
    except DeliveryError:
        return True
    return False


def _learning(folder: Path, config: RunConfig, seed: int) -> Any:
    """Return the model; if an adapter is trained, with one that changes the model."""
    model = cast("Any", read_model(folder)).eval()
    if config.policy.train == "full":
        return model
    torch.manual_seed(seed)
    settings = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear")
    adapted = cast("Any", get_peft_model(model, settings)).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=SPREAD)
    return adapted


class _Steps:
    """A model that changes step by step."""

    def __init__(self, folder: Path, place: Path, config: RunConfig, seed: int) -> None:
        self._model = _learning(folder, config, seed)
        self._format: WeightsFormat = config.policy.train
        self._place = place
        self._base = model_digest(folder)
        self._rng = np.random.default_rng(seed)
        self._noise = torch.Generator().manual_seed(seed)
        self._number = 0
        self._before: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def publish(self, rate: float) -> PolicyVersion:
        """Move every weight by plus or minus ``rate`` and write the version."""
        self._before = {name: each.clone() for name, each in self._learned()}
        for _, parameter in self._learned():
            signs = torch.randint(2, parameter.shape, generator=self._noise) * 2 - 1
            parameter += rate * signs
        self._number += 1
        path = f"versions/{self._number}"
        self._model.save_pretrained(self._place / path, save_original_format=False)
        token_ids = self._rng.integers(self._model.config.vocab_size, size=PROBE_TOKENS)
        return PolicyVersion(
            version=self._number,
            path=path,
            format=self._format,
            digest=version_digest(self._place / path, self._format),
            size_bytes=(self._place / path / WEIGHTS_FILES[self._format]).stat().st_size,
            kept=False,
            base=self._base,
            scale=ALPHA / RANK if self._format == "lora" else 0.0,
            probe=Probe(
                token_ids=columns.int32(token_ids.tolist()),
                logprobs=columns.float32(self._logprobs(torch.from_numpy(token_ids))),
            ),
        )

    def changed(self, precision: torch.dtype) -> float:
        """Return the share of rows that the last step changed in ``precision``."""
        rows = changed = 0
        for name, parameter in self._learned():
            old = self._before[name].reshape(-1, parameter.shape[-1]).to(precision)
            differs = old != parameter.reshape(-1, parameter.shape[-1]).to(precision)
            rows, changed = rows + len(differs), changed + int(differs.any(1).sum())
        return changed / rows

    def _learned(self) -> list[tuple[str, torch.Tensor]]:
        found = cast("list[tuple[str, torch.Tensor]]", list(self._model.named_parameters()))
        return [(name, each) for name, each in found if each.requires_grad]

    @torch.no_grad()
    def _logprobs(self, ids_T: torch.Tensor) -> list[float]:
        logits_T_V = self._model(input_ids=ids_T[None, :-1]).logits[0]
        logprobs_T_V = torch.log_softmax(logits_T_V.float(), dim=-1)
        return cast("list[float]", logprobs_T_V.gather(1, ids_T[1:, None])[:, 0].tolist())


def _generator(folder: Path, config: RunConfig, run_dir: Path) -> Generator:
    match config.rollout.engine:
        case TransformersEngine(dtype=dtype):
            return TransformersGenerator(
                folder, run_dir, max_concurrent=CONCURRENT, max_length=LENGTH, dtype=dtype
            )
        case VllmEngine() as settings:
            environment.set_variables(settings)
            from coevolve.engine.vllm.arguments import Limits
            from coevolve.engine.vllm.generator import VllmGenerator

            adapters = 4 if settings.deliver == "adapter" else 0
            limits = Limits(concurrent=CONCURRENT, length=LENGTH, adapters=adapters, rank=RANK)
            return VllmGenerator(folder, run_dir, settings, limits)


def _figures(
    cell: tuple[str, str, str],
    rate: float,
    found: Sequence[tuple[_Delivery, bool]],
    tolerance: float,
) -> Figures:
    of_rate = [(each, same) for each, same in found if each.rate == rate]
    mine = [each for each, _ in of_rate]
    differing = [each for each in mine if each.changed]
    engine, form, dtype = cell
    return Figures(
        engine=engine,
        form=form,
        dtype=dtype,
        rate=rate,
        versions=len(mine),
        alarms=sum(each.alarmed for each in mine),
        changed=median(each.changed for each in mine),
        off_median=median(each.off for each in mine),
        off_most=max(each.off for each in mine),
        same_bits=sum(same for _, same in of_rate),
        deaf=len(differing),
        deaf_alarms=sum(each.deaf_alarmed for each in differing),
        deaf_probe=sum(each.deaf_off > tolerance for each in differing),
        serve_ms=1e3 * median(each.serve_s for each in mine),
        compare_ms=1e3 * median(each.compare_s for each in mine),
    )


def _table(figures: Sequence[Figures]) -> Table:
    names = "engine", "form", "precision", "rate", "versions", "false alarms", "changed rows", "off"
    more = "same bits", "deaf", "alarmed", "by the probe alone", "serve", "compare"
    rows = [
        (
            each.engine,
            each.form,
            each.dtype,
            f"{each.rate:.0e}",
            str(each.versions),
            str(each.alarms),
            f"{100 * each.changed:.0f} %",
            f"{each.off_median:.1e} / {each.off_most:.1e}",
            str(each.same_bits),
            str(each.deaf),
            f"{100 * each.deaf_alarms / max(1, each.deaf):.0f} %",
            f"{100 * each.deaf_probe / max(1, each.deaf):.0f} %",
            f"{each.serve_ms:.0f} ms",
            f"{each.compare_ms:.0f} ms",
        )
        for each in figures
    ]
    return output.table("Delivery of weights", (*names, *more), rows, words=len(names + more))
