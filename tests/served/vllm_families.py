"""Serves families with vLLM, several in one process."""

import asyncio
import contextlib
import sys
from collections.abc import Generator, Iterable
from pathlib import Path

from transformers import AutoConfig

from protocols.errors import GeneratorError
from protocols.learning import WeightsFormat
from tests.served.families import write_family
from tests.served.trained import apart, trained
from tests.vllm_engines import open_engine

FORMS: tuple[tuple[str, WeightsFormat], ...] = (
    ("merged", "lora"),
    ("merged", "full"),
    ("adapter", "lora"),
)
"""How a version is delivered, and what is trained."""


async def compare(family: str, folder: Path) -> dict[str, float | str]:
    """Return, for each form, the largest difference of logprobs, or why the engine refuses it."""
    base = folder / "model"
    write_family(family, base)
    _import_architecture(base)
    found: dict[str, float | str] = {}
    for number, (deliver, train) in enumerate(FORMS, 1):
        with _told(found, f"{deliver} {train}"):
            generator = open_engine(
                base, folder, adapters=2 if deliver == "adapter" else 0, deliver=deliver
            )
            policy, version = trained(base, folder, number, train)
            await generator.load(version)
            found[f"{deliver} {train}"] = await apart(generator, policy)
            await generator.close()
    return found


@contextlib.contextmanager
def _told(found: dict[str, float | str], form: str) -> Generator[None]:
    try:
        yield
    except GeneratorError as error:
        found[form] = str(error)


def _import_architecture(base: Path) -> None:
    """Import vLLM's class here; otherwise vLLM inspects it in a process of its own, for 10 s."""
    from vllm import ModelRegistry

    for name in AutoConfig.from_pretrained(base).architectures or ():
        ModelRegistry.register_model(name, ModelRegistry.models[name].load_model_cls())


def compare_all(families: Iterable[str], folder: Path) -> None:
    """Write what `compare` finds to standard output, one family a line."""
    for family in families:
        found = asyncio.run(compare(family, folder / family))
        sys.stdout.write(f"{family} {found}\n")
