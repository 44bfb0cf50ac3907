from coevolve.environments.tools.filesystem.belief import Description, believed, wording
from coevolve.environments.tools.filesystem.walk import Slice

READ = Slice(
    calls=("cd(folder='docs')", "cat(file_name='a.txt')"),
    results=('{"current_working_directory": "docs"}', '{"file_content": "red"}'),
)
RIGHT = Description("Go into 'docs' and read 'a.txt'.", -1.1, -0.1)
OTHER_NAME = Description("Go into 'docs' and read 'b.txt'.", -1.1, -2.0)
NO_PARTS = frozenset[str]()


def test_the_first_instruction_with_the_right_names_is_accepted() -> None:
    assert believed(READ, [OTHER_NAME, RIGHT], NO_PARTS) == RIGHT.text
    assert believed(READ, [OTHER_NAME], NO_PARTS) is None


def test_varying_wording_is_not_accepted() -> None:
    unsure = Description("Inside 'docs', sort 'a.txt'.", -2.2, 0.0)
    assert believed(READ, [unsure, unsure], NO_PARTS) is None
    assert believed(READ, [RIGHT, RIGHT, unsure], NO_PARTS) is None
    assert believed(READ, [RIGHT] * 4 + [unsure], NO_PARTS) == RIGHT.text


def test_an_improbable_sample_is_not_accepted() -> None:
    odd = Description("Going 'docs' of 'a.txt'.", -2.4, 0.0)
    assert believed(READ, [odd, RIGHT, RIGHT, RIGHT, RIGHT], NO_PARTS) == RIGHT.text


def test_names_that_were_copied_by_chance_give_way_to_probable_ones() -> None:
    chance = Description("Show me 'a.txt' from the folder 'docs'.", -1.1, -3.0)
    assert believed(READ, [chance, RIGHT], NO_PARTS) == RIGHT.text


def test_an_instruction_for_one_of_several_calls_is_not_accepted_for_all() -> None:
    assert believed(READ, [RIGHT], frozenset({wording(RIGHT.text)})) is None


def test_nothing_is_named_twice_and_files_keep_their_order() -> None:
    usage = Slice(calls=("cd(folder='docs')", "du()"), results=("{}", "{}"))
    twice = Description("Go into 'docs' and read 'docs'.", -1.0, 0.0)
    assert believed(usage, [twice], NO_PARTS) is None
    diff = Slice(calls=("diff(file_name1='a.md', file_name2='b.md')",), results=("{}",))
    swapped = Description("Compare 'b.md' and 'a.md'.", -1.0, 0.0)
    straight = Description("Compare 'a.md' and 'b.md'.", -1.0, 0.0)
    assert believed(diff, [swapped, straight], NO_PARTS) == straight.text
    assert believed(diff, [swapped], NO_PARTS) is None
