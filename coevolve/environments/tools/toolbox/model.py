"""Makes the initial policy of a toolbox: it knows some cells, half knows others, and not the rest.

A short supervised training shows the cells of each length with a heavy tail, so that they begin
anywhere between unknown and known. Held-out chains are never shown. The same seeds make the same
files, with the same versions of torch and transformers on the same kind of processor. A machine
keeps them: the training takes as long as half of a run, and the arms of a study begin alike.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import hashlib
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import structlog
import torch
import transformers

from coevolve.environments.cache_folder import cache_folder, shared_folder
from coevolve.environments.packages import alone
from coevolve.environments.tools.toolbox.domain import Cell, Domain, domain_of, thing_for
from coevolve.environments.tools.toolbox.renderer import ToolboxRenderer
from coevolve.environments.tools.toolbox.settings import ToolboxConfig
from coevolve.environments.tools.toolbox.source import given
from coevolve.environments.tools.toolbox.words import MODEL, PAD, WORDS
from coevolve.models import word_model
from coevolve.models.atomic_folder import write_folder
from protocols.errors import CheckpointError

BATCH = 64
LEARNING_RATE = 3e-3
WARMUP_STEPS = 50
TAIL = 1.8
"""The cell with rank r of its length is shown in proportion to (r + 2)^-TAIL."""

SHARES = (0.35, 0.45, 0.2)
"""Shares of the demonstrations by length of the cell."""

_SHOWN_STREAM = 8

log = structlog.get_logger(__name__)

MARKS = 5
"""Number of words that are special tokens."""


def write_kept_model(seed: int, settings: ToolboxConfig, folder: Path) -> None:
    """Write the initial policy of a run into ``folder``, unless that exists.

    Raises CheckpointError if writing fails, DependencyError without a cache folder.
    """
    if folder.is_dir():
        return
    kept = cache_folder() / "toolbox" / _digest(seed, settings)
    try:
        shared_folder(kept.parent)
        with alone(kept, log.info):
            write_model(seed, domain_of(settings), settings.demonstrations, kept)
    except OSError as error:
        raise CheckpointError(f"{kept}: the toolbox's policy cannot be kept: {error}") from error

    def copy(place: Path) -> None:
        shutil.copytree(kept, place, dirs_exist_ok=True)

    write_folder(folder, copy)


def _digest(seed: int, settings: ToolboxConfig) -> str:
    """Return the name of all that determines the policy, this code among it."""
    files = (*sorted(Path(__file__).parent.glob("*.py")), Path(word_model.__file__))
    code = [file.read_bytes() for file in files]
    libraries = (str(torch.__version__), transformers.__version__, np.__version__)
    made_by = (libraries, torch.backends.cpu.get_cpu_capability(), seed)
    return hashlib.sha256(msgspec.json.encode((made_by, settings, code))).hexdigest()[:16]


def write_model(seed: int, domain: Domain, steps: int, folder: Path) -> None:
    """Write the initial policy into ``folder``, unless that exists.

    Raises CheckpointError if writing fails.
    """
    rng = np.random.default_rng((seed, _SHOWN_STREAM))

    def train(model: Any) -> None:
        _demonstrate(model, domain, steps, rng)

    with _one_thread():
        word_model.write_word_model(folder, MODEL, WORDS, marks=MARKS, seed=seed, train=train)


@contextmanager
def _one_thread() -> Generator[None]:
    """Use one thread: further ones cost more than they give, and round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _demonstrate(model: Any, domain: Domain, steps: int, rng: np.random.Generator) -> None:
    """Train with AdamW; the rate rises, and then falls to 0."""
    weights = _shown(domain.trained, rng)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1, (step + 1) / WARMUP_STEPS) * (1 - step / steps)
        ids_B_T, said_B_T = _batch(domain, rng.choice(len(weights), BATCH, p=weights), rng)
        logits_B_T_V = model(input_ids=ids_B_T[:, :-1], use_cache=False).logits
        losses_B_T = torch.nn.functional.cross_entropy(
            logits_B_T_V.transpose(1, 2), ids_B_T[:, 1:], reduction="none"
        )
        optimizer.zero_grad()
        losses_B_T[said_B_T[:, 1:]].mean().backward()
        optimizer.step()


def _shown(cells: Sequence[Cell], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the share of each cell among the demonstrations."""
    weights = np.zeros(len(cells))
    for length, share in enumerate(SHARES, start=1):
        of = rng.permutation(np.flatnonzero([len(cell) == length for cell in cells]))
        tail = (3.0 + np.arange(len(of))) ** -TAIL
        weights[of] = share * tail / tail.sum()
    return weights / weights.sum()


def _batch(
    domain: Domain, numbers: npt.NDArray[np.int64], rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (token ids, whether the policy writes them) of demonstrations, padded at the end."""
    renderer, cells = ToolboxRenderer(), [domain.trained[int(number)] for number in numbers]
    shown = [
        renderer.demonstration(given(domain, cell, thing_for(cell, "trained", rng), "shown"))
        for cell in cells
    ]
    longest = max(len(ids) for ids, _ in shown)
    ids_B_T = torch.full((len(shown), longest), PAD)
    said_B_T = torch.zeros((len(shown), longest), dtype=torch.bool)
    for row, (ids, mask) in enumerate(shown):
        ids_B_T[row, : len(ids)] = torch.tensor(ids)
        said_B_T[row, : len(ids)] = torch.tensor(mask, dtype=torch.bool)
    return ids_B_T, said_B_T
