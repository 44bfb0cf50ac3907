"""What a local Ray cluster leaves on this machine, and who can reach it.

Ray itself opens its session's folder to all users, listens on every interface, gives all of the
launcher's environment variables to each of its processes, and writes its token readable for all.
"""

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Collection, Generator
from functools import partial
from pathlib import Path
from typing import cast

import psutil
from ray._private import ray_constants, services

from coevolve.base.visible import visible
from coevolve.models.scratch_folder import ScratchFolder, sweep
from coevolve.parts.logs import FOLDER
from coevolve.runs.reach import listens
from protocols.errors import RunError

PREFIX = "cvray-"
"""First letters of the folder's name; they are few because paths of sockets are short."""

INNER = "r"
"""The folder in it that Ray opens to all users, who cannot reach it."""

NEEDED_BYTES = 10_000_000
"""Free space that a start asks for. Ray writes about 1 MB while it starts, and without that its
processes die one after the other and do not say why. A run whose folder fills later goes on."""

KEPT_BYTES = 1_000_000
"""Maximum of each of Ray's logs that is kept after a failure: its end."""

SECRET = re.compile(
    r"(^|_)(API_?KEY|ACCESS_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)",
    re.IGNORECASE,
)
"""A name of an environment variable whose value is a secret."""

RAY_TOKEN = frozenset({"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"})
"""Variables that Ray's own processes read."""

JOIN_REMEDY = "if the cluster asks for a token, ~/.ray/auth_token or RAY_AUTH_TOKEN needs it here"
"""What may help if a cluster cannot be joined; Ray's own errors do not say it."""

TOKEN_FILE = Path(".ray") / "auth_token"
"""Ray's token, in the user's home: whoever reads it can join each of the user's clusters."""


@contextlib.contextmanager
def session_folder(run: Path) -> Generator[Path]:
    """Yield a folder for Ray that only this user can enter; remove it after the block.

    If the block raises an error, Ray's own logs are copied to the run's folder. Folders that killed
    launchers left are removed too. Raises RunError if there is no place for the folder.
    """
    base = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    sweep(PREFIX, base)
    try:
        _need_room(base)
        folder = ScratchFolder(PREFIX, base)
    except OSError as error:
        raise RunError(f"Ray cannot reach or start a local cluster: {error}") from error
    with folder:
        try:
            yield folder.path
        except BaseException:
            _keep_logs(folder.path / INNER, run / FOLDER / "ray")
            raise


def _need_room(base: Path) -> None:
    free_bytes = shutil.disk_usage(base).free
    if free_bytes < NEEDED_BYTES:
        raise RunError(
            f"a local Ray cluster needs {NEEDED_BYTES / 1e6:.0f} MB for its logs and sockets in "
            f"{base}, found {free_bytes / 1e6:.1f} MB free; make room there, or name another "
            "folder with a short path, such as RAY_TMPDIR=/var/tmp"
        )


def _keep_logs(session: Path, target: Path) -> None:
    """Copy the ends of Ray's logs, as far as they can be read."""
    with contextlib.suppress(OSError):
        target.mkdir(parents=True, exist_ok=True)
        for log in session.glob("session_*_*/logs/*"):
            if log.is_file() and not log.is_symlink() and not log.parents[1].is_symlink():
                text = log.read_bytes()[-KEPT_BYTES:].decode(errors="replace")
                (target / log.name).write_text(visible(text))


@contextlib.contextmanager
def withheld(passed_on: Collection[str], keys: Collection[str]) -> Generator[dict[str, str]]:
    """Take secrets out of this process's environment for the block, and yield them by variable.

    They are the variables in ``keys``, and those whose names say so. ``passed_on`` stay.
    """
    kept = RAY_TOKEN | set(passed_on)
    secrets = {
        name: value
        for name, value in os.environ.items()
        if (name in keys or SECRET.search(name)) and name not in kept
    }
    for name in secrets:
        del os.environ[name]
    try:
        yield secrets
    finally:
        os.environ.update(secrets)


def hide_token() -> None:
    """Let only the user read Ray's token file, if there is one."""
    with contextlib.suppress(OSError, RuntimeError):
        file = Path.home() / TOKEN_FILE
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            file.chmod(stat.S_IRUSR | stat.S_IWUSR)


def address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface. Raises RunError if there is none."""
    interfaces = psutil.net_if_addrs()
    for each in interfaces.get(interface, ()):
        if each.family == socket.AF_INET:
            return each.address
    raise RunError(
        f"cluster.interface: needs an interface of this machine with an IPv4 address, found "
        f"{interface!r}; the interfaces are {', '.join(sorted(interfaces))}"
    )


@contextlib.contextmanager
def on_loopback() -> Generator[None]:
    """Let a Ray cluster that starts in the block, or a driver that joins one, use loopback only.

    Ray has this switch for macOS and Windows, and reads its variable only when it is imported.
    """
    before = cast("bool", ray_constants.ENABLE_RAY_CLUSTER)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def reaching(address: str) -> Generator[None]:
    """Let a driver join, in the block, the cluster at ``address``, also if it is on loopback only.

    Ray replaces a loopback address by another one of this machine.
    """
    host, _, port = address.rpartition(":")
    own = cast("str", services.get_node_ip_address())
    alone = host in ("127.0.0.1", "localhost") and not listens(f"{own}:{port}")
    with on_loopback() if alone else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def sessions_of_their_own() -> Generator[None]:
    """Let each process that Ray starts in the block lead a session, which its children share.

    `timeout`, batch systems, `kill -- -PGID` and a terminal that closes signal the launcher's whole
    process group. In that group, Ray would end before the run can stop. Ray has no setting for it.
    """
    before = services.ConsolePopen
    services.ConsolePopen = partial(before, start_new_session=True)
    try:
        yield
    finally:
        services.ConsolePopen = before
