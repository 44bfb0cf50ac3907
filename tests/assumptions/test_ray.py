"""Facts about Ray: how it starts processes, merges environments, and ends and restarts actors."""

import contextlib
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import ray
from ray._private import node, ray_constants, services
from ray._private import state as ray_state
from ray.exceptions import RayActorError, RayTaskError
from ray.runtime_env import runtime_env

from coevolve.launcher.vital import SERVERS, vital_processes

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

ANSWER_S = 60.0


@contextlib.contextmanager
def started() -> Generator[int]:
    """Yield a process as Ray starts its own."""
    process = services.start_ray_process(["sleep", "50"], "reaper", fate_share=False).process
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_ray_starts_its_processes_in_the_group_of_their_starter():
    """Ray starts its processes in the process group and the session of their starter.

    Needed by: coevolve/launcher/session.py
    """
    with started() as pid:
        assert os.getpgid(pid) == os.getpgid(0)
        assert os.getsid(pid) == os.getsid(0)


def test_ray_blocks_the_interrupt_of_a_terminal_in_its_processes():
    """Ray blocks SIGINT, and no other signal, in the processes that it starts.

    Needed by: coevolve/launcher/session.py
    """
    with started() as pid:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    blocked = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk"))
    own = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in own
    assert blocked == 1 << (signal.SIGINT - 1)


def test_ray_looks_the_class_up_with_which_it_starts_a_process():
    """Ray looks the class that starts its processes up by name at each start.

    Needed by: coevolve/launcher/session.py
    """
    before, asked = services.ConsolePopen, list[object]()

    def note(*words: Any, **options: Any) -> object:
        asked.append(words[0])
        return before(*words, **options)

    services.ConsolePopen = note
    try:
        with started():
            assert asked == [["sleep", "50"]]
    finally:
        services.ConsolePopen = before


def merged(parent: object, child: object) -> object:
    """Return what Ray makes of the environments of a job and of its driver."""
    return cast("Any", runtime_env)._merge_runtime_env(parent, child)


def test_an_entry_that_a_job_and_its_driver_name_is_a_conflict():
    """Ray refuses a driver's runtime environment that repeats an entry of its job's.

    Needed by: coevolve/launcher/cluster.py
    """
    assert merged({"working_dir": "a"}, {"working_dir": "a"}) is None


def test_variables_are_merged_one_by_one_and_an_equal_one_is_a_conflict():
    """Ray merges the variables of a job and its driver by name and refuses one that both set.

    Needed by: coevolve/launcher/cluster.py
    """
    parent = {"env_vars": {"A": "1"}}
    assert merged(parent, {"env_vars": {"B": "2"}}) == {"env_vars": {"A": "1", "B": "2"}}
    assert merged(parent, {"env_vars": {"A": "1"}}) is None


def test_without_clusters_ray_takes_the_loopback_address():
    """Ray gives this machine the loopback address while its switch for clusters is off.

    Needed by: coevolve/launcher/session.py
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        assert services.get_node_ip_address() == "127.0.0.1"
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


class _Fragile:
    """An actor that ends in the ways that a part does."""

    def __init__(self, starts: bool = True) -> None:
        if not starts:
            raise ValueError("no such model")

    def pid(self) -> int:
        """Return its process."""
        return os.getpid()

    def fail(self) -> None:
        """Raise an error."""
        raise KeyError("missing")

    def die(self) -> None:
        """End the process."""
        os.kill(os.getpid(), signal.SIGKILL)


Fragile: Any = ray.remote(num_cpus=0, max_restarts=-1)(_Fragile)


@pytest.fixture(scope="module")
def cluster() -> Generator[None]:
    """A local cluster for the facts that need one."""
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        namespace="facts",
    )
    yield
    ray.shutdown()


def answer(call: Any) -> Any:
    """Return an actor's answer."""
    return cast("Any", ray).get(call.remote(), timeout=ANSWER_S)


def restarted(actor: Any, before: int) -> int:
    """Return the next process of an actor that ended."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            if (pid := answer(actor.pid)) != before:
                return pid
        except RayActorError:
            time.sleep(0.05)
        assert time.monotonic() < deadline


@pytest.mark.usefixtures("cluster")
def test_an_actor_that_dies_restarts_in_another_process():
    """An actor with unlimited restarts that is killed answers again from another process.

    Needed by: actors/part.py, coevolve/runs/supervisor.py
    """
    actor = Fragile.remote()
    before = answer(actor.pid)
    with pytest.raises(RayActorError):
        answer(actor.die)
    assert restarted(actor, before) != before


@pytest.mark.usefixtures("cluster")
def test_a_killed_actor_may_restart():
    """Ray restarts an actor that it was asked to kill with a restart.

    Needed by: actors/part.py
    """
    actor = Fragile.remote()
    before = answer(actor.pid)
    ray.kill(actor, no_restart=False)
    assert restarted(actor, before) != before


@pytest.mark.usefixtures("cluster")
def test_an_error_of_an_actor_comes_with_its_cause_and_its_process_lives():
    """A call that raises gives the caller the original error as the cause, and the actor lives.

    Needed by: actors/part.py
    """
    actor = Fragile.remote()
    before = answer(actor.pid)
    with pytest.raises(RayTaskError) as raised:
        answer(actor.fail)
    assert isinstance(raised.value.cause, KeyError)
    assert answer(actor.pid) == before


@pytest.mark.usefixtures("cluster")
def test_an_actor_whose_constructor_raises_is_dead_for_good():
    """An actor whose constructor raises an error is marked so, and Ray never starts it again.

    Needed by: actors/part.py
    """
    actor = Fragile.remote(starts=False)
    with pytest.raises(RayActorError) as raised:
        answer(actor.pid)
    assert raised.value.actor_init_failed
    state = cast("dict[str, str]", ray_state.actors(actor._actor_id.hex()))
    assert state["State"] == "DEAD"


@pytest.mark.usefixtures("cluster")
def test_an_actor_of_a_name_is_found_in_its_namespace():
    """Ray lists named actors with their namespaces.

    Needed by: coevolve/cli/attach_views/live.py
    """
    actor = Fragile.options(name="store").remote()
    answer(actor.pid)
    named = cast("list[dict[str, str]]", ray.util.list_named_actors(all_namespaces=True))
    assert {"name": "store", "namespace": "facts"} in named


@pytest.mark.usefixtures("cluster")
def test_the_folder_of_a_session_ends_with_the_id_of_its_starter():
    """The name of a session's folder ends with the id of the process that started it.

    Needed by: coevolve/runs/sessions.py
    """
    found = cast("node.Node", cast("Any", ray)._private.worker._global_node)
    assert Path(found.get_session_dir_path()).name.endswith(f"_{os.getpid()}")


@pytest.mark.usefixtures("cluster")
def test_a_cluster_has_two_servers_and_two_agents():
    """Ray's node names its control service and its raylet, whose children are two agents.

    Needed by: coevolve/launcher/vital.py, coevolve/launcher/cluster.py
    """
    found = cast("node.Node", cast("Any", ray)._private.worker._global_node)
    servers = {kind: each[0].process.pid for kind, each in found.all_processes.items()}
    vital = vital_processes(servers)
    assert SERVERS.keys() < vital.keys()
    assert len(vital) == 4
    assert all(psutil.pid_exists(pid) for pid in vital.values())
