"""vLLM serves each family as the learner trains it, or the engine refuses it with the reason."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.engine.vllm.environment import environment
from protocols.config import VllmEngine
from tests.served.families import DENSE, EXPERTS, FAMILIES
from tests.served.trained import FLOAT32
from tests.served.vllm_families import FORMS

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

FOREIGN = ("smollm3", "olmo3", "seed_oss")
"""Families that vLLM runs with transformers' code."""

REFUSED = {
    "cohere2": "computes other numbers than transformers",
    "mixtral": "stores the parameter model.layers.0.mlp.gate.weight of the model in an unknown way",
    "gpt_oss": "stores the parameter model.layers.0.mlp.experts.gate_up_proj of the model in an",
}
"""Families that vLLM computes differently, or whose weights the engine cannot find there.

vLLM lets a sliding layer of Cohere 2 see one token more than transformers does.
"""

WHOLE_ONLY = {
    "glm4": "vLLM cannot serve the adapter",
    "qwen3_moe": "experts.gate_up_proj of the model in an unknown way",
    "glm4_moe": "experts.gate_up_proj of the model in an unknown way",
}
"""Families that are served with merged adapters alone."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float | str]]:
    """What each family's engine served, in two processes.

    vLLM groups a process's ranks once, by its first model, and experts need a group of their own.
    """
    folder = tmp_path_factory.mktemp("families")
    with ThreadPoolExecutor(2) as pool:
        told = pool.map(lambda families: _compared(families, folder), (DENSE, EXPERTS))
    return {name: each for part in told for name, each in part.items()}


def _compared(families: Iterable[str], folder: Path) -> dict[str, dict[str, float | str]]:
    code = (
        f"from pathlib import Path; from tests.served.vllm_families import compare_all; "
        f"compare_all({list(families)}, Path({str(folder)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **environment(VllmEngine())},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.partition(" ") for line in done.stdout.splitlines() if line.endswith("}"))
    return {name: ast.literal_eval(told) for name, _, told in lines}


def expected(family: str, deliver: str) -> str | None:
    """Return the words of the refusal; None if the form is served."""
    if family in FOREIGN:
        return "needs an architecture that vLLM implements itself"
    return REFUSED.get(family) or (WHOLE_ONLY.get(family) if deliver == "adapter" else None)


@pytest.mark.parametrize(("deliver", "train"), FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_samples_are_scored_by_the_learner_as_they_were_sampled_or_refused(
    family: str, deliver: str, train: str, found: dict[str, dict[str, float | str]]
):
    told, words = found[family][f"{deliver} {train}"], expected(family, deliver)
    if words is None:
        assert isinstance(told, float), told
        assert told < FLOAT32
    else:
        assert words in str(told)
