"""The server of worlds: one process that has imported the engine, and a fork of it for each world.

It runs on a plain Python with the engine's packages alone, and holds what a policy must not reach:
databases, ground truth, evaluator. It never runs a policy's code: it is asked for API calls by
name, with JSON as arguments, and only for those that `apis` of a task offers. Standard input is a
socket over which the owner hands the socket of each new world. A world ends when its socket closes,
the server when its own does.

Only one world fits into a process, because the engine's databases belong to classes; a fork of the
server opens one in a fortieth of the time of a new process.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import gc
import hashlib
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, get_args

LENGTH = struct.Struct("<I")
OWN_PARAMETERS = frozenset(
    {"_app_name", "_api_name", "_system_datetime", "client", "show", "track"}
)
"""Parameters of the engine's functions that belong to no API."""

NO_SEGMENT = re.compile(r"[/?#%\\]|^\.{0,2}$")
"""What is no single segment of a URL's path."""

CALL_S = 20.0
"""Seconds after which a call is interrupted."""

MOST_GIVEN, MOST_GROWN, MOST_SHOWN = 8 << 20, 16 << 20, 8 << 20
"""Characters of arguments that a world takes, bytes by which an app's records may grow until it
takes no more calls, and bytes of an answer. No task comes near them; without them, code could
fill this process with data until it dies, which would look like a failure of the machine."""

FULL = "The apps take no more data."


class Link:
    """Frames to and from the owner: a length in four bytes, little-endian, and that much JSON."""

    def __init__(self, held: socket.socket) -> None:
        self._file = held.makefile("rwb")

    def receive(self) -> dict[str, Any] | None:
        """Return the next order; None if the owner is gone.

        Raises ValueError and RecursionError: arguments in it may come from a policy.
        """
        prefix = self._file.read(LENGTH.size)
        if len(prefix) < LENGTH.size:
            return None
        (size,) = LENGTH.unpack(prefix)
        return json.loads(self._file.read(size))

    def send(self, answer: Any) -> None:
        """Send an answer; if it is too long, a refusal of the call."""
        # Texts may hold what a policy wrote, and so unpaired surrogates.
        content = json.dumps(answer, ensure_ascii=False).encode(errors="replace")
        if len(content) > MOST_SHOWN:
            content = json.dumps({"answer": refused("The answer is too long.")}).encode()
        self._file.write(LENGTH.pack(len(content)) + content)
        self._file.flush()


def refused(error: str, kind: str = "Exception") -> dict[str, Any]:
    """Return the answer to a call that raises an error in the policy's code."""
    return {"error": error, "kind": kind}


def strays(value: Any) -> bool:
    """Return whether a value in a URL's path could lead to another route, a private API's say."""
    return bool(NO_SEGMENT.search(str(value)))


def out_of_time(*_: object) -> NoReturn:
    """End a call."""
    raise TimeoutError(f"The call took more than {CALL_S:g} seconds.")


class World:
    """One open task. Orders are its methods' names, and their arguments."""

    def __init__(self, task: str, folder: str, data: str) -> None:
        """Open ``task`` of the folder ``data``; what the engine writes goes into ``folder``."""
        from appworld.apps.supervisor.constants import TASK_STATUS_LITERAL
        from appworld.environment import AppWorld
        from appworld.requester import _get_api_name_to_doc
        from records import Records

        (Path(folder) / "data").symlink_to(data)
        os.environ["APPWORLD_ROOT"] = folder
        self._world = AppWorld(
            task_id=task, experiment_name="coevolve", max_api_calls_per_interaction=None
        )
        self._apis = self._world.apis
        self._ends = get_args(TASK_STATUS_LITERAL)
        self._public = {app: sorted(held) for app, held in self._apis.items() if app != "admin"}
        self._task = self._world.task
        self._documents = _get_api_name_to_doc
        self._records = {app: Records(self._world.models[app]) for app in self._task.allowed_apps}
        self._left = MOST_GIVEN
        signal.signal(signal.SIGALRM, out_of_time)

    def opened(self) -> dict[str, Any]:
        """Return what the task shows to a policy and its interpreter."""
        from appworld.common import safety_guard

        supervisor = self._task.supervisor
        return {
            "instruction": self._task.instruction,
            "now": self._task.datetime.isoformat(),
            "supervisor": {
                name: getattr(supervisor, name)
                for name in ("first_name", "last_name", "email", "phone_number")
            },
            "apps": self._public,
            "modules": sorted(safety_guard.ALLOWED_MODULE_NAMES - {"appworld"}),
            "functions": sorted(safety_guard.DISALLOWED_FUNCTION_PATHS),
        }

    def call(self, app: str, api: str, arguments: Any) -> dict[str, Any]:
        if api not in self._public.get(app, ()):
            return refused(f"No API named '{api}' found in the {app} app.")
        if not isinstance(arguments, dict):
            return refused("The parameters are not named.")
        if own := sorted(OWN_PARAMETERS & arguments.keys()):
            return refused(f"Unexpected parameter '{own[0]}'.")
        path = self._documents(app, include_private_apis=True)[api]["path"]
        if any(strays(value) for name, value in arguments.items() if f"{{{name}}}" in path):
            return refused("API not found or some of the passed parameters are invalid.")
        self._left -= len(str(arguments))
        if self._left < 0 or (app in self._records and self._records[app].grown() > MOST_GROWN):
            return refused(FULL)
        signal.setitimer(signal.ITIMER_REAL, CALL_S)
        try:
            return {"value": self._apis[app][api](**arguments)}
        except Exception as error:  # noqa: BLE001, it goes to the policy's code
            return refused(str(error), type(error).__name__)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def completed(self) -> bool:
        """Return whether the task was completed.

        The engine asks an API for the whole task, which fails if the answer is no JSON: "nan".
        """
        return self._world.models["supervisor"]["Task"].first().status in self._ends

    def cpu_s(self) -> float:
        return time.process_time()

    def digests(self) -> dict[str, str]:
        """Return a digest of each table with rows: equal if it holds the same records.

        Ids of records that were added do not count, and of the task only status and answer do, in
        the form in which the engine's evaluator compares answers.
        """
        from records import answer_hash

        found: dict[str, str] = {}
        for app, records in self._records.items():
            for name, hashes in records.hashes().items():
                if hashes:
                    digest = hashlib.sha256("\n".join(hashes).encode())
                    found[f"{app}.{name}"] = digest.hexdigest()[:16]
        found["supervisor.Task"] = answer_hash(self._world.models["supervisor"])[:16]
        return found

    def evaluated(self) -> dict[str, Any]:
        """Return the official evaluator's verdict."""
        self._world._save_state(self._world.output_db_home_path_on_disk)
        found = self._world.evaluate()
        return {
            "success": bool(found.success),
            "passes": [[each["requirement"], each["label"]] for each in found.passes],
            "failures": [[each["requirement"], each["label"]] for each in found.failures],
        }


