from coevolve.environments.tools.gates import mutants
from coevolve.environments.tools.gates.mutants import IDLE, MAX_ALTERNATIVES
from coevolve.environments.tools.gates.reading import read_call, tools_of
from coevolve.environments.tools.gates.worlds import facts, names
from coevolve.environments.tools.task import ToolTask

TURNS = (("touch(file_name='a.txt')", "ls()", "ls()"), ("sort('a.txt')",))
TOOLS = tools_of(("GorillaFileSystem", "TwitterAPI", "TicketAPI"))
WORLD = (
    '{"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {'
    '"b.txt": {"type": "file", "content": "one two\\nred"}, '
    '"docs": {"type": "directory", "contents": {}}}}}}}'
)


def wrong(call: str, *others: str, seen: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    read = [[read_call(text, TOOLS) for text in (call, *others)]]
    every = mutants.slots(read)
    own = [slot for slot in every if slot.call == 0]
    return [mutants.wrong_values(slot, every, seen) for slot in own]


def test_in_every_turn_nothing_can_be_done() -> None:
    assert list(mutants.idle(TURNS)) == [((IDLE,), TURNS[1]), (TURNS[0], (IDLE,))]


def test_every_call_but_the_only_one_of_a_turn_can_be_left_out() -> None:
    touch, ls, _ = TURNS[0]
    left = [(ls, ls), (touch, ls), (touch, ls)]
    assert list(mutants.truncated(TURNS)) == [(calls, TURNS[1]) for calls in left]


def test_neighbours_that_differ_can_change_places() -> None:
    touch, ls, _ = TURNS[0]
    assert list(mutants.reordered(TURNS)) == [((ls, touch, ls), TURNS[1])]


def test_wrong_names_are_those_of_the_same_kind_that_are_there() -> None:
    seen = ("docs", "b.txt", "c.md", "d.csv", "e.txt", "two words")
    assert wrong("cat('a.txt')", seen=seen) == [("b.txt", "c.md", "d.csv", "a2.txt")]
    assert wrong("cat('a.txt')", "cat('z.txt')", seen=seen)[0][0] == "z.txt"
    assert wrong("cd('docs')", seen=seen) == [("docs2",)]
    assert wrong("echo('red fox', 'a.txt')", seen=seen)[0] == ("two words", "red fox too")


def test_wrong_numbers_flags_lists_and_tables_are_near_the_right_ones() -> None:
    assert wrong("tail('a.txt', 3)")[1] == (4, 2, 1, 6)
    assert wrong("tail('a.txt', 1)")[1] == (2, 0)
    assert wrong("ls(a=True)") == [(False,)]
    assert wrong("find(name=None)") == [("something",)]
    assert wrong("post_tweet('x', ['#a', '#b'], [])")[1:] == [
        (["#a"], ["#a2", "#b"]),
        (["something"],),
    ]
    assert wrong("edit_ticket(1, {'priority': 2})")[1] == (
        {"priority": 3},
        {"priority": 1},
        {"priority": 4},
        {},
    )
    assert all(
        1 <= len(values) <= MAX_ALTERNATIVES
        for values in wrong("edit_ticket(9, {'priority': 2, 'x': [1]})", seen=tuple("abcdefgh"))
    )


def test_a_value_is_exchanged_where_it_stands() -> None:
    read = [[read_call(call, TOOLS) for call in calls] for calls in TURNS]
    first, second = mutants.slots(read)
    assert mutants.with_value(TURNS, read, first, "b's")[0][0] == 'touch(file_name="b\'s")'
    assert mutants.with_value(TURNS, read, second, 7)[1] == ("sort(file_name=7)",)


def test_names_and_facts_of_a_world_are_read_from_its_state() -> None:
    body = ToolTask(classes=("GorillaFileSystem",), world=WORLD, turns=())
    assert names(body) == ("root", "home", "b.txt", "docs", "one", "two", "red")
    folder = "GorillaFileSystem/root/home"
    assert facts(body) >= {f"{folder}/b.txt=one two\nred", f"{folder}/docs", folder}
    listed = ToolTask(
        classes=("TicketAPI",), world='{"TicketAPI": {"queue": [{"id": 7}, {}]}}', turns=()
    )
    assert "TicketAPI/queue/id=7" in facts(listed)
    assert "7" in names(listed)
