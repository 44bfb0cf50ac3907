from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.bench.likelihood import Counted, Likelihood, Linear
from tests.exporting import chat_model
from tests.meant.cases import GOOD

TEXTS = ("Delete notes.txt, please.", "rm(file_name='notes.txt')", "What is in this folder?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("model"), TEXTS)


def test_a_text_in_a_batch_after_shots_has_the_probabilities_that_it_has_by_itself(
    folder: Path,
) -> None:
    read = Likelihood(folder)
    shots = f"User: {TEXTS[2]}\nCalls: ls()\n\n"
    pairs = [("User:", TEXTS[0]), (f"Calls: {TEXTS[1]}\nUser:", TEXTS[0])]
    together = read.logprobs(read.after(shots), pairs)
    for (before, text), found in zip(pairs, together, strict=True):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        parts = [
            tokenizer(part, add_special_tokens=False).input_ids
            for part in (shots, before, f" {text}")
        ]
        ids = torch.tensor([[token for part in parts for token in part]])
        with torch.no_grad():
            plain = model(ids).logits[0].float().log_softmax(-1)
        last = len(parts[2])
        alone = plain[torch.arange(ids.shape[1] - last - 1, ids.shape[1] - 1), ids[0, -last:]]
        assert found == pytest.approx(alone.tolist(), abs=0.1)


def test_the_linear_reader_learns_which_score_tells_right_from_wrong() -> None:
    learnt = [
        Counted(kind, {"telling": telling + place / 10, "noise": float(place % 3)})
        for kind, telling in ((GOOD, 1.0), ("negated", 0.0))
        for place in range(5)
    ]
    linear = Linear(learnt)
    right, wrong = linear([Counted("new", {"telling": value, "noise": 1.0}) for value in (2, -1)])
    assert right > 0 > wrong
