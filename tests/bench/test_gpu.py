"""The parts of the benchmark on a GPU, on the CPU with a tiny model."""

import sys
from pathlib import Path

import msgspec
import pytest
import torch

from tests.bench import gpu
from tests.bench.gpu_learner import learner, repeat, trl
from tests.bench.gpu_models import Bench
from tests.bench.gpu_outcome import Outcome

ON_CPU = ("--device", "cpu", "--size", "tiny", "--limit", "400")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(place=tmp_path, size="tiny", device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_why_it_does_nothing(capsys: pytest.CaptureFixture[str]):
    gpu.main([])
    said = capsys.readouterr().out
    assert said.startswith("gpu: skipped, because torch ")
    assert said.endswith("finds no GPU on this machine\n")


def test_the_limits_of_all_parts_add_up_to_fifteen_minutes():
    assert sum(part.limit_s for part in gpu.PARTS.values()) <= 15 * 60


def test_a_step_from_one_checkpoint_is_the_same_in_every_bit(bench: Bench):
    assert repeat(bench).verdict == "proven"


def test_the_learners_memory_is_within_the_estimate(bench: Bench):
    figures = learner(bench).figures
    assert figures["tokens_per_s"] > 0
    assert 0 < figures["mfu"] < figures["flops_share"] < 1
    # With so few tokens, the maximum of the logits dominates the estimate.
    assert 0.3 < figures["peak_bytes"] / figures["estimated_bytes"] < 1.0


def test_trl_takes_steps_on_the_same_batch(bench: Bench):
    found = trl(bench)
    assert found.verdict == "measured"
    assert found.figures["tokens_per_s"] > 0


def test_a_part_that_is_late_is_killed_with_what_it_started():
    command = [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'])"]
    found = gpu.watched("repeat", command, 1.0)
    assert (found.verdict, found.said) == ("late", "repeat: took more than its 1 s")
    assert gpu.refutes(found)


def test_a_part_that_fails_gives_its_reason():
    found = gpu.watched("repeat", [sys.executable, "-c", "raise SystemExit('no memory')"], 60.0)
    assert (found.verdict, found.said) == ("failed", "repeat: no memory")


@pytest.mark.parametrize(
    ("part", "verdict", "refutes"),
    [
        ("repeat", "refuted", True),
        ("repeat", "skipped", False),
        ("repeat", "proven", False),
        ("engine", "failed", False),
    ],
)
def test_only_a_proof_that_is_missing_fails_the_command(part: str, verdict: str, refutes: bool):
    outcome = msgspec.convert({"part": part, "verdict": verdict, "said": ""}, Outcome)
    assert gpu.refutes(outcome) == refutes


@pytest.mark.vllm
@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_the_engine_and_both_ways_of_delivery(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        gpu.main(["--parts", "engine", "deliver-full", "deliver-adapter", *ON_CPU])
    assert left.value.code == 0
    engine, full, adapter = outcomes(capfd.readouterr().out)
    assert engine.figures["ratio"] > 0.5
    for delivery in (full, adapter):
        assert (delivery.figures["proven"], delivery.figures["caught"]) == (5, 2)


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.exhaustive
@pytest.mark.timeout(500)
def test_three_steps_of_the_quickstart(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        gpu.main(["--parts", "loop", *ON_CPU])
    assert left.value.code == 0
    (loop,) = outcomes(capfd.readouterr().out)
    assert (loop.verdict, loop.figures["steps"]) == ("proven", 3)


def outcomes(said: str) -> list[Outcome]:
    """Return the outcomes in the JSON lines of the output."""
    lines = [line for line in said.splitlines() if line.startswith("{")]
    return [msgspec.json.decode(line, type=Outcome) for line in lines]
