"""Worlds in the engine's processes: verdicts, refusals, and what a killed process leaves."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.appworld.engines import Engine, World
from coevolve.environments.appworld.frames import Answered, Called, Refused
from coevolve.environments.sandbox.runner import Sandbox
from protocols.errors import SimulatorError
from tests.coevolve.environments.appworld.episodes import observations, reference, tasks

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(300)]


def called(app: str, api: str, **arguments: object) -> Called:
    return Called(turn=1, app=app, api=api, arguments=msgspec.Raw(msgspec.json.encode(arguments)))


def end(
    engine: Engine, sandbox: Sandbox, task: str, blocks: list[str]
) -> tuple[bool, dict[str, str], bool]:
    """Return the evaluator's verdict, the digests of all tables, and whether it was completed."""
    world = engine.open(task)
    try:
        observations(sandbox, world, blocks)
        return world.evaluated().success, dict(world.digests()), world.completed()
    finally:
        world.close()


def test_all_own_tasks_are_solved_by_their_references_alone(
    data: Path, engine: Engine, own_sandbox: Sandbox
) -> None:
    assert len(tasks(data)) == 9
    for task in tasks(data):
        assert end(engine, own_sandbox, task, reference(data, task))[0]
    world = engine.open(tasks(data)[0])
    verdict = world.evaluated()
    assert not verdict.success
    assert {label for _, label in verdict.failures} == {"no_op_fail"}
    assert {label for _, label in verdict.passes} <= {"no_op_pass"}
    assert not world.completed()
    world.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (called("admin", "show_users"), "No API named 'show_users' found in the admin app."),
        (called("spotify", "__class__"), "No API named '__class__' found in the spotify app."),
        (called("_requester", "request"), "No API named 'request' found in the _requester app."),
        (called("spotify", "show_song", song_id=1, client=1), "Unexpected parameter 'client'."),
        (called("spotify", "show_song", song_id=1, track=False), "Unexpected parameter 'track'."),
        (called("spotify", "show_song", _system_datetime="x"), "parameter '_system_datetime'."),
        (called("spotify", "show_song", song_id=1, show=True), "Unexpected parameter 'show'."),
        (called("spotify", "show_song", song_id="x/../../admin"), "parameters are invalid."),
        (called("spotify", "show_song", song_id="1/private"), "parameters are invalid."),
    ],
)
def test_the_engine_answers_public_apis_with_their_own_parameters_alone(
    data: Path, engine: Engine, call: Called, message: str
) -> None:
    world = engine.open(tasks(data)[0])
    answer = world.call(call)
    assert isinstance(answer, Refused)
    assert message in answer.error
    assert isinstance(world.call(called("spotify", "show_song", song_id=1)), Answered)
    world.close()


@pytest.mark.parametrize(
    "arguments",
    [
        b"[1]",
        b"null",
        b'{"song_id": ' + b"9" * 10_000 + b"}",
        b'{"song_id": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"song_id": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"song_id": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"song_id": NaN}',
        b'{"song_id": "1/"}',
        b'{"song_id": ".."}',
        b'{"song_id": "1?x=1"}',
        b'{"song_id": "1%2Fx"}',
        b'{"song_id": ""}',
        b'{"access_token": "a\\nb", "song_id": 1}',
        b'{"access_token": {"a": 1}}',
    ],
)
def test_odd_arguments_are_the_policys_fault_and_the_world_goes_on(
    data: Path, engine: Engine, arguments: bytes
) -> None:
    world = engine.open(tasks(data)[0])
    odd = Called(turn=1, app="spotify", api="show_song", arguments=msgspec.Raw(arguments))
    world.call(odd)
    assert isinstance(world.call(called("spotify", "show_song", song_id=1)), Answered)
    assert not world.completed()
    world.close()


