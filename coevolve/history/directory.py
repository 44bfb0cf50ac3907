"""A run's folder: `config.yaml store/ checkpoints/ versions/ logs/ metrics.jsonl run.json`.

If the run makes its own initial model, the folder also has `model/`; if no terminal shows its
output, `launch.log`.

`coevolve.runs.starting` begins and continues such a folder, `coevolve.history.finding` finds it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from coevolve.base.durable_files import replace_file
from coevolve.base.foreign import boundary, bytes_of
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.reader import STORE_FOLDER
from coevolve.models.tiny_random.resolve import running
from coevolve.yaml.text import parse_yaml, write_yaml
from protocols.config import RunConfig
from protocols.errors import RunError

MOST_BYTES = 1 << 20
"""Maximum bytes of `run.json` and `config.yaml`."""

MAX_PROCESS_ID = 2**31 - 1

LAUNCH_LOG = "launch.log"
"""File with the output of a run that no terminal shows."""

REMEDY = (
    "; put it back as it was: the journal's first record holds the settings that the run was "
    "started with. To change settings, give them to `coevolve resume`"
)
"""What to do about a `config.yaml` that was changed."""


class RunIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: the identity of the run, and the process and cluster of its last start."""

    run_id: str
    name: str
    namespace: str
    """Ray namespace of the run's actors."""

    address: str
    """Address of the Ray cluster; empty until the run has one."""

    pid: Annotated[int, msgspec.Meta(ge=1, le=MAX_PROCESS_ID)]
    """Id of the process that launched the run, on its own machine."""


@dataclass(frozen=True)
class RunDirectory:
    """Paths inside a run's folder."""

    path: Path

    @property
    def store(self) -> Path:
        """The journal's folder."""
        return self.path / STORE_FOLDER

    @property
    def metrics(self) -> Path:
        """File with one JSON object per step or evaluation."""
        return self.path / "metrics.jsonl"

    @property
    def report(self) -> Path:
        """The report page."""
        return self.path / "report.html"

    @property
    def called(self) -> Path:
        """What a command typed in the working folder calls this run."""
        return Path(self.path.name) if self.path.parent == Path("runs").resolve() else self.path

    def identity(self) -> RunIdentity:
        """Return the content of `run.json`. Raises RunError if it is missing or broken."""
        path = self.path / "run.json"
        remedy = "; put it back as it was, or start another run with name=another-name"
        with boundary(RunError, f"{path}: cannot be read", remedy):
            try:
                return msgspec.json.decode(bytes_of(path, MOST_BYTES), type=RunIdentity)
            except FileNotFoundError as error:
                raise RunError(
                    f"{self.path}: is no run directory, it has no run.json; "
                    "give the folder of a run, for example runs/quickstart"
                ) from error

    def write_identity(self, identity: RunIdentity) -> None:
        """Replace `run.json` atomically."""
        content = msgspec.json.format(msgspec.json.encode(identity), indent=2)
        replace_file(self.path / "run.json", content)

    def config(self) -> RunConfig:
        """Return the settings with which the run's parts were last started."""
        return running(self.written_config(), self.path)

    def written_config(self) -> RunConfig:
        """Return the user's config of the last start or resume."""
        path = self.config_file()
        with boundary(RunError, f"{path}: cannot be read", REMEDY):
            return msgspec.convert(parse_yaml(bytes_of(path, MOST_BYTES).decode()), RunConfig)

    def config_written_ns(self) -> int:
        """Return the Unix time when the config was written. Raises RunError."""
        path = self.path / "config.yaml"
        with boundary(RunError, f"{path}: cannot be read", REMEDY):
            return path.stat().st_mtime_ns

    def config_file(self) -> Path:
        """Return `config.yaml`, which is as `write_config` wrote it. Raises RunError."""
        path = self.path / "config.yaml"
        what = f"{path}: cannot be read"
        with boundary(RunError, what, REMEDY):
            first, _, rest = bytes_of(path, MOST_BYTES).partition(b"\n")
        if first != digest_line(rest):
            raise RunError(
                f"{what}: its first line needs the SHA-256 of the other lines, so some were "
                f"changed{REMEDY}"
            )
        return path

    def write_config(self, config: RunConfig) -> None:
        """Write the resolved config, including all defaults."""
        lines = write_yaml(config).encode()
        replace_file(self.path / "config.yaml", digest_line(lines) + b"\n" + lines)

    def record_launch(self, config: RunConfig, identity: RunIdentity) -> None:
        """Write the config and the identity of the launching process.

        For an existing run, call this only when its journal is open, because no other process can
        then run it.
        """
        try:
            self.write_config(config)
            self.write_identity(identity)
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be written: {error}; free space on the disk, or give this "
                "user the right to write there"
            ) from error


def digest_line(lines: bytes) -> bytes:
    """Return the first line of `config.yaml`, which tells whether the others were changed."""
    return f"# SHA-256 of the lines below: {hashlib.sha256(lines).hexdigest()}".encode()


def has_journal(directory: RunDirectory) -> bool:
    file = directory.store / DATA_FILE
    return file.is_file() and file.stat().st_size > 0
