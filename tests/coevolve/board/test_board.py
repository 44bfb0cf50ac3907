"""The board over recorded runs: what it answers, to whom, and what it leaves alone."""

import http.client
import re
import shutil
import threading
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe

from coevolve.board.answers import Answers
from coevolve.board.overview import Overview, RunsFolder
from coevolve.board.pages import arms, arms_pictures
from coevolve.board.server import Server
from coevolve.history.score import score_of
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.errors import RunError
from tests import evolving
from tests.browser import needs_browser, opened
from tests.coevolve.history.test_rollouts import GROUPS, recorded
from tests.coevolve.report.pages import scored, stepped
from tests.commands import answered

HOSTILE = "<img src=x onerror=alert(1)>"


@dataclass(frozen=True)
class Board:
    root: Path
    server: Server

    def ask(
        self,
        path: str,
        *,
        host: str | None = None,
        key: str | None = None,
        tag: str = "",
        method: str = "GET",
        **told: str,
    ) -> tuple[http.client.HTTPResponse, str]:
        """Return the answer to one request and its body; by default somebody with the key asks."""
        port = self.server.port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
        headers = {"Host": host or f"127.0.0.1:{port}", "If-None-Match": tag}
        headers |= {name.replace("_", "-"): value for name, value in told.items()}
        before = f"/{self.server.key}" if key is None else key
        connection.request(method, f"{before}{path}", headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()


@pytest.fixture
def board(tmp_path: Path, quickstart: RunConfig) -> Generator[Board]:
    """A board over two runs, one of them with rollouts, and a folder that is none."""
    root = tmp_path / "runs"
    config = msgspec.structs.replace(
        quickstart, environment={"use": "filesystem", "held_out": 2}, arm="full"
    )
    directory = starting.create(root / "one", config)
    journal = Journal.open(directory.store)
    story = [evolving.seed(), *recorded(GROUPS[:2]), scored(0, 0, 0), scored(4, 1, 3)]
    evolving.write(journal, [*story, stepped(5, ("seed-1", 4))])
    journal.close()
    directory.metrics.write_text('{"step": 1, "actor/entropy": 1.5}\n')
    shutil.copytree(directory.path, root / HOSTILE)
    (root / "no run").mkdir()
    with Server(Answers(RunsFolder(root)), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Board(root, server)
        server.shutdown()
        thread.join()


def test_the_life_of_a_task_is_read_for_a_page_that_was_loaded(board: Board):
    answer, text = board.ask("/runs/one/life.json?at=task-seed-1")
    assert answer.status == 404
    assert "load the page of the run first" in text
    board.ask("/runs/one")
    answer, text = board.ask("/runs/one/life.json?at=task-seed-1")
    assert answer.status == 200
    assert "grammar:static" in msgspec.json.decode(text)
    answer, text = board.ask("/runs/one/life.json?at=task-none")
    assert answer.status == 404
    assert "no signal or task of one has this id" in text


def test_the_list_has_the_headline_numbers_of_each_run_and_no_markup_of_theirs(board: Board):
    answer, text = board.ask("/")
    assert answer.status == 200
    assert text.count("100.0 ± ") == 2
    assert "5 of " in text
    assert "no run" not in text
    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    _, rows = board.ask("/runs.json")
    listed = msgspec.json.decode(rows)
    assert sorted(row[0] for row in listed) == [HOSTILE, "one"]
    assert all(row[3].startswith('<svg viewBox="0 0 100 100"') for row in listed)
    assert "Held-out success by arm" in text
    assert "full (2 runs)" in text


def test_arms_are_compared_in_one_picture_for_each_environment():
    def run(name: str, arm: str, *shares: float, environment: str = "shop") -> Overview:
        found = {10 * n: score_of([("t", share)]) for n, share in enumerate(shares)}
        state = "finished"
        return Overview(name=name, state=state, arm=arm, environment=environment, scores=found)

    runs = [run("a", "full", 0.0, 0.4, 0.8), run("b", "full", 0.2, 0.6), run("c", "static", 0.0)]
    (drawn,) = arms_pictures([*runs, run("d", "full", 0.5, environment="hdl")])
    assert "Held-out success by arm: shop" in drawn
    assert drawn.count('class="trace c0"') == drawn.count('class="trace c1"') == 1
    points = re.search(r'points="([^"]*)" class="trace c0"', drawn)
    assert points is not None
    assert points[1] == "0.00,90.00 100.00,50.00"  # means of both runs, at the versions of both
    assert arms_pictures(runs[:1]) == []
    assert "<script" not in "".join(
        arms_pictures([run("<script>", "<script>", 0.1), runs[0]]) or ""
    )


def test_a_run_has_its_report_and_each_of_its_groups_on_demand(board: Board):
    answer, text = board.ask("/runs/one")
    assert answer.status == 200
    assert "The newest 2 of 2 finished groups." in text
    assert "connect-src &#x27;self&#x27;" in text
    group = GROUPS[0].summary.group_id
    _, found = board.ask(f"/runs/one/rollouts.json?group={group}")
    rollouts = msgspec.json.decode(found)["rollouts"]
    assert [each["index"] for each in rollouts] == [0, 1, 2, 3]
    assert board.ask("/runs/one/rollouts.json?group=none")[0].status == 404


def test_curves_are_sent_again_only_when_they_changed(board: Board):
    answer, text = board.ask("/runs/one/curves.json")
    assert msgspec.json.decode(text)["metrics"] == {"actor/entropy": [[[1], [1.5]]]}
    tag = answer.headers["ETag"]
    assert board.ask("/runs/one/curves.json", tag=tag)[0].status == 304
    with (board.root / "one" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "actor/entropy": 1.25}\n')
    answer, text = board.ask("/runs/one/curves.json", tag=tag)
    assert answer.status == 200
    assert msgspec.json.decode(text)["metrics"]["actor/entropy"] == [[[1, 2], [1.5, 1.25]]]


def test_runs_are_compared_with_intervals(board: Board):
    _, text = board.ask("/compare?run=one&run=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert "100.0 ± " in text
    assert "± 0.0" in text
    assert "<img src=x" not in text
    assert board.ask("/compare")[0].status == 404
    assert board.ask("/compare?run=nobody")[0].status == 404


def test_an_arm_has_the_interval_of_its_mean_over_runs():
    runs = [
        Overview(name=str(n), state="stopped", arm=arm, scores={0: score_of([("t", share)])})
        for n, (arm, share) in enumerate([("full", 0.5), ("full", 0.7), ("static", 0.4)])
    ]
    found = arms([*runs, Overview(name="x", state="stopped", arm="full")])
    assert found["static"] == (1, 0.4, None)
    count, mean, half = found["full"]
    assert (count, mean) == (2, pytest.approx(0.6))
    assert half == pytest.approx(12.7062 * 0.1)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "[::1]:1", ""])
def test_a_name_that_another_site_gave_this_machine_is_refused(board: Board, host: str):
    answer, text = board.ask("/", host=host or "x")
    assert answer.status == 421
    assert "held-out score" not in text


@pytest.mark.parametrize("key", ["", "/wrong", "/wrong/..", "//", "/%2e", "/%ff"])
def test_whoever_has_not_the_printed_address_is_refused(board: Board, key: str):
    told = f"coevolve-board-{board.server.port}={board.server.key}"
    for path in ("/", "/runs.json", "/runs/one", f"/?key={board.server.key}"):
        answer, text = board.ask(path, key=key, Cookie=told)
        assert answer.status == 403
        assert "coevolve board" in text
        assert board.server.key not in text


def test_the_key_is_in_no_cookie_and_no_word_of_it_reaches_other_pages(board: Board):
    answer, _ = board.ask("/")
    assert "Set-Cookie" not in answer.headers
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert board.server.address == f"http://127.0.0.1:{board.server.port}/{board.server.key}/"
    assert board.ask("", key=f"/{board.server.key}")[0].status == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site", "SAME-ORIGIN, cross-site"])
def test_a_page_of_another_port_or_site_is_refused_with_the_key_too(board: Board, site: str):
    for path in ("/", "/runs.json", "/runs/one"):
        answer, text = board.ask(path, Sec_Fetch_Site=site)
        assert answer.status == 403
        assert "Another page asked" in text


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:1", "http://127.0.0.1", "https://evil.example", "null", ""]
)
def test_a_request_that_names_another_origin_is_refused(board: Board, origin: str):
    assert board.ask("/runs.json", Origin=origin)[0].status == 403
    mine = f"http://127.0.0.1:{board.server.port}"
    assert board.ask("/runs.json", Origin=mine, Sec_Fetch_Site="same-origin")[0].status == 200


