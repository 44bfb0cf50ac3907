"""Objectives are found by name, by the entry point of a package, and by import path."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from transformers import AutoModelForCausalLM

from coevolve.config.load import load_config
from coevolve.learning.batch import Batch
from coevolve.learning.group import BatchGroup
from coevolve.learning.objective_registry import built_in, objective_of
from coevolve.learning.trainer import Trainer
from protocols import columns
from protocols.config import LearnerConfig, RunConfig
from protocols.errors import ConfigError
from protocols.learner_config import ImitationConfig
from tests.coevolve.learning.test_trainer import batch, settings, slow_importance, slow_logprob
from tests.documented import write_files
from tests.learning import small_model

OBJECTIVES = Path(__file__).parents[3] / "coevolve" / "learning" / "objectives"


def slow_loss(folder: Path, run: RunConfig, group: BatchGroup) -> float:
    """Return the loss of the page's formula: one of four rollouts succeeded."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    terms: list[float] = []
    for one in group.rollouts:
        advantage = 0.5 * (1.0 if one.succeeded else -1 / 3)
        ids = columns.from_int32(one.tokens.token_ids)
        for position in (each for each in range(1, len(ids)) if one.tokens.mask[each]):
            logprob = slow_logprob(model, ids, position, 1.0).item()
            (weight,) = slow_importance(run, [logprob], [-4.0])
            terms.append(-weight * advantage * logprob)
    return sum(terms) / len(terms)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the objective of the documentation, from which Python imports."""
    write_files(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rloo", raising=False)
    return tmp_path


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load_config("quickstart", overrides)
    return str(refused.value)


def test_every_file_is_an_objective_of_its_name_and_short():
    files = {each.stem: each for each in OBJECTIVES.glob("*.py") if each.stem != "__init__"}
    assert files.keys() == built_in().keys() >= {"grpo", "dr_grpo", "dapo", "gspo", "sft", "dpo"}
    for name, kind in built_in().items():
        assert kind.__struct_config__.tag == name
        assert kind.__doc__
        assert len(files[name].read_text().splitlines()) <= 100


def test_the_objective_of_the_page_trains_by_its_own_formula(page: Path, tmp_path: Path):
    text = (page / "rloo.py").read_text()
    assert len(text.splitlines()) <= 60
    given = 'learner.objective={kind: "rloo:Rloo", scale: 0.5}'
    config = load_config("quickstart", [given, "learner.credit=rollout"])
    assert config.learner.objective == {"kind": "rloo:Rloo", "scale": 0.5}
    learner = LearnerConfig(
        objective=config.learner.objective,
        imitation=ImitationConfig(weight=0.0, replay_per_step=0),
        learning_rate=1e-3,
    )
    folder = tmp_path / "model"
    folder.mkdir()
    run = settings(learner)
    trainer = Trainer(run, small_model(folder))
    group = batch().groups[0]
    first = trainer.take_step(Batch(step=1, groups=(group,)))
    # One of four rollouts succeeded: advantages 0.5 (1 - 0) and three times 0.5 (0 - 1/3).
    assert first["critic/advantages/mean"] == pytest.approx(0.0, abs=1e-6)
    assert first["actor/grad_norm"] > 0
    assert first["actor/pg_loss"] == 0.0
    assert first["actor/rloo_loss"] == pytest.approx(slow_loss(folder, run, group), rel=1e-4)
    for step in range(2, 8):
        trainer.take_step(Batch(step=step, groups=(group,)))
    after = tmp_path / "after"
    after.mkdir()
    trainer.save_weights(after)
    unweighted = settings(msgspec.structs.replace(learner, importance="off"))
    assert slow_loss(after, unweighted, group) < slow_loss(folder, unweighted, group) - 0.05


def test_an_objective_of_a_package_is_found_by_the_name_of_its_entry_point(page: Path):
    about = page / "rloo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rloo\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[coevolve.objectives]\nleave_one_out = rloo:Rloo\n")
    named = ["learner.objective={kind: leave_one_out}", "learner.credit=rollout"]
    config = load_config("quickstart", named)
    assert config.learner.objective == {"kind": "leave_one_out", "scale": 1.0}
    assert type(objective_of(config.learner)).__name__ == "Rloo"


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("{kind: 'rlo:Rloo'}", "'rlo:Rloo' cannot be imported: there is no module 'rlo'"),
        ("{kind: 'rloo:Rlo'}", "has no 'Rlo'; it is "),
        ("{kind: 'rloo:rloo'}", "did you mean rloo:Rloo?"),
        ("{kind: 'rloo.py:Rloo'}", "did you mean rloo:Rloo?"),
        ("{kind: 'rloo:sampled'}", "needs to be a subclass of coevolve.learning.objective.Objec"),
        ("{kind: 'keyvalue:KeyValue'}", "needs to be a subclass of coevolve.learning.objective.Ob"),
        ("{kind: 'json:Rloo'}", "is taken by Python's own module"),
        ("{kind: 'rloo:Rloo', scael: 2}", "learner.objective.scael: unknown field; did you mean"),
        ("{kind: 'rloo:Rloo', scale: much}", "learner.objective.scale: needs a number, found"),
        ("{kind: 'rloo:Rloo', clip_low: 1}", "learner.objective.clip_low: unknown field"),
        ("{kind: rloo}", "needs one of dapo, dpo,"),
        ("{kind: reinforce_plus}", "of your own is written package.module:Class"),
        ("{kind: 7}", "learner.objective.kind: needs one of"),
        ("[grpo]", "needs a section of settings, found"),
    ],
)
def test_an_objective_that_cannot_be_used_is_refused_with_the_remedy(
    page: Path, objective: str, words: str
):
    assert words in refusal(f"learner.objective={objective}")


def test_rules_on_other_settings_hold_for_an_objective_of_ones_own(page: Path):
    own = "learner.objective={kind: 'rloo:Rloo'}"
    assert "turn needs a policy gradient, found objective rloo:Rloo" in refusal(
        own, "learner.credit=turn"
    )
    load_config("quickstart", (own, "learner.credit=rollout", "learner.kl_coefficient=0.1"))


def test_a_module_that_breaks_is_told_in_one_sentence(page: Path):
    (page / "half.py").write_text("from coevolve.learning.objective import Objectiv\n")
    said = refusal("learner.objective={kind: 'half:Mine'}")
    assert "'half:Mine' cannot be imported: ImportError: cannot import name 'Objectiv'" in said
    assert said.endswith("correct the module, or install what it imports")


ROWS = "    def rows(self, group, learner):\n        {}\n"
OWN = "return [Row(sides=conversations(r), streams=(Stream(component=self),)) for r in {}]"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    pass\n", "Mine needs a method rows"),
        ("    def losses(self, scored):\n        return -scored.logprobs\n", "a method rows"),
        (ROWS.format(OWN.format("group.rollouts")), "Mine needs a method losses"),
        (ROWS.format(OWN.format("group.attempts")), "rows needs to accept .*no attribute"),
        (ROWS.format("return [group]"), "rows needs to accept .*no attribute 'streams'"),
        (ROWS.format("pass"), "rows needs to accept"),
        (ROWS.format("return [imitated(conversations(group.rollouts[0])[0])]"), ""),
        (ROWS.format("return []"), ""),
    ],
)
def test_an_objective_without_what_it_needs_is_refused_before_a_start(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(
        "from coevolve.learning.losses.imitation import imitated\n"
        "from coevolve.learning.objective import Objective\n"
        "from coevolve.learning.rows import Row, Stream, conversations\n\n\n"
        f"class Mine(Objective, frozen=True, kw_only=True):\n{body}"
    )
    given = 'learner.objective={kind: "mine:Mine"}'
    if said:
        assert re.search(rf"learner\.objective: .*{said}", refusal(given))
    else:
        load_config("quickstart", [given, "learner.credit=rollout", "learner.kl_coefficient=0"])


def test_settings_are_checked_without_torch():
    code = "import sys; from coevolve.config.load import load_config; load_config('quickstart'); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
