"""The printed tables of an evaluation."""

import io

import pytest
from rich.console import Console

from coevolve.environments.hdl.evaluation.attempts import AGENTIC, DIRECT, FIRST, LONG
from coevolve.environments.hdl.evaluation.comparing import DesignScores
from coevolve.environments.hdl.evaluation.measures import Attempted, Score, score
from coevolve.environments.hdl.evaluation.table import Cost, Report, Settings, summed_up, tables
from protocols.tasks import Split


def reached(coverage: float, threshold: float = 0.9) -> Score:
    passed = coverage >= threshold
    return score(
        [
            Attempted(
                ran=True,
                coverage=coverage,
                passed=passed,
                steps=4,
                calls=4,
                bugs=coverage,
                mutation=coverage,
            )
        ]
    )


def on(name: str, split: Split, *coverages: float) -> DesignScores:
    ways = (AGENTIC, DIRECT, FIRST, LONG)
    return DesignScores(
        design=name,
        split=split,
        threshold=0.9,
        mutants=3,
        scores={way: reached(each) for way, each in zip(ways, coverages, strict=True)},
    )


DESIGNS = (
    on("fifo", "train", 0.75, 0.5, 0.25, 0.5),
    on("alu", "train", 1.0, 0.5, 0.25, 1.0),
    on("crc", "held_out", 0.5, 0.625, 0.125, 0.25),
)


def test_seen_and_held_out_designs_are_averaged_separately():
    seen, held_out = summed_up(DESIGNS, seed=0)
    assert (seen.split, seen.designs, held_out.designs) == ("train", 2, 1)
    assert seen.scores[AGENTIC].coverage == 0.875
    assert (seen.scores[AGENTIC].cov_pass, seen.scores[LONG].cov_pass) == (0.5, 0.5)
    found = {(each.of, each.minus, each.measure): each for each in seen.differences}
    gain = found[AGENTIC, DIRECT, "coverage"]
    assert (gain.mean, gain.low, gain.high) == (0.375, 0.25, 0.5)
    assert found[DIRECT, LONG, "coverage"].mean == -0.25


def test_only_kinds_with_the_same_number_of_calls_are_compared():
    splits = summed_up(DESIGNS, seed=0)
    assert splits
    for split in splits:
        pairs = {(each.of, each.minus) for each in split.differences}
        assert pairs == {(AGENTIC, DIRECT), (AGENTIC, LONG), (DIRECT, LONG)}
        assert "pass_at_5" not in {each.measure for each in split.differences}


def test_tables_show_per_cent_and_the_cost():
    report = Report(
        settings=Settings(
            writer="large",
            form="stimulus",
            calls=4,
            attempts=1,
            seed=0,
            temperature=0.7,
            memory="best",
            toolchain="none",
        ),
        splits=summed_up(DESIGNS, seed=0),
        designs=DESIGNS,
        cost=Cost(answers=12, prompt_tokens=3400, answer_tokens=560, usd=0.125),
    )
    shown = io.StringIO()
    Console(file=shown, width=160).print(tables(report))
    text = " ".join(shown.getvalue().split())
    for expected in (
        "n = 1 attempts at each design, 4 calls",
        "│ agentic │ 4.0 │ 100.0 ± 16.8 │ 50.0 ± 20.7 │ - │ 87.5 ± 8.8 │ - │ 87.5 ± 8.8 │ "
        "87.5 ± 8.8 │",
        "+37.5 [+25.0, +50.0]",
        "1 held-out designs, %",
        "12 answers, 3400 prompt tokens, 560 answer tokens, 0.1250 USD",
    ):
        assert expected in text


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_a_split_without_designs_is_left_out(split: Split):
    members = [each for each in DESIGNS if each.split == split]
    assert [each.split for each in summed_up(members, seed=0)] == [split]