class _Other(BaseHTTPRequestHandler):
    """Another user's server, whose page tries to read the board; it keeps all that it is sent."""

    sent: ClassVar[list[str]] = []
    port: ClassVar[int] = 0
    key: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.sent.append(f"{self.path}\n{self.headers}")
        body = f"""<title>other</title><script>
        const read = async (host, path, options) => {{
          const address = `http://${{host}}:{self.port}${{path}}`;
          try {{ return await (await fetch(address, options)).text(); }}
          catch {{ return ""; }}
        }};
        (async () => {{
          const found = [];
          for (const host of ["127.0.0.1", "localhost"])
            for (const path of ["/", "/runs.json", "/{self.key}/", "/{self.key}/runs.json"])
              for (const mode of ["cors", "no-cors"])
                found.push(await read(host, path, {{ mode, credentials: "include" }}));
          document.title = "done:" + found.join("");
        }})();
        </script>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@needs_browser
def test_in_a_browser_a_page_of_another_port_gets_no_key_and_reads_nothing(board: Board):
    _Other.sent.clear()
    _Other.port, _Other.key = board.server.port, board.server.key
    with ThreadingHTTPServer(("127.0.0.1", 0), _Other) as other, opened(board.server.address) as b:
        threading.Thread(target=other.serve_forever).start()
        try:
            b.page.locator("#runs tr").first.wait_for()
            b.page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
            b.page.wait_for_function("document.title.startsWith('done:')")
            assert b.page.title() == "done:"
            b.faults.clear()  # the browser reports what it blocked
        finally:
            other.shutdown()
    assert _Other.sent
    assert board.server.key not in "".join(_Other.sent)


@pytest.mark.parametrize(
    "path", ["/runs/..", "/runs/%2e%2e", "/runs/..%2f..%2fetc", "/runs/no%20run", "/etc", "/runs"]
)
def test_nothing_but_runs_of_the_folder_can_be_asked_for(board: Board, path: str):
    assert board.ask(path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_no_request_can_change_anything(board: Board, method: str):
    assert board.ask("/", method=method)[0].status == 501


def test_nothing_is_written_into_a_run(board: Board):
    before = changes(board.root)
    for path in ("/", "/runs/one", "/runs/one/curves.json", "/compare?run=one"):
        assert board.ask(path)[0].status == 200
    assert changes(board.root) == before


def changes(root: Path) -> dict[Path, int]:
    """When each file was written, but the table of LMDB's readers."""
    files = [path for path in root.rglob("*") if path.is_file() and path.name != "lock.mdb"]
    return {path: path.stat().st_mtime_ns for path in files}


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(board: Board):
    (board.root / "one" / "config.yaml").write_text("name: other\n")
    _, text = board.ask("/")
    assert "cannot be read" in text
    assert "its first line needs the SHA-256" in text
    assert board.ask("/runs/one")[0].status == 404


