"""Reads and checks one request of an LLM4Cov client: the sources, the testbench, the options.

The manifest is that of the authors' file-drop client (arXiv 2602.16953, later release); additional
fields are ignored. A name has to be that of a file directly in the given folder: links, folders and
paths out of it are refused.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from coevolve.environments.hdl.gate.encoding import bench_text, rtl_text
from coevolve.environments.hdl.llm4cov import confined
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    SimulationLimits,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.sdk import boundary
from protocols.errors import ConfigError

MAX_FILE_BYTES = 4 << 20
DETAIL_CHARACTERS = 4000
TESTBENCH_FILE = "tb.sv"

FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``manifest.json``."""

    job_id: str
    dut: str
    """Module under verification."""

    tb: FileName
    sv_files: Annotated[tuple[FileName, ...], msgspec.Meta(min_length=1)]
    cov_type: str = "all"
    metrics: tuple[str, ...] = ()
    """No effect: every metric is in the answer."""

    timeout: Annotated[float, msgspec.Meta(gt=0.0)] = 600.0
    """Timeout of each stage, in seconds."""

    skip_detail: bool = False
    inputs_sha256: dict[FileName, Sha256]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A request that can be evaluated."""

    unit: Unit
    testbench_file: str
    """The client's name of the testbench's file."""

    request: Evaluate
    detail_limit: int


def from_manifest(folder: int, job_id: str) -> Job:
    """Return the job in an open folder, which has ``manifest.json`` and ``inputs/``.

    Raises ConfigError if the manifest is invalid, or an input is missing or has another hash.
    """
    with boundary(ConfigError, "manifest.json cannot be read"):
        manifest = msgspec.json.decode(_bytes(".", "manifest.json", inside=folder), type=Manifest)
    if manifest.job_id != job_id:
        raise ConfigError(f"manifest.json: job_id must be {job_id!r}, found {manifest.job_id!r}")
    names = dict.fromkeys((*manifest.sv_files, manifest.tb))
    texts = {
        name: _decoded(
            _read_input(folder, name, manifest.inputs_sha256),
            name,
            testbench=name == manifest.tb,
        )
        for name in names
    }
    return job(
        dut=manifest.dut,
        rtl={name: texts[name] for name in manifest.sv_files if name != manifest.tb},
        testbench_file=manifest.tb,
        testbench=texts[manifest.tb],
        cov_type=manifest.cov_type,
        timeout_s=manifest.timeout,
        detail_limit=0 if manifest.skip_detail else DETAIL_CHARACTERS,
    )


def job(
    *,
    dut: str,
    rtl: Mapping[str, str],
    testbench_file: str,
    testbench: str,
    cov_type: str,
    timeout_s: float,
    detail_limit: int,
) -> Job:
    """Return the job; a timeout can lower this simulator's own limits but not raise them."""
    if cov_type != "all":
        raise ConfigError(f"cov_type must be 'all', found {cov_type!r}")
    if not rtl:
        raise ConfigError("sv_files needs a file besides the testbench, found none")
    if TESTBENCH_FILE in rtl:
        raise ConfigError(
            f"{TESTBENCH_FILE} is the testbench's name here; give the RTL another one"
        )
    limits = SimulationLimits()
    unit = Unit(
        name=dut,
        files=tuple(SourceFile(name=name, text=text) for name, text in rtl.items()),
        top=dut,
    )
    request = Evaluate(
        unit=unit,
        submission=Testbench(text=testbench),
        limits=SimulationLimits(
            cpu_s=min(limits.cpu_s, timeout_s),
            compile_cpu_s=min(limits.compile_cpu_s, timeout_s),
            wall_s=min(limits.wall_s, 3 * timeout_s),
        ),
    )
    return Job(unit=unit, testbench_file=testbench_file, request=request, detail_limit=detail_limit)


def read_text(folder: Path, name: str, *, testbench: bool = False) -> str:
    """Return the text of RTL, or of a testbench, in the folder. Raises ConfigError."""
    return _decoded(_bytes(folder, name), name, testbench=testbench)


def _decoded(data: bytes, name: str, *, testbench: bool) -> str:
    try:
        return bench_text(data) if testbench else rtl_text(data)
    except ValueError as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


def _read_input(folder: int, name: str, digests: Mapping[str, str]) -> bytes:
    data = _bytes("inputs", name, inside=folder)
    expected, found = digests.get(name, ""), hashlib.sha256(data).hexdigest()
    if not expected:
        raise ConfigError(f"manifest.json: inputs_sha256 needs an entry for {name}, found none")
    if found != expected:
        raise ConfigError(f"{name} must have SHA-256 {expected}, found {found}; submit it again")
    return data


def _bytes(folder: Path | str, name: str, *, inside: int | None = None) -> bytes:
    try:
        with confined.folder(folder, inside=inside) as held:
            data = confined.read(held, name, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{name} must have at most {MAX_FILE_BYTES} bytes, found more")
    return data
