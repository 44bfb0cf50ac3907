import json
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.tools.bfcl.arithmetic import MAX_PRECISION
from coevolve.environments.tools.bfcl.directory import places, working_directory
from coevolve.environments.tools.commands import Failed, Passed
from coevolve.environments.tools.endings import OUT_OF_MEMORY
from coevolve.environments.tools.session import Session, World
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.toolset import STATE_MISMATCH
from protocols.errors import SimulatorError

WORLD = json.dumps(
    {
        "GorillaFileSystem": {
            "root": {
                "home": {
                    "type": "directory",
                    "contents": {
                        "a.txt": {"type": "file", "content": "one\ntwo"},
                        "d": {"type": "directory", "contents": {}},
                    },
                }
            }
        }
    }
)


def files(*references: tuple[str, ...], checks_directory: bool = False) -> ToolTask:
    return ToolTask(
        classes=("GorillaFileSystem",),
        world=WORLD,
        turns=tuple(ToolTurn(instruction="do", reference=calls) for calls in references),
        checks_directory=checks_directory,
    )


def only(name: str, world: str = "{}", reference: tuple[str, ...] = ()) -> ToolTask:
    return ToolTask(
        classes=(name,), world=world, turns=(ToolTurn(instruction="do", reference=reference),)
    )


def test_a_world_answers_calls_and_shows_its_simulators() -> None:
    world = World(files(()))
    assert world.call("cat(file_name='a.txt')").result == '{"file_content": "one\\ntwo"}'
    assert not world.call("cd(folder='d')").failed
    assert working_directory(world.instances["GorillaFileSystem"]) == "/home/d"
    assert list(world.instances["GorillaFileSystem"].root.contents) == ["a.txt", "d"]
    assert world.call("cat(file_name='b.txt')").failed


def test_refused_calls_change_nothing(tmp_path: Path) -> None:
    sentinel = tmp_path / "executed"
    world = World(files(()))
    for text in (
        f"touch(file_name=str(open({str(sentinel)!r}, 'w')))",
        f"open({str(sentinel)!r}, 'w')",
        f"__import__('pathlib').Path({str(sentinel)!r}).touch()",
        "_load_scenario({})",
        "root.contents.clear()",
        "touch.__self__.rm(file_name='a.txt')",
        "[rm(file_name='a.txt')]",
        "rm(file_name='a.txt').get('x')",
        "rm(file_name=rm(file_name='a.txt'))",
    ):
        observed = world.call(text)
        assert observed.failed
        assert observed.result.startswith("Error during execution: ")
    assert not sentinel.exists()
    assert world.call("ls()").result == '{"current_directory_content": ["a.txt", "d"]}'


def test_an_invalid_call_does_not_count_as_a_call() -> None:
    session = Session(files(("ls()",), ("ls()",)))
    session.act("ls()")
    assert session.grade() == Passed()
    session.act("now I list the files")
    assert session.grade() == Failed(reason="empty_turn_model_response")


def test_after_a_failed_turn_every_turn_fails() -> None:
    session = Session(files(("touch(file_name='b')",), ()))
    session.act("touch(file_name='c')")
    assert session.grade() == Failed(reason="instance_state_mismatch")
    assert session.grade() == Failed(reason="instance_state_mismatch")
    with pytest.raises(SimulatorError, match="2 turns of the session have been graded already"):
        session.grade()


def test_the_working_directory_counts_if_the_task_says_so() -> None:
    for checks, verdict in ((False, Passed()), (True, Failed(reason="working_directory_mismatch"))):
        session = Session(files(("ls()",), checks_directory=checks))
        session.act("ls()")
        session.act("cd(folder='d')")
        assert session.grade() == verdict


def test_a_folder_in_itself_ends_the_session() -> None:
    session = Session(files(("ls()",), ()))
    assert not session.act("ls()").failed
    for call in ("cp(source='d', destination='d')", "rm(file_name='d')", "ls()"):
        assert session.act(call) == OUT_OF_MEMORY.answer
    for _ in range(5):
        assert session.grade() == OUT_OF_MEMORY.verdict
    assert session.digest() == ""


def test_a_task_with_an_endless_reference_cannot_be_passed() -> None:
    session = Session(files(("cp(source='d', destination='d')",)))
    session.act("ls()")
    assert session.grade() == OUT_OF_MEMORY.verdict


def test_a_conversation_has_a_maximum_length() -> None:
    session = Session(only("MathAPI"))
    answers = [session.act(f"add('{'1' * 18_000}')") for _ in range(120)]
    assert answers.index(OUT_OF_MEMORY.answer) > 100
    assert session.grade() == OUT_OF_MEMORY.verdict


def test_a_directory_lost_by_its_own_move_fails_the_turn() -> None:
    session = Session(files(("ls()",)))
    session.act("ls()")
    session.act("mv(source='d', destination='d')")
    assert session.grade() == Failed(reason="instance_state_mismatch")