def test_a_run_without_a_record_yet_is_listed(board: Board):
    shutil.rmtree(board.root / "one" / "store")
    _, text = board.ask("/runs.json")
    states = {row[0]: row[1] for row in msgspec.json.decode(text)}
    assert states["one"] == "stopped"


def test_what_is_no_folder_and_a_port_in_use_are_refused(board: Board, tmp_path: Path):
    with pytest.raises(RunError, match="nowhere: cannot be listed: No such file or directory"):
        RunsFolder(tmp_path / "nowhere")
    answer = answered("board", str(board.root), "--port", str(board.server.port))
    assert answer.returncode == 1
    assert f"--port {board.server.port}: cannot be listened on" in answer.stderr


@needs_browser
def test_in_a_browser_curves_stay_live_and_groups_come_on_demand(board: Board):
    with opened(board.server.address) as browser:
        page = browser.page
        with page.expect_response("**/curves.json"):  # what was there when the page was made
            page.get_by_role("link", name="one", exact=True).click()
        page.locator("#unfold").click()
        page.locator(".side article").first.wait_for()
        assert page.locator(".side article").count() == 3
        page.locator("[name=groups]").select_option("0")
        page.locator(".side article").nth(3).wait_for()
        figure = page.locator('figure[data-metric="actor/entropy"]')
        figure.scroll_into_view_if_needed()
        figure.locator("svg").wait_for(state="attached")
        with (board.root / "one" / "metrics.jsonl").open("a") as file:
            file.write('{"step": 2, "actor/entropy": 1.25}\n')
        page.get_by_text("The curves are newer than the rest").wait_for(state="attached")
        figure.locator(".plot").focus()
        page.keyboard.press("ArrowLeft")
        assert figure.locator("output").inner_text() == "step 2: 1.25"


@needs_browser
@pytest.mark.parametrize("width", [400, 1400, 2000])
def test_in_a_browser_each_page_fits_and_passes_the_check_of_accessibility(
    board: Board, width: int
):
    with opened(board.server.address, width=width, dark=width == 1400) as browser:
        page = browser.page
        for box in page.get_by_role("checkbox").all():
            box.check()
        for leave in ("Compare the chosen runs", ""):
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            if leave:
                page.get_by_role("button", name=leave).click()
                page.get_by_role("heading", name="Comparison of runs").wait_for()
