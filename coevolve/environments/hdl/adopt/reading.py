"""Asks Verilator which files it reads for a module, and which of them are included where.

`read` runs Verilator as plain ``verilator --lint-only`` does, on the person's own files and without
a sandbox. It says which files were read, also from libraries. Verilator's preprocessor then marks
where each file begins and where an ``include`` ends, so that nothing here repeats its search.
"""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from coevolve.environments.hdl.adopt.file_list import FileList
from protocols.errors import ConfigError

PREFIX = "V"
TIMEOUT_S = 300
MOST_ERRORS = 8
OPTIONS = ("--timing", "--assert", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-SYMRSVDWORD")

_LINE = re.compile(r'^`line (\d+) "(.*)" ([012])$', re.MULTILINE)
_READ = re.compile(r'^S +\d+ .* "([^"]+)"$', re.MULTILINE)
_ERROR = re.compile(r"^%Error(?:-[A-Z0-9]+)?: (?!Exiting due)(.*)$", re.MULTILINE)
_MODULE = re.compile(r"^\s*module\s+(?:automatic\s+|static\s+)?(\w+)", re.MULTILINE)

REMEDIES = {
    "Cannot find file": "Add the files of these to the list, or -y and a folder that has each in a "
    "file of its name; they may be of another project. --bench takes the files of the testbench.",
    "Cannot find include": "Name the folders of these by -I.",
    "Import package": "Add the files of these to the list, before those that import them.",
    "Define or directive": "Define these by -D NAME=TEXT, or list the files that do first.",
}
"""What to do, by a part of Verilator's words."""


@dataclass(kw_only=True)
class Sources:
    """The files that Verilator reads for a module."""

    compiled: list[Path] = field(default_factory=list[Path])
    """In the order of compilation."""

    includes: dict[tuple[Path, int], Path] = field(default_factory=dict[tuple[Path, int], Path])
    """The file that an ``include`` brings, by the file and the line of the directive."""


@dataclass(frozen=True, kw_only=True)
class Verilator:
    """The program and the folder of its own files."""

    program: Path
    root: Path

    def read(self, given: FileList, top: str) -> Sources:
        """Return the files that the module ``top`` of a list is made of.

        Raises ConfigError with Verilator's own errors where it does not take the module.
        """
        with tempfile.TemporaryDirectory() as folder:
            checked = [*self._options(given), *map(str, given.files), "--top-module", top]
            checked += [f"-G{name}={value}" for name, value in given.parameters.items()]
            self._run(["--cc", "-O0", "--prefix", PREFIX, "--Mdir", folder, "--MMD", *checked], top)
            known = (Path(folder) / f"{PREFIX}__verFiles.dat").read_text(errors="replace")
        everything = list(dict.fromkeys(Path(each) for each in _READ.findall(known)))
        return self._ordered(given, top, everything)

    def _ordered(self, given: FileList, top: str, everything: Sequence[Path]) -> Sources:
        """Return the files in order; those of libraries, which only a name found, are the last."""
        own = (self.root, self.program.parent)
        found = self._marked(given, given.files, top)
        known = {each.resolve() for each in (*found.compiled, *found.includes.values())}
        library = [
            each
            for each in everything
            if each.resolve() not in known and not any(each.is_relative_to(root) for root in own)
        ]
        return self._marked(given, [*given.files, *library], top) if library else found

    def _marked(self, given: FileList, files: Sequence[Path], top: str) -> Sources:
        text = self.preprocessed(given, files, top)
        made = Sources()
        entered: list[Path] = []
        for match in _LINE.finditer(text):
            line, path, level = int(match[1]), Path(match[2]), match[3]
            if level == "2" and entered:
                made.includes.setdefault((path.resolve(), line), entered.pop())
            elif level == "1":
                entered.append(path)
        made.compiled = entered
        return made

    def preprocessed(self, given: FileList, files: Sequence[Path], top: str) -> str:
        """Return one text of the files, with a ``line`` directive at each begin and end.

        Raises ConfigError as `read`.
        """
        return self._run(["-E", *self._options(given), *map(str, files)], top)

    def _options(self, given: FileList) -> list[str]:
        made = [*OPTIONS, *given.options]
        for name, value in given.defines.items():
            made.append(f"-D{name}={value}" if value else f"-D{name}")
        return made

    def _run(self, arguments: Sequence[str], top: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603, the toolchain's own program
                [str(self.program), *arguments],
                env={**os.environ, "VERILATOR_ROOT": str(self.root)},
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{top}: Verilator took more than {TIMEOUT_S} s") from error
        if done.returncode:
            said = _ERROR.findall(done.stderr.decode(errors="replace"))[:MOST_ERRORS]
            words = "".join(said)
            said += [remedy for part, remedy in REMEDIES.items() if part in words]
            if "--top-module" in words:
                said.append(
                    f"Add its file, or name another by --top; found {_near(top, arguments)}"
                )
            raise ConfigError(
                f"{top}: Verilator itself does not take it:\n"
                + "\n".join(said or [shlex.join(arguments)])
            )
        return done.stdout.decode(errors="replace")


def _near(top: str, paths: Sequence[str]) -> str:
    """Return the modules of the files, those first that are called most like ``top``."""
    texts = [Path(each).read_text(errors="replace") for each in paths if Path(each).is_file()]
    found = {name for text in texts for name in _MODULE.findall(text)}
    return ", ".join(get_close_matches(top, found, MOST_ERRORS, 0)) or "none"


def without_files(sources: Sources, left_out: Sequence[Path]) -> Sources:
    """Return the sources without some compiled files, and without what only these include."""
    dropped = {path.resolve() for path in left_out}
    compiled = [path for path in sources.compiled if path.resolve() not in dropped]
    reached = {path.resolve() for path in compiled}
    for _ in sources.includes:
        reached |= {to.resolve() for (by, _), to in sources.includes.items() if by in reached}
    includes = {key: to for key, to in sources.includes.items() if key[0] in reached}
    return Sources(compiled=compiled, includes=includes)
