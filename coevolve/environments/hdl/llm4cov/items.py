"""Reads the items of the benchmark CVDP-ECov as designs.

A file has one item a line, as JSON. Two layouts are read:

- rows of LLM4Cov's data set ``hez2024/cvdp_ecov_eval`` (arXiv 2602.16953), as
  ``datasets.Dataset.to_json`` writes them;
- rows of NVIDIA's CVDP itself (arXiv 2506.14074): those of its category cid012, whose harness has
  the RTL, the instance and the target. Rows of other categories are left out.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from coevolve.environments.hdl.adopt.pins import clock_and_reset
from coevolve.environments.hdl.designs.design import Design, DesignFile
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.gate.tokens import read
from coevolve.environments.sdk import boundary, bytes_of
from protocols.errors import ConfigError

OVERALL = "Overall Average"
STIMULI = "cid012"
"""CVDP's category of testbenches that only drive a design."""

MOST_BYTES = 1 << 30
"""Maximum size of a file."""

_ASSERTED = re.compile(r'metrics\s*\[\s*"(\w+)"\s*\]\s*\[\s*"(\w+)"\s*\]\s*>=')
_AIM = re.compile(r"^\s*TARGET\s*=\s*([\d.]+)\s*$", re.MULTILINE)


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an item."""

    name: str
    content: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A coverage that a testbench has to reach."""

    inst_name: str
    metric: str
    """A column of the answer's summary, such as ``Overall Average``."""

    target_percentage: float


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item; other fields of its row are ignored."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,199}\Z")]
    rtl_files: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    spec_files: tuple[Text, ...] = ()
    dut_module_name: str
    dut_instance_name: str
    instruction: str
    targets: tuple[Target, ...]


class _Prompt(msgspec.Struct, frozen=True):
    prompt: str


class _Harness(msgspec.Struct, frozen=True):
    files: dict[str, str]


class _Cvdp(msgspec.Struct, frozen=True, kw_only=True):
    """A row of CVDP."""

    id: str
    categories: tuple[str, ...]
    input: _Prompt
    harness: _Harness


class _Layout(msgspec.Struct, frozen=True):
    categories: tuple[str, ...] | None = None


def items(path: Path) -> tuple[Item, ...]:
    """Return the items of a file. Raises ConfigError with the line at fault and a remedy."""
    with boundary(ConfigError, f"{path}: cannot be read", named=path):
        lines = bytes_of(path, MOST_BYTES).splitlines()
    found: dict[str, Item] = {}
    for number, line in enumerate(lines, start=1):
        for item in _item(line, f"{path}:{number}") if line.strip() else ():
            if item.id in found:
                raise ConfigError(f"{path}:{number}: a second item is called {item.id}; remove one")
            found[item.id] = item
    if not found:
        raise ConfigError(
            f"{path}: needs rows of CVDP-ECov, or of CVDP's category {STIMULI}, found none"
        )
    return tuple(found.values())


def _item(line: bytes, place: str) -> Iterator[Item]:
    """Yield the line's item, if it is one of the benchmark."""
    try:
        categories = msgspec.json.decode(line, type=_Layout).categories
        if categories is None:
            yield msgspec.json.decode(line, type=Item)
        elif STIMULI in categories:
            yield _from_cvdp(msgspec.json.decode(line, type=_Cvdp))
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(
            f"{place}: needs a row of hez2024/cvdp_ecov_eval or of CVDP as JSON, found another: "
            f"{error}; write the rows by Dataset.to_json"
        ) from error


def _from_cvdp(row: _Cvdp) -> Item:
    """Return a row of CVDP as an item. Raises ValueError where its harness is unlike the others."""
    files = {PurePosixPath(name): text for name, text in row.harness.files.items()}
    rtl = {path.name: text for path, text in files.items() if path.suffix in (".sv", ".v", ".svh")}
    asserted = [found for text in files.values() for found in _ASSERTED.findall(text)]
    aims = [found for text in files.values() for found in _AIM.findall(text)]
    tops = _tops(list(rtl.values()))
    if len(asserted) != 1 or len(aims) != 1 or len(tops) != 1:
        raise ValueError(
            f"the harness needs one comparison of metrics, one TARGET and one top module, found "
            f"{len(asserted)}, {len(aims)} and {len(tops)}"
        )
    instance, metric = asserted[0]
    aim = Target(inst_name=instance, metric=f"Overall {metric}", target_percentage=float(aims[0]))
    fields = {
        "id": row.id,
        "rtl_files": [{"name": name, "content": text} for name, text in rtl.items()],
        "dut_module_name": tops[0],
        "dut_instance_name": instance,
        "instruction": row.input.prompt,
        "targets": [msgspec.structs.asdict(aim)],
    }
    return msgspec.convert(fields, Item)


def _tops(texts: Sequence[str]) -> list[str]:
    """Return the modules that are declared, and used by none."""
    names = ["", "", *(word.name for text in texts for word in read(text)[0])]
    declared: list[str] = []
    used: set[str] = set()
    for before, last, name in zip(names, names[1:], names[2:], strict=False):
        if last == "module":
            declared.append(name)
        elif (before, last) != ("endmodule", ":"):
            used.add(name)
    return [name for name in declared if name not in used]


def designs_of(given: Sequence[Item], root: Path) -> tuple[dict[str, Design], dict[str, str]]:
    """Write the items as folders of ``root``; return their designs, and why others have none.

    Raises ConfigError if none has.
    """
    designs: dict[str, Design] = {}
    refused: dict[str, str] = {}
    for item in given:
        folder = root / item.id
        folder.mkdir()
        try:
            with boundary(ConfigError, f"{item.id}: its files cannot be written"):
                designs[item.id] = _written(item, folder)
        except ConfigError as error:
            refused[item.id] = str(error)
            shutil.rmtree(folder)
    if not designs:
        raise ConfigError("no item is a design here:\n" + "\n".join(refused.values()))
    return designs, refused


def _written(item: Item, folder: Path) -> Design:
    names = tuple(PurePosixPath(each.name).name for each in item.rtl_files)
    if len(set(names)) < len(names):
        raise ConfigError(f"{item.id}: two files of RTL have the same name; rename one")
    for name, file in zip(names, item.rtl_files, strict=True):
        (folder / name).write_text(file.content, encoding="utf-8")
    words = [*(each.content for each in item.spec_files), item.instruction]
    (folder / "spec.md").write_text("\n\n".join(words), encoding="utf-8")
    file = DesignFile(
        top=item.dut_module_name, adopted=True, split="held_out", files=names, threshold=1.0
    )
    _describe(folder, file)
    found = load(folder)
    clock, reset = clock_and_reset(found.ports, found.unit.files)
    _describe(folder, msgspec.structs.replace(file, clock=clock, reset=reset))
    return load(folder)


def _describe(folder: Path, file: DesignFile) -> None:
    fields = msgspec.to_builtins(file)
    known = {name: value for name, value in fields.items() if value not in (None, "", [], ())}
    (folder / "design.yaml").write_bytes(msgspec.json.encode(known))
