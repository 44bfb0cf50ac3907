"""Checks, in a new interpreter, which modules an import may load."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMPOSITION_ROOTS = {
    "coevolve.api",
    "coevolve.cli.attach_views.live",
    "coevolve.cli.detached",
    "coevolve.cli.launching",
    "coevolve.launcher.cluster",
    "coevolve.launcher.compose",
    "coevolve.launcher.forking",
    "coevolve.launcher.launch",
    "coevolve.launcher.placement",
    "coevolve.launcher.session",
}
VLLM = "coevolve.engine.vllm"
"""vLLM itself loads Ray if Ray is installed."""

OTHER_PYTHONS = (
    "coevolve.environments.appworld.engine.",
    "coevolve.environments.program.examples.mcp_worker",
    "coevolve.environments.program.examples.openenv_worker",
    "coevolve.environments.program.examples.verifiers_worker",
)
"""Programs that run on a Python with other packages."""

MODEL_USERS = (
    "coevolve.environments.appworld.renderer",
    "coevolve.environments.tools.chat.endpoint",
    "coevolve.environments.tools.chat.named_calls",
    "coevolve.environments.tools.chat.renderer",
    "coevolve.environments.tools.toolbox.model",
    "coevolve.models.chat_template",
    "coevolve.delivery.tensors",
    "coevolve.engine",
    "coevolve.export.versions",
    "coevolve.export.weights",
    "coevolve.environments.hdl.policy.chat",
    "coevolve.environments.hdl.policy.tiny.model",
    "coevolve.models.word_model",
    "coevolve.learning",
    "coevolve.models.load",
    "coevolve.models.tiny_random.model",
    "coevolve.weights",
)


def modules(package: str) -> list[str]:
    """Return every module below a package folder that this Python can import, by dotted name."""
    found = (path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py"))
    names = sorted(".".join(path.with_suffix("").parts) for path in found if path.stem[0] != "_")
    return [name for name in names if not name.startswith(OTHER_PYTHONS)]


def loaded_by(names: list[str]) -> set[str]:
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(finished.stdout.split())


def test_coevolve_loads_without_ray():
    names = [n for n in modules("coevolve") if n not in COMPOSITION_ROOTS]
    names = [n for n in names if not n.startswith(VLLM) or n == f"{VLLM}.environment"]
    assert len(names) > 40
    assert not {"ray", "actors"} & loaded_by(names)


def test_messages_load_nothing_heavy():
    heavy = {"ray", "torch", "transformers", "vllm", "numpy", "lmdb", "coevolve", "actors"}
    assert not heavy & loaded_by(modules("protocols"))


def test_processes_without_a_model_load_neither_torch_nor_transformers():
    names = ["coevolve.cli.launching", "coevolve.cli.attach_views.live", *modules("actors")]
    assert not {"torch", "transformers", "vllm"} & loaded_by(names)


COMMANDS_OF_MODELS = {
    "coevolve.commands.audit",
    "coevolve.commands.evaluate",
    "coevolve.commands.replay",
    "coevolve.commands.row_time",
    "coevolve.commands.serve",
}


def test_modules_without_model_work_load_no_torch():
    names = [n for n in modules("coevolve") if not n.startswith(MODEL_USERS)]
    names = [n for n in names if n not in COMMANDS_OF_MODELS]
    assert not {"torch", "transformers"} & loaded_by(names)