def serve(held: socket.socket, data: str) -> None:
    """Carry out the orders on one world until its socket closes."""
    link = Link(held)
    first = link.receive()
    if first is None:
        return
    if "make" in first:
        link.send(made(first["make"], data))
        return
    try:
        world = World(first["task"], first["folder"], data)
        opened = world.opened()
    except Exception as error:  # noqa: BLE001, told to the owner
        link.send({"failure": f"{type(error).__name__}: {error}"})
        return
    orders: dict[str, Callable[..., Any]] = {
        "call": world.call,
        "completed": world.completed,
        "cpu_s": world.cpu_s,
        "digests": world.digests,
        "evaluated": world.evaluated,
    }
    link.send({"answer": opened})
    while True:
        try:
            order = link.receive()
        except (ValueError, RecursionError) as error:
            link.send({"answer": refused(str(error), type(error).__name__)})
            continue
        if order is None:
            return
        name = order.pop("order")
        try:
            link.send({"answer": orders[name](**order)})
        except Exception as error:  # noqa: BLE001, told to the owner
            link.send({"failure": f"{type(error).__name__}: {error}"})


def made(tasks: list[str], data: str) -> dict[str, Any]:
    """Write own tasks, and return whether that worked."""
    import worlds

    try:
        for task in tasks:
            worlds.make_task(Path(data), task)
    except Exception as error:  # noqa: BLE001, told to the owner
        return {"failure": f"{type(error).__name__}: {error}"}
    return {"answer": True}


class NoShell:
    """Stands for the engine's shell: no code is run here."""

    def __init__(self, **_: Any) -> None:
        self.user_ns: dict[str, Any] = {}

    def run_cell(self, code: str) -> None:
        """Run nothing."""


def warm(data: str) -> None:
    """Import and build what every world needs, without starting a thread."""
    os.environ["APPWORLD_ROOT"] = str(Path(data).parent)
    import records
    from appworld import environment, requester
    from appworld.apps import build_main_app, get_all_apps
    from appworld.collections.api_docs import ApiDocCollection
    from appworld.common.datetime import DateTime
    from appworld.common.utils import freeze_time, import_apis_module

    assert records
    environment.InteractiveShellEmbed = NoShell
    apps = get_all_apps()
    ApiDocCollection.load(
        load_apps=tuple(get_all_apps(skip_admin=True)), include_response_schemas=True
    )
    for app in get_all_apps(skip_admin=True):
        requester._get_api_name_to_doc(app, include_private_apis=True)
    for app in apps:
        import_apis_module(app)
    built = build_main_app(tuple(sorted(apps)))
    requester.build_main_app = lambda names=None: built
    # The first time that the clock is stopped, all modules are searched for clocks.
    with freeze_time(DateTime(2023, 5, 18)):
        pass
    gc.collect()
    gc.freeze()


def main(packages: str, data: str, memory_mb: str) -> NoReturn:
    """Fork a process for each world that is asked for, with so much address space at most."""
    orders = socket.socket(fileno=os.dup(0))
    sys.path[:0] = [packages]
    sys.path.append(str(Path(__file__).parent))
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_mb) << 20, int(memory_mb) << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    warm(data)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The owner keeps what is said up to here, so nothing after it may fill its file.
    os.dup2(0, 1)
    os.dup2(0, 2)
    orders.sendall(b"!")
    while True:
        _, handed, _, _ = socket.recv_fds(orders, 1, 1)
        if not handed:
            os._exit(0)
        with socket.socket(fileno=handed[0]) as held:
            if os.fork() == 0:
                orders.close()
                try:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    serve(held, data)
                finally:
                    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
