import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.policy.instructions import system_message
from coevolve.parts.privacy import UMASK
from protocols.config import ChatConfig
from tests.teaching import DESIGN, GOOD

if TYPE_CHECKING:
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer


@pytest.fixture(scope="module", autouse=True)
def umask_of_a_run() -> Iterator[None]:
    """Create files as the simulators of a run do, whose sandbox reads some as another user."""
    before = os.umask(UMASK)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model with random weights."""
    from tests.exporting import chat_model  # it loads torch

    files = [hardware.DESIGNS / DESIGN / name for name in (f"{DESIGN}.sv", "spec.md")]
    texts = [system_message("testbench", rules=True), GOOD, *map(Path.read_text, files)]
    return chat_model(tmp_path_factory.mktemp("models") / "student", texts * 4, vocabulary=4096)


@pytest.fixture(scope="session")
def renderer(student: Path) -> "ChatStepRenderer":
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer

    return ChatStepRenderer.load(student, ChatConfig(), HdlConfig())
