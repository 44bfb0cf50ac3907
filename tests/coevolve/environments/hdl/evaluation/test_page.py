"""The report page of a testbench."""

from html.parser import HTMLParser

from coevolve.environments.hdl.coverage.points import point_set, score
from coevolve.environments.hdl.evaluation.mutation import Judged, Mutation
from coevolve.environments.hdl.evaluation.page import page
from coevolve.environments.hdl.simulate.messages import Covered, Metric, Point, SourceFile, Unit

UNIT = Unit(
    name="a<b",
    files=(SourceFile(name="a.sv", text="module a;\n  x = y && z;\n  w <= 1;\nendmodule\n"),),
    plan=(SourceFile(name="plan.sv", text=""),),
    top="a",
)


def point(metric: Metric, line: int, name: str, lines: str = "", file: str = "a.sv") -> Point:
    return Point(metric=metric, file=file, line=line, column=1, instance="", name=name, lines=lines)


HIT = point("line", 2, "block", "2")
OVER = point_set(
    (
        HIT,
        point("branch", 3, "if", "3"),
        point("plan", 7, "bin cg.ops.both", file="plan.sv"),
        point("toggle", 2, "x[3]:0->1"),
    )
)
OUTCOME = Covered(
    coverage=score({HIT: 1}, OVER, UNIT), ended="finish", slots=1, time=1, log="", checks=2
)
FOUND = Mutation(
    judged=(
        Judged(name="m1", bug="a.sv:2:7: `&&` becomes `||`", fate="noticed", reason="$error <1>"),
        Judged(name="m2", bug="a.sv:3:3: left out", fate="shown"),
        Judged(name="m3", bug="same", fate="equivalent"),
    )
)


class Rows(HTMLParser):
    """Collects the class and the text of each row, and checks that tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append((dict(attrs).get("class") or "", ""))
        assert tag not in ("script", "img", "link"), "one file that loads nothing"

    def handle_data(self, data: str) -> None:
        if self.rows:
            kind, text = self.rows[-1]
            self.rows[-1] = (kind, text + data)


def test_the_page_shows_source_gaps_and_unnoticed_mutants_with_their_places():
    text = page(UNIT, OVER.points, OUTCOME, FOUND)
    rows = Rows(text).rows
    assert ("hit", "2  x = y && z;x[3] never 0->1") in [(k, t.strip()) for k, t in rows]
    assert any(k == "missed" and t.startswith("3  w <= 1;") for k, t in rows)
    assert any("plan.sv:7" in t and "cg.ops.both never hit" in t for _, t in rows)
    bugs = [t for _, t in rows if ("a.sv:" in t and "becomes" in t) or "left out" in t]
    assert bugs[0].startswith("unnoticed: outputs changed, no check faileda.sv:3:3")
    assert bugs[1].startswith("noticeda.sv:2:7")
    assert "$error &lt;1&gt;" in text
    assert "<h1>a&lt;b</h1>" in text
    assert "1 of 2 noticed" in text
    assert "same" not in text


def test_a_page_without_mutants_or_plan_leaves_them_out():
    alone = Unit(name="a", files=UNIT.files, top="a")
    text = page(alone, OVER.points, OUTCOME, None)
    assert "<h2>Mutants</h2>" not in text
    assert "<h2>Plan</h2>" not in text
