from coevolve.report.markup import Markup, clipped, escaped, tag


def test_text_is_escaped_and_markup_is_not():
    inner = tag("b", "a < b & c")
    assert inner == "<b>a &lt; b &amp; c</b>"
    assert tag("p", inner, "<i>") == "<p><b>a &lt; b &amp; c</b>&lt;i&gt;</p>"


def test_a_quote_cannot_end_an_attribute():
    assert tag("a", class_='x" onclick="y') == '<a class="x&quot; onclick=&quot;y"></a>'


def test_what_html_does_not_allow_is_replaced():
    assert escaped("a\x00b\x1b[1m\ud800c\n\t") == r"a\u0000b\u001b[1m\ud800c" + "\n\t"


def test_joining_markup_with_text_gives_text_that_is_escaped_again():
    assert escaped(Markup("<b>") + "<i>") == "&lt;b&gt;&lt;i&gt;"


def test_long_texts_are_cut():
    assert clipped("a" * 10, 5) == "aaaa…"
    assert clipped("aaaaa", 5) == "aaaaa"
