"""Run files by path, or by the name of one that coevolve carries."""

import difflib
import itertools
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from pathlib import Path

from coevolve.base.foreign import boundary, bytes_of, shown
from coevolve.base.shipped import configs
from protocols.errors import ConfigError

MOST_BYTES = 262_144
"""Maximum bytes of a run file; a device or a pipe may have no end."""


def carried() -> Mapping[str, Path]:
    """Return the run files that coevolve carries, by name."""
    return {path.stem: path for path in sorted(configs().glob("*.yaml"))}


def run_file(name: str) -> Path:
    """Return the run file that ``name`` means.

    A file that exists wins; else ``quickstart``, ``quickstart.yaml`` and
    ``configs/quickstart.yaml`` all name the run file that coevolve carries.

    Raises:
        ConfigError: There is no such file, or it is a folder.
    """
    with boundary(ConfigError, f"needs the path or the name of a run file, found {shown(name)}"):
        return _run_file(Path(name), carried())


def _run_file(path: Path, known: Mapping[str, Path]) -> Path:
    if path.exists() and not path.is_dir():
        return path
    if path.parent.as_posix() in (".", "configs") and path.suffix in ("", ".yaml"):
        found = known.get(path.stem)
        if found:
            return found
    if path.is_symlink() and not path.exists():
        raise ConfigError(f"{path}: is a symbolic link that leads to no file; name a run file")
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder{_inside(path)}; name a run file")
    raise ConfigError(f"{path}: there is no such run file{_hint(path, known)}")


def text_of(path: Path) -> str:
    """Return the text of a run file, comments included.

    Raises:
        ConfigError: It cannot be read, or is no UTF-8 text.
    """
    try:
        return bytes_of(path, MOST_BYTES).removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: cannot be read as UTF-8 text: byte {error.start + 1} is no part of it; save "
            "the file as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: cannot be a run file: {error}") from error


def purpose(path: Path) -> str:
    """Return the first sentence of a run file's leading comment; empty if it has none."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("# "), lines)
    said = " ".join(line.removeprefix("#").strip() for line in comment)
    return re.split(r"(?<=[.:]) (?=[A-Z])|(?<=[.]) ", said, maxsplit=1)[0]


def _inside(folder: Path) -> str:
    found = sorted(path.name for path in folder.glob("*.yaml"))
    return f" with {', '.join(found[:5])}" if found else ""


def _hint(path: Path, known: Mapping[str, Path]) -> str:
    if "=" in path.name:
        return "; the run file stands before its overrides"
    beside = {file.stem: f"{file}" for file in path.parent.glob("*.yaml")}
    offered = {name: name for name in known} | beside
    near = difflib.get_close_matches(path.stem, offered, 2)
    if near:
        return f"; did you mean {' or '.join(offered[each] for each in near)}?"
    return f"; coevolve carries {', '.join(known)}, or give the path of your own"
