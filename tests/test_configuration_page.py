from pathlib import Path

from tests.configuration_page import COMMAND, page

PAGE = Path(__file__).parents[1] / "coevolve" / "docs" / "configuration.md"


def test_the_page_is_what_the_structs_say():
    assert PAGE.read_text() == page(), f"the structs changed; run `{COMMAND}`"
