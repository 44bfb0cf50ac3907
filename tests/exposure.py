"""What a run shows to others: scans of its processes, files and texts for what must not be there.

Each scan returns findings as sentences; none is good.
"""

import ipaddress
import re
import stat
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path

import psutil

from coevolve.base.visible import UNSAFE
from coevolve.report.scripts import FOLDER, library

OTHERS = stat.S_IRWXG | stat.S_IRWXO

DRAWING = re.compile(r"\x1b\[[0-9;?]*[mAKhlJH]|\r")
"""Escape sequences of Rich: styles, and moves of the cursor for what is redrawn."""

HOSTILE = "\x1b]52;c;UExBTlQ=\x07\x1b[66;6T\x9b5n\u202e\u2066\u200b\u200d\x7f\x08\U000e0041"
"""Sets the clipboard, asks the terminal to type, turns and hides what follows."""

HOSTILE_PAGE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"

ACTIVE = frozenset(
    (
        *("script", "iframe", "object", "embed", "img", "link", "base", "form", "input", "button"),
        *("audio", "video", "source", "foreignobject", "use", "image", "animate", "set"),
    )
)
"""Elements of HTML and SVG that run something, fetch something or send something."""

OWN_FORMS = ("controls", "filters")
FIELDS = ("form", "input", "button")
"""Forms of the report, by id, which send nothing; and what they consist of."""

AROUND = 40


def reachable_sockets(processes: Iterable[psutil.Process]) -> list[str]:
    """Return the listening sockets that another machine can reach."""
    return [
        f"process {each.pid} ({_name(each)}) listens at {host}:{port}"
        for each in processes
        for host, port in listening(each)
        if not _is_loopback(host)
    ]


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """Return the addresses at which a process listens."""
    try:
        found = process.net_connections("inet")
    except psutil.Error:
        return []
    return [(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN]


def _is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:AROUND]
    except psutil.Error:
        return "gone"


def open_to_others(paths: Iterable[Path]) -> list[str]:
    """Return the files and folders that other users may read, change or enter."""
    found: list[str] = []
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        if not stat.S_ISLNK(mode) and mode & OTHERS:
            found.append(f"{path} has mode {stat.S_IMODE(mode):04o}")
    return found


def tree(folder: Path) -> list[Path]:
    """Return a folder and everything in it."""
    return [folder, *folder.rglob("*")]


def shared_memory(processes: Iterable[psutil.Process]) -> set[Path]:
    """Return the files of ``/dev/shm`` that processes have mapped, but removed ones."""
    found: set[Path] = set()
    for each in processes:
        try:
            found.update(Path(mapped.path) for mapped in each.memory_maps())
        except psutil.Error:
            continue
    return {path for path in found if path.is_relative_to("/dev/shm") and path.exists()}


def secrets_of_processes(
    processes: Iterable[psutil.Process], secrets: Mapping[str, str]
) -> list[str]:
    """Return the processes whose environment or command line holds one of the secrets."""
    found: list[str] = []
    for each in processes:
        for file in ("environ", "cmdline"):
            try:
                content = Path(f"/proc/{each.pid}/{file}").read_bytes()
            except OSError:
                continue
            held = [name for name, value in secrets.items() if value.encode() in content]
            found += [f"{file} of process {each.pid} ({_name(each)}) has {name}" for name in held]
    return found


def careless(processes: Iterable[psutil.Process]) -> list[str]:
    """Return the processes that may dump core, or that create files for other users."""
    found: list[str] = []
    for each in processes:
        try:
            status = Path(f"/proc/{each.pid}/status").read_text()
            limits = Path(f"/proc/{each.pid}/limits").read_text()
        except OSError:
            continue
        umask = re.search(r"^Umask:\s+(\d+)", status, re.MULTILINE)
        if umask and int(umask[1], 8) & OTHERS != OTHERS:
            found.append(f"process {each.pid} ({_name(each)}) has umask {umask[1]}")
        if not re.search(r"^Max core file size\s+0\s", limits, re.MULTILINE):
            found.append(f"process {each.pid} ({_name(each)}) may dump core")
    return found


def secrets_of_files(paths: Iterable[Path], secrets: Mapping[str, str]) -> list[str]:
    """Return the files that hold one of the secrets."""
    found: list[str] = []
    for path in paths:
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            held = [name for name, value in secrets.items() if value.encode() in content]
            found += [f"{path} has {name}" for name in held]
    return found


def unsafe(what: str, text: str, *, drawn: bool = False) -> list[str]:
    """Return the first character of a text that acts or hides; ``drawn`` allows Rich's own."""
    found = UNSAFE.search(DRAWING.sub("", text) if drawn else text)
    if found is None:
        return []
    around = found.string[max(0, found.start() - AROUND) : found.end() + AROUND]
    return [f"{what} holds {found[0]!r} in {around!r}"]


class _Active(HTMLParser):
    """Collects what could act in a browser, but the report's own scripts and forms."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._scripts = {library(), *(path.read_text() for path in FOLDER.glob("*.js"))}
        self._is_script = False
        self._is_own_form = False

    def handle_data(self, data: str) -> None:
        """Look at a script."""
        if self._is_script and data not in self._scripts:
            self.found.append("element <script>")

    def handle_endtag(self, tag: str) -> None:
        """Leave a script or a form."""
        self._is_script = self._is_script and tag != "script"
        self._is_own_form = self._is_own_form and tag != "form"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at an element."""
        self._is_own_form |= tag == "form" and dict(attrs).get("id") in OWN_FORMS
        if tag == "script":
            self._is_script = ("type", "application/json") not in attrs  # no browser runs those
        elif tag in ACTIVE and not (self._is_own_form and tag in FIELDS):
            self.found.append(f"element <{tag}>")
        self.found += [f"attribute {name}" for name, _ in attrs if name.startswith("on")]
        self.found += [
            f"link {value}"
            for name, value in attrs
            if name in ("href", "src") and re.match(r"\s*[a-z]+:", value or "", re.IGNORECASE)
        ]


def active_parts(what: str, page: str) -> list[str]:
    """Return the elements, handlers and links of an HTML page that act or fetch."""
    parser = _Active()
    parser.feed(page)
    return [f"{what} has {each}" for each in parser.found]
