"""The wordings of conversations with tools."""

from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.wordings import wordings_of
from coevolve.validation.wordings import Wording


def body(*turns: tuple[str, *tuple[str, ...]]) -> ToolTask:
    return ToolTask(
        classes=("GorillaFileSystem",),
        world="{}",
        turns=tuple(ToolTurn(instruction=said, reference=tuple(calls)) for said, *calls in turns),
    )


def test_values_become_slots_and_tools_the_meaning():
    found = wordings_of(
        body(
            ("Show the last 3 lines of 'a.txt'.", "tail(file_name='a.txt', lines=3)"),
            ("Put  a.txt into docs", "mv(source='a.txt', destination='docs')"),
            ("Delete both.", "cd(folder='docs')", "rm(file_name='b')", "rm(file_name='c')"),
        )
    )
    assert found == (
        Wording("show the last # lines of #.", "tail", 0),
        Wording("put # into #", "mv", 1),
        Wording("delete both.", "cd, then rm", 2),
    )


def test_what_was_asked_before_a_tool_was_there_belongs_to_the_wording():
    found = wordings_of(body(("Read 'x.txt'.",), ("", "cat(file_name='x.txt')")))
    assert found == (Wording("read #.", "cat", 1),)