ALIASED = (
    "mkdir(dir_name='a')",
    "cd(folder='a')",
    "mkdir(dir_name='c')",
    "cd(folder='..')",
    "mv(source='a', destination='b')",
    "mkdir(dir_name='a')",
    "cd(folder='a')",
    "mkdir(dir_name='c')",
    "cd(folder='..')",
)
"""Leaves a/c and b/c, both of which say that they are /home/a/c."""


@pytest.mark.parametrize("reference", ["a", "b"])
@pytest.mark.parametrize("policy", ["a", "b"])
def test_two_directories_that_go_by_one_path_are_told_apart(reference: str, policy: str) -> None:
    body = files((*ALIASED, f"cd(folder='{reference}')", "cd(folder='c')"), checks_directory=True)
    session = Session(body)
    back = (f"cd(folder='{reference}')", "cd(folder='..')")
    for call in (*ALIASED, *back, f"cd(folder='{policy}')", "cd(folder='c')"):
        assert not session.act(call).failed
    assert working_directory(session.world.instances["GorillaFileSystem"]) == "/home/a/c"
    expected = Passed() if policy == reference else Failed(reason="working_directory_mismatch")
    assert session.grade() == expected


def test_a_directory_that_is_no_longer_in_the_tree_is_not_the_reference_s() -> None:
    session = Session(files(("ls()", "cd(folder='d')"), checks_directory=True))
    calls = [
        "ls()",
        "cd(folder='d')",
        "mkdir(dir_name='x')",
        "cd(folder='..')",
        "mv(source='d', destination='e')",
        "cd(folder='e')",
        "cd(folder='x')",
        "cd(folder='..')",
    ]
    for call in calls:
        assert not session.act(call).failed
    assert session.act("rm(file_name='x')").result == """{"result": "'x' removed"}"""
    assert working_directory(session.world.instances["GorillaFileSystem"]) == "/home/d"
    assert places(session.world.instances["GorillaFileSystem"]) == set()
    assert isinstance(session.grade(), Failed)


def test_a_withheld_tool_does_not_exist_until_it_is_revealed() -> None:
    body = ToolTask(
        classes=("GorillaFileSystem",),
        world=WORLD,
        turns=(
            ToolTurn(instruction="list", reference=()),
            ToolTurn(instruction="", reference=("ls()",), revealed=("ls",)),
        ),
        withheld=("ls", "rm"),
    )
    session = Session(body)
    assert session.act("ls()").result == "Error during execution: name 'ls' is not defined"
    assert session.grade() == Passed()
    assert not session.act("ls()").failed
    assert session.act("rm(file_name='a.txt')").failed
    assert session.grade() == Passed()


def test_strict_grading_wants_answers_in_their_turn_and_no_change_where_nothing_is_asked() -> None:
    twice = files(("ls()",), ("ls()",), ())
    for strict, verdict in ((False, Passed()), (True, Failed(reason=MISMATCH, call="ls()"))):
        session = Session(msgspec.structs.replace(twice, strict=strict))
        session.act("ls()")
        assert session.grade() == Passed()
        session.act("pwd()")
        assert session.grade() == verdict
    for call, verdict in (("ls()", Passed()), ("touch('x')", Failed(reason=STATE_MISMATCH))):
        session = Session(msgspec.structs.replace(files(()), strict=True))
        session.act(call)
        assert session.grade() == verdict


MISMATCH = "execution_response_mismatch"


def test_sessions_do_not_see_each_other_through_shared_defaults() -> None:
    login = "authenticate_twitter(username='john', password='john123')"
    first, second = (World(only("TwitterAPI")) for _ in range(2))
    for world in (first, second):
        assert not world.call(login).failed
    tweet = json.loads(first.call("post_tweet(content='x')").result)
    first.call(f"mention(tweet_id={tweet['id']}, mentioned_usernames=['@eve'])")
    assert json.loads(second.call("post_tweet(content='x')").result)["mentions"] == []


def test_too_high_a_precision_is_refused() -> None:
    world = World(only("MathAPI"))
    assert (
        world.call("square_root(number=2, precision=5)").result == "{'result': Decimal('1.4142')}"
    )
    for call in (
        f"square_root(number=2, precision={MAX_PRECISION + 1})",
        "square_root(2, 99999999)",
        "logarithm(2, 10, 99999999)",
        "logarithm(value=2, base=10, precision=1e12)",
    ):
        assert "the precision is at most" in world.call(call).result


def test_an_unknown_class_or_world_is_not_the_policy_s_fault() -> None:
    with pytest.raises(SimulatorError, match="unknown simulator class Shell"):
        World(only("Shell"))
    with pytest.raises(SimulatorError, match="world does not load"):
        World(only("GorillaFileSystem", '{"GorillaFileSystem": {"root": {"x": 1}}}'))
    with pytest.raises(SimulatorError, match="world does not load"):
        World(only("GorillaFileSystem", "{"))
