"""The benchmark CVDP-ECov: ten items whose scores were counted by hand."""

import json
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.evaluation.attempts import Budget
from coevolve.environments.hdl.evaluation.benchmark import TRIES, Contest
from coevolve.environments.hdl.llm4cov.items import designs_of, items
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import Covered, NotCovered
from coevolve.environments.sdk import section
from protocols.config import RunConfig
from protocols.errors import ConfigError
from tests.hdl_points import LEAF, POINTS, TOP, all_but, covering
from tests.hdl_simulators import ScriptedSimulator
from tests.hdl_transitions import FAILED

B = 13 / 15
"""Overall average of `LOW`; that of `SOME` is 0.9."""


def ran(*missed: str) -> Graded:
    coverage = covering(all_but(*missed) if missed else POINTS)
    outcome = Covered(coverage=coverage, ended="finish", slots=1, time=1, log="")
    return Graded(testbench=f"tb {missed}", outcome=outcome, key="k")


FULL, SOME, LOW = ran(), ran("DONE", "if"), ran("DONE", "if", "IDLE->RUN")
ELSEWHERE = Graded(testbench="tb", outcome=NotCovered(message="no design"), key="k")
CUT = msgspec.structs.replace(
    FULL, outcome=msgspec.structs.replace(FULL.outcome, ended="slot_limit")
)
AVERAGE = "Overall Average"
ROWS: dict[str, list[tuple[str, str, float]]] = {
    "cvdp_copilot_a_0001": [("uut", AVERAGE, 90)],
    "cvdp_copilot_b_0002": [("uut", AVERAGE, 95)],
    "cvdp_copilot_c_0003": [("u_leaf", AVERAGE, 100)],
    "cvdp_copilot_d_0004": [("u_leaf", "Fsm Average", 100)],
    "cvdp_agentic_e_0005": [("uut", AVERAGE, 90), ("uut", "Toggle", 100)],
    "cvdp_agentic_f_0006": [("uut", "Unknown", 50)],
    "cvdp_agentic_g_0007": [("uut", AVERAGE, 90)],
    "cvdp_agentic_h_0008": [("uut", AVERAGE, 90)],
    "cvdp_copilot_i_0009": [("elsewhere", AVERAGE, 90)],
}
LAST = "cvdp_copilot_j_0010"
SCRIPT: dict[str, tuple[list[Graded | None], list[Graded | None]]] = {
    "cvdp_copilot_a_0001": ([SOME, FULL], [FAILED, SOME, LOW]),
    "cvdp_copilot_b_0002": ([SOME, LOW, SOME], [None] * TRIES),
    "cvdp_copilot_c_0003": ([SOME, LOW, LOW], [LOW, LOW, None, LOW]),
    "cvdp_copilot_d_0004": ([LOW, LOW, LOW], [FAILED, FAILED, FAILED]),
    "cvdp_agentic_e_0005": ([SOME, SOME, SOME], [ELSEWHERE, ELSEWHERE, ELSEWHERE]),
    "cvdp_agentic_f_0006": ([LOW, LOW, LOW], [LOW, LOW, LOW]),
    "cvdp_agentic_g_0007": ([CUT, SOME, SOME], [CUT, CUT, CUT]),
    LAST: ([LOW, SOME, LOW], [FULL]),
}


def row(name: str, targets: list[tuple[str, str, float]]) -> dict[str, object]:
    """Return a row of the data set."""
    top = "module top (" if name == "cvdp_agentic_h_0008" else TOP
    keys = ("inst_name", "metric", "target_percentage")
    return {
        "id": name,
        "rtl_files": [{"name": "leaf.sv", "content": LEAF}, {"name": "top.sv", "content": top}],
        "spec_files": [{"name": "spec.md", "content": "It counts."}],
        "dut_module_name": "top",
        "dut_instance_name": "uut",
        "instruction": "Name the instance uut.",
        "targets": [dict(zip(keys, target, strict=True)) for target in targets],
        "difficulty": "easy",
        "is_agentic": name.startswith("cvdp_agentic"),
    }


