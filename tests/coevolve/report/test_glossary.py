"""Each word in the headings and columns of the page is plain English or has an entry."""

import html
import re
from pathlib import Path

import msgspec

from coevolve.history.metric_docs import terms
from coevolve.report.page import glossary_section, page
from tests.browser import needs_browser, opened
from tests.coevolve.report.pages import CONFIG, data, parsed, whole_story
from tests.report_picture import recorded_data

HEADINGS = re.compile(
    r"<(h2|h3|caption|summary|th)(?: id=[^>]*| scope=\"col\"(?: class=\"number\")?)?>(.*?)</\1>",
    re.DOTALL,
)
OTHERS = re.compile(
    r"<script.*?</script>|<article.*?</article>|<figure class=\"curve\".*?</figure>", re.DOTALL
)
"""Lives of tasks, whose headings are the tasks' own words, and curves, which have meanings."""

PLAIN = frozenset(
    re.findall(
        r"[a-z]+",
        """
    about after afterwards all amount and annotated at before behind by change clock composition
    count cpu defaults details did done each every failures findings first for from glossary in
    included instruction it its kind largest learned loop lowest machine made map mean minutes model
    more newest numbers package packages per purpose raised rarely report results second seconds
    settings share side speed starts stops that their time training usd use used value wall was weak
    weaknesses were what when why with writing
    """,
    )
)
"""Words that a reader knows. A new heading either uses these, or its words get an entry."""


def explained() -> set[str]:
    """Return the words of all terms, each also in the other number."""
    words = {word for each in terms() for name in each.names for word in _words(name)}
    return (
        words
        | {word + end for word in words for end in ("s", "es")}
        | {word.removesuffix("s") for word in words}
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def test_each_term_in_headings_and_columns_has_an_entry(tmp_path: Path):
    known = PLAIN | explained()
    missing: dict[str, str] = {}
    for text in (page(data(whole_story())), page(recorded_data(tmp_path))):
        body = OTHERS.sub("", text)
        for _, found in HEADINGS.findall(body):
            heading = html.unescape(re.sub("<code>.*?</code>|<span>.*?</span>|<[^>]+>", " ", found))
            missing |= {word: heading for word in _words(heading) if word not in known}
    assert not missing


def test_the_glossary_has_no_words_of_other_environments():
    def text(name: str) -> str:
        config = msgspec.structs.replace(CONFIG, environment={"use": name})
        return parsed(glossary_section(data([], config))).text

    assert "testbencha program" in text("hdl")
    assert "testbench" not in text("filesystem")
    assert "pairs trained" in text("filesystem")
    assert "pairs trained" not in text("keyvalue:KeyValue")


@needs_browser
def test_one_link_leads_to_the_glossary_from_anywhere(tmp_path: Path):
    path = tmp_path / "page.html"
    path.write_text(page(data(whole_story())))
    with opened(path.as_uri()) as browser:
        browser.page.locator("#rollouts").scroll_into_view_if_needed()
        browser.page.locator("a.words").click()
        assert browser.page.url.endswith("#glossary")
        top = browser.page.locator("#glossary").bounding_box()
        assert top is not None
        assert -10 < top["y"] < 900
        assert "success on tasks minus success on their instances" in browser.page.content()