@pytest.mark.parametrize("answer", [b'"nan"', b'"-inf"', b"1e999", b'"1e999"'])
def test_an_answer_that_is_no_number_completes_the_task_and_fails(
    data: Path, engine: Engine, answer: bytes
) -> None:
    world = engine.open(tasks(data)[0])
    arguments = msgspec.Raw(b'{"answer": ' + answer + b"}")
    world.call(Called(turn=1, app="supervisor", api="complete_task", arguments=arguments))
    assert world.completed()
    assert world.digests()
    assert not world.evaluated().success
    world.close()


def test_a_world_takes_and_holds_so_much_data_at_most(data: Path, engine: Engine) -> None:
    world = engine.open(tasks(data)[0])
    large = called("supervisor", "complete_task", answer="x" * 900_000)
    answers = [world.call(large) for _ in range(20)]
    assert isinstance(answers[0], Answered)
    refused = answers[-1]
    assert isinstance(refused, Refused)
    assert refused.error == "The apps take no more data."
    assert world.digests()
    world.close()


def test_worlds_of_one_task_share_nothing(data: Path, engine: Engine) -> None:
    task = tasks(data)[0]
    first, second = engine.open(task), engine.open(task)
    before = second.digests()
    first.call(called("supervisor", "complete_task", answer=1))
    assert first.completed()
    assert not second.completed()
    assert second.digests() == before != first.digests()
    first.close()
    second.close()


TEXTS = """
passwords = {a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}
number = apis.supervisor.show_profile()["phone_number"]
token = apis.phone.login(username=number, password=passwords["phone"])["access_token"]
numbers = sorted(c["phone_number"] for c in apis.phone.search_contacts(access_token=token))[:2]
for number in numbers[::STEP]:
    apis.phone.send_text_message(phone_number=number, message="Late", access_token=token)
apis.supervisor.complete_task(answer=ANSWER)
"""


def test_the_order_of_additions_and_the_form_of_an_answer_do_not_count(
    data: Path, engine: Engine, own_sandbox: Sandbox
) -> None:
    def digests(step: int, answer: str, text: str = "Late") -> dict[str, str]:
        block = TEXTS.replace("STEP", str(step)).replace("ANSWER", answer).replace("Late", text)
        return end(engine, own_sandbox, tasks(data)[0], [block])[1]

    expected = digests(1, "8")
    assert digests(-1, "' 8 '") == expected
    assert digests(1, "9") != expected
    differing = digests(-1, "8", "Early")
    assert {"phone.GlobalTextMessage", "phone.UserTextMessage"} <= {
        name for name, digest in differing.items() if digest != expected[name]
    }


def test_an_unknown_task_and_data_that_are_none_are_told(data: Path, engine: Engine) -> None:
    with pytest.raises(SimulatorError, match="doesn't exist"):
        engine.open("nothing_1")
    with pytest.raises(SimulatorError, match="does not start on the data in /nowhere"):
        Engine(Path("/nowhere")).open("nothing_1")


def test_a_killed_server_is_replaced_and_open_worlds_go_on(data: Path, engine: Engine) -> None:
    task = tasks(data)[0]
    world = engine.open(task)
    os.kill(engine.pid, signal.SIGKILL)
    assert waited(lambda: not alive(engine.pid))
    assert not world.completed()
    world.close()
    again = engine.open(task)
    assert not again.completed()
    again.close()


def test_a_killed_world_is_an_infrastructure_failure(data: Path, engine: Engine) -> None:
    world = engine.open(tasks(data)[0])
    (child,) = children(engine.pid)
    os.kill(child, signal.SIGKILL)
    with pytest.raises(SimulatorError, match=r"ended a world|does not answer"):
        world.completed()
    world.close()


def test_worlds_leave_no_process_and_no_folder(data: Path, engine: Engine) -> None:
    task = tasks(data)[0]
    worlds: list[World] = [engine.open(task) for _ in range(3)]
    folders = [world._folder.path for world in worlds]
    assert len(children(engine.pid)) == 3
    for world in worlds:
        world.close()
    assert waited(lambda: not children(engine.pid))
    assert not any(folder.exists() for folder in folders)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def waited(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
