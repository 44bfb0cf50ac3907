from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.export.transitions import (
    chat_row,
    llamafactory_row,
    rows,
    run_type,
    write_rows,
)
from coevolve.environments.hdl.policy.transition import Blank, ChatText
from tests.hdl_transitions import FAILED, covered, transition

PROMPT = (
    ChatText(role="system", text="You write testbenches."),
    ChatText(role="user", text="The design."),
    ChatText(role="assistant", text="A testbench."),
    ChatText(role="user", text="Its result."),
    ChatText(role="user", text="What to do."),
)
STEP = transition("t1", covered((1, 2)), covered((2, 2)), prompt=PROMPT)


def test_a_chat_row_is_the_prompt_and_the_answer() -> None:
    row = chat_row(STEP)
    assert row["messages"] == [
        {"role": "system", "content": "You write testbenches."},
        {"role": "user", "content": "The design."},
        {"role": "assistant", "content": "A testbench."},
        {"role": "user", "content": "Its result.\n\nWhat to do."},
        {"role": "assistant", "content": "an answer"},
    ]
    assert (row["author"], row["stage"], row["design_id"]) == ("student@3", 1, "fifo")


def test_a_llamafactory_row_has_the_fields_of_the_released_data() -> None:
    assert llamafactory_row(STEP, "mine") == {
        "system": "You write testbenches.",
        "history": [["The design.", "A testbench."]],
        "instruction": "Its result.\n\nWhat to do.",
        "output": "an answer",
        "dataset": "mine",
        "context_id": "fifo",
        "run_type": "agentic_coverage",
    }


def test_the_run_type_names_the_start_of_a_step() -> None:
    assert run_type(transition("t", Blank(), covered((1, 2)))) == "direct_infer"
    assert run_type(transition("t", FAILED, covered((1, 2)))) == "agentic_xrun"


def test_a_prompt_that_does_not_end_with_the_user_is_refused() -> None:
    step = transition("t7", Blank(), FAILED, prompt=PROMPT[:3])
    with pytest.raises(ValueError, match=r"transition t7: .* found user, assistant"):
        llamafactory_row(step, "mine")


def test_rows_are_written_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert write_rows(path, rows([STEP, STEP], "llamafactory")) == 2
    lines = path.read_bytes().splitlines()
    assert [msgspec.json.decode(line)["context_id"] for line in lines] == ["fifo", "fifo"]
