from coevolve.environments.tools.filesystem.manual import manual
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.toolsets import tool_documents

TOOLS = manual(CLASS)


def wants(tool: str) -> list[str]:
    return [parameter.want for parameter in TOOLS[tool].parameters]


def test_every_documented_tool_is_in_the_manual() -> None:
    assert list(TOOLS) == [document.name for document in tool_documents(CLASS)]


def test_the_documents_say_what_parameters_want() -> None:
    assert wants("cat") == ["file"]
    assert wants("mkdir") == ["new_folder"]
    assert wants("touch") == ["new_file"]
    assert wants("mv") == wants("cp") == ["file", "target"]
    assert wants("echo") == ["text", "file"]
    assert wants("grep") == ["file", "word"]
    assert wants("diff") == ["file", "file"]
    assert wants("tail") == ["file", "number"]
    assert wants("ls") == ["flag"]
    assert wants("find") == ["default", "sought"]
    assert TOOLS["wc"].parameters[1].options == ("l", "w", "c")
    assert TOOLS["find"].parameters[0].options == (".",)


def test_the_documents_say_what_calls_leave_behind() -> None:
    assert {name for name, tool in TOOLS.items() if tool.makes} == {"mkdir", "touch"}
    assert {name for name, tool in TOOLS.items() if tool.moves} == {"cd"}
    assert {name for name, tool in TOOLS.items() if tool.shows} == {"cat", "tail"}
    assert {name for name, tool in TOOLS.items() if tool.locates} == {"find"}
    assert {name for name, tool in TOOLS.items() if tool.takes_away} == {"rm", "rmdir", "mv"}