def cvdp_row(category: str) -> dict[str, object]:
    """Return a row in the layout of CVDP itself."""
    compared = 'assert metrics ["uut"]["Average"] >= float(os.getenv("TARGET"))'
    files = {
        "docker-compose.yml": "services:\n",
        "src/.env": "HASH   = 6eab\nTARGET = 90",
        "src/leaf.sv": LEAF.replace("endmodule", "endmodule : leaf"),
        "src/top.sv": f"// module leaf is in leaf.sv, top here\n{TOP}",
        "src/process.py": f"def test_report():\n    {compared}, 'too little'\n",
    }
    return {
        "id": LAST,
        "categories": [category, "easy"],
        "input": {"prompt": "Write a testbench.", "context": {}},
        "output": {"response": "", "context": {}},
        "harness": {"files": files},
    }


class Scripted:
    """Writes the testbenches of `SCRIPT`, whose key and number are in the session's name."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self._first: dict[tuple[str, str], int] = {}

    async def write(self, task: CoverageTask, session: str, seed: int) -> Graded | None:
        name, number, taken = session.split("/")
        state = task.state
        self.seen[session] = state.testbench if isinstance(state, Graded) else ""
        return SCRIPT[name][int(number)][int(taken) - 1]


def contest(writer: Scripted) -> Contest:
    return Contest(
        writer=writer,
        simulator=ScriptedSimulator(),
        config=RunConfig(name="benchmark", environment=section("hdl")),
        budget=Budget(calls=3, attempts=2, seed=0, keeps_best=True),
        tell=lambda text: None,
    )


async def test_ten_items_are_counted_as_by_hand(tmp_path: Path):
    rows = [*(row(name, targets) for name, targets in ROWS.items()), cvdp_row("cid012")]
    other = {**cvdp_row("cid003"), "id": "another"}
    file = tmp_path / "items.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, other])) + "\n")
    given = items(file)
    assert [each.id for each in given] == [*ROWS, LAST]
    (tmp_path / "designs").mkdir()
    designs, refused = designs_of(given, tmp_path / "designs")
    writer = Scripted()
    ways = await contest(writer).run(given, designs, refused)
    assert list(refused) == ["cvdp_agentic_h_0008", "cvdp_copilot_i_0009"]
    assert "the instances u_leaf, uut, found 'elsewhere'" in refused["cvdp_copilot_i_0009"]

    direct, chain = ways["direct"].summary, ways["markov-agentic"].summary
    for metric, one, k in (
        ("is_pass_xrun", 5.5 / 10, 7 / 10),
        ("has_coverage", 5 / 10, 7 / 10),
        ("is_pass_targets", 4 / 10, 6 / 10),
        ("overall_coverage", (2.3 + 2.5 * B) / 10, (4.6 + 2 * B) / 10),
        (
            "mean_sim_pass_cov",
            ((3.6 + 3 * B) / 7 + (2 * B + 1) / 4) / 2,
            (3.6 + 3 * B) / 7,
        ),
    ):
        assert direct.metrics[metric] == pytest.approx({"@1": one, "@2": k}), metric
    assert direct.pass_targets_non_agentic == pytest.approx({"@1": 2.5 / 6, "@2": 4 / 6})
    assert direct.pass_targets_agentic == pytest.approx({"@1": 1.5 / 4, "@2": 2 / 4})
    assert chain.metrics["is_pass_targets"] == pytest.approx({"@1": 5.5 / 10, "@2": 7 / 10})
    best = [each.overall_coverage for each in ways["markov-agentic"].samples[LAST]]
    assert best == pytest.approx([0.9, 1])
    assert writer.seen["cvdp_copilot_b_0002/0/3"] == SOME.testbench, "from the best, not the last"
    assert "cvdp_copilot_a_0001/0/3" not in writer.seen, "nothing is left to cover"
    assert "cvdp_copilot_b_0002/1/5" not in writer.seen, "no answer could be read"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", r"items.jsonl:1: needs a row of hez2024/cvdp_ecov_eval or of CVDP"),
        ("", "found none"),
        (
            json.dumps(row("a", [])) + "\n" + json.dumps(row("a", [])),
            ":2: a second item is called a",
        ),
        (json.dumps(row("../a", [])), "id"),
        (
            json.dumps({**cvdp_row("cid012"), "harness": {"files": {"src/top.sv": TOP}}}),
            "one comparison of metrics, one TARGET and one top module, found 0, 0 and 1",
        ),
    ],
)
def test_a_file_of_other_rows_is_refused(tmp_path: Path, text: str, words: str):
    file = tmp_path / "items.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        items(file)
