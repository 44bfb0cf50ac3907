from pathlib import Path

from coevolve.config.page import COMMAND, page

PAGE = Path(__file__).parents[3] / "coevolve" / "docs" / "configuration.md"


def test_the_page_is_what_the_structs_say():
    assert PAGE.read_text() == page(), f"the structs changed; run `{COMMAND}`"
