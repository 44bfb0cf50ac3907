import pytest

from coevolve.environments.tools.filesystem.manual import manual
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.filesystem.surroundings import Surroundings, says_something, texts

TOOLS = manual(CLASS)


def around() -> Surroundings:
    seen = Surroundings()
    seen.add(["./docs", "./docs/a.txt", "./b.md", "./lab"])
    return seen


def test_a_look_around_tells_what_lies_where() -> None:
    seen = around()
    assert (seen.files(), seen.folders()) == (["b.md"], ["docs", "lab"])
    assert (seen.files_in("docs"), seen.files_in("lab")) == (["a.txt"], [])


def test_going_somewhere_and_back_changes_what_is_here() -> None:
    seen = around()
    seen.learn(TOOLS["cd"], {"folder": "docs"})
    assert (seen.files(), seen.folders()) == (["a.txt"], [])
    seen.learn(TOOLS["cd"], {"folder": ".."})
    assert seen.files() == ["b.md"]


def test_what_is_made_is_here_and_what_is_taken_away_is_not() -> None:
    seen = around()
    seen.learn(TOOLS["mkdir"], {"dir_name": "new"})
    seen.learn(TOOLS["mv"], {"source": "b.md", "destination": "new"})
    assert seen.files() == []
    assert seen.files_in("new") == ["b.md"]
    seen.learn(TOOLS["touch"], {"file_name": "c.csv"})
    seen.learn(TOOLS["cp"], {"source": "c.csv", "destination": "d.csv"})
    seen.learn(TOOLS["rm"], {"file_name": "c.csv"})
    assert seen.files() == ["d.csv"]


def test_the_texts_of_an_answer_are_those_of_its_object() -> None:
    assert texts('{"matches": ["./a", "./b"], "count": 2}') == ["./a", "./b"]
    assert texts("None") == texts("Error during execution: x") == []


@pytest.mark.parametrize("result", ["None", "", "{}", '{"matches": []}', '{"diff_lines": ""}'])
def test_an_empty_answer_says_nothing(result: str) -> None:
    assert not says_something(result)


@pytest.mark.parametrize("result", ['{"count": 0}', '{"matches": ["./a"]}', "plain"])
def test_any_other_answer_does(result: str) -> None:
    assert says_something(result)
