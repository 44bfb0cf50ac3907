"""Runs every block that tries to leave the interpreter, as whoever starts this.

``python -m tests.coevolve.environments.appworld.ordinary_user`` prints, for each level of the
sandbox, the number of blocks, and the labels of those that read or wrote something.
"""

import sys
import tempfile
from pathlib import Path

import msgspec

from coevolve.environments.appworld.frames import Answered, Called
from coevolve.environments.appworld.interpreter import Interpreter, Settings
from coevolve.environments.sandbox.levels import SandboxLevel
from coevolve.environments.sandbox.runner import Sandbox
from tests.coevolve.environments.appworld.hostile_blocks import HEAD, LEAVES, MODULES

LEVELS: tuple[SandboxLevel, ...] = ("namespaces", "seccomp")
SECRET_WORD = "a-secret-word"


def answer(_: Called) -> Answered:
    return Answered(value=msgspec.Raw(b"1"))


def leaks(sandbox: Sandbox, folder: Path, block: str) -> bool:
    settings = Settings(
        python=Path(sys.executable), apps={"notes": ("show",)}, modules=MODULES, block_s=5.0
    )
    head = HEAD.format(secret=str(folder / "secret.txt"), written=str(folder / "written"))
    interpreter = Interpreter(sandbox, settings)
    shown = interpreter.run(head + block, answer)
    interpreter.close()
    held = sorted(path.name for path in folder.iterdir())
    kept = held == ["secret.txt"] and (folder / "secret.txt").read_text() == SECRET_WORD
    return not kept or SECRET_WORD in shown or "root:" in shown


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "secret.txt").write_text(SECRET_WORD)
        for level in LEVELS:
            sandbox = Sandbox([], level)
            found = [label for label, block in LEAVES.items() if leaks(sandbox, folder, block)]
            sys.stdout.write(f"{level} {len(LEAVES)} {found}\n")


if __name__ == "__main__":
    main()
