"""The README.md of an export: what it contains, which run it is from, and how to load it."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coevolve.export.source import Source
from coevolve.history.score import Score
from coevolve.models.model_folder import TINY, hub_base
from protocols.config import PolicyConfig
from protocols.tasks import Synthesized

if TYPE_CHECKING:
    from coevolve.export.versions import HeldVersion

MERGED = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{place}")
tokenizer = AutoTokenizer.from_pretrained("{place}")
```

    vllm serve {place}
"""

ADAPTER = """\
With the base model, {base}, in the folder BASE:

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained("BASE")
model = PeftModel.from_pretrained(base, "{place}")
tokenizer = AutoTokenizer.from_pretrained("{place}")
```

    vllm serve BASE --enable-lora --max-lora-rank {rank} --lora-modules policy={place}
"""

SERVED_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM accepts for ``--max-lora-rank``."""

ROWS = """\
```python
from datasets import load_dataset

rows = load_dataset("{place}", split="train")
```
"""

_MARKING = re.compile(r"[\\`*\[\]<>|~]")
"""Characters that would begin markup inside a cell of a table."""

TINY_POLICY = "coevolve's tiny policy (coevolve/models/tiny in its package)"


def model_card(source: Source, held: "HeldVersion", *, is_adapter: bool, place: str) -> str:
    """Return the card of a policy version's weights, which are loaded from ``place``."""
    version = held.version
    base = _base(source)
    library = "peft" if is_adapter else "transformers"
    rank = source.config.policy.lora_rank
    most = next((each for each in SERVED_RANKS if each >= rank), rank)
    commands = (ADAPTER if is_adapter else MERGED).format(base=base, place=place, rank=most)
    number = version.version
    progress = source.history.progress
    shares = progress.scores.get(number, {})
    scores = [[group, x.percent, x.interval, str(x.tasks)] for group, x in shares.items()]
    weights = [
        ["base model", base],
        ["trained", "a LoRA adapter" if version.format == "lora" else "all weights"],
        ["these weights", "the adapter" if is_adapter else "the whole model, float32"],
        ["policy version", f"{number}, after {number} steps"],
        ["digest of its weights in the run", f"SHA-256 {version.digest}"],
    ]
    return "\n".join(
        (
            _metadata(
                library_name=library,
                pipeline_tag="text-generation",
                tags=["coevolve"],
                **_base_metadata(source.config.policy, is_adapter=is_adapter),
                **_score_metadata(source, shares),
            ),
            f"# {source.config.name}, version {number}\n",
            f"A policy trained with coevolve, in the format of {library}.\n",
            _table(("what", "value"), weights),
            "## Loading\n",
            commands,
            f"## Held-out {progress.measure}\n",
            _table(("tasks", f"{progress.measure} ± standard error", "95 %", "number"), scores)
            if scores
            else "This version has no score on held-out tasks.\n",
            _selection(source, held),
            *_run(source),
        )
    )


def data_card(source: Source, kind: str, content: str, about: str, *, file: str, place: str) -> str:
    """Return the card of a table, which is loaded from ``place``; ``about`` has its columns."""
    files = [{"split": "train", "path": file}]
    return "\n".join(
        (
            _metadata(configs=[{"config_name": "default", "data_files": files}], tags=["coevolve"]),
            f"# {source.config.name}: {kind}\n",
            f"{content}.\n",
            f"{about.strip()}\n",
            "## Loading\n",
            ROWS.format(place=place),
            *_run(source),
        )
    )


def _metadata(**fields: object) -> str:
    """Return the head of a card, which the Hugging Face Hub and `datasets` read."""
    return f"---\n{msgspec.yaml.encode(fields).decode()}---"


def _base_metadata(policy: PolicyConfig, *, is_adapter: bool) -> Mapping[str, str]:
    relation = "adapter" if is_adapter else "finetune"
    base = hub_base(policy)
    return {"base_model": base, "base_model_relation": relation} if base else {}


def _score_metadata(source: Source, shares: Mapping[str, Score]) -> Mapping[str, object]:
    """Return held-out scores in the form of the Hub's model index; nothing without scores."""
    config, measure = source.config, source.history.progress.measure
    results = [
        {
            "task": {"type": "text-generation"},
            "dataset": {"type": config.uses, "name": f"{config.uses}, held-out tasks: {group}"},
            "metrics": [{"type": measure, "name": f"held-out {measure}", "value": share.mean}],
        }
        for group, share in shares.items()
    ]
    return {"model-index": [{"name": config.name, "results": results}]} if results else {}


def _selection(source: Source, held: "HeldVersion") -> str:
    """Return what chose the version, which decides whether its scores are unbiased."""
    if held.choice is not None:
        return f"This is {held.choice.sentence(source.history.progress.measure)}.\n"
    return (
        "Somebody chose this version by its number. If its scores above were the reason, they are "
        "too high for it: the best of several versions is partly the luckiest one.\n"
    )


def _run(source: Source) -> Iterable[str]:
    """Yield the facts of the run and the origin of its training data."""
    config, totals = source.config, source.history.totals
    origins = [isinstance(task.origin, Synthesized) for task in source.tasks.values()]
    digest = hashlib.sha256((source.directory.path / "config.yaml").read_bytes()).hexdigest()
    facts = [
        ["run", f"{config.name}, id {source.directory.identity().run_id}"],
        ["arm", config.arm],
        ["seed", str(config.seed)],
        ["environment", config.uses],
        ["steps", f"{source.history.timeline.step} of {config.learner.steps}"],
        ["seed tasks", str(origins.count(False))],
        ["synthesized tasks", str(origins.count(True))],
        ["config.yaml", f"SHA-256 {digest}"],
    ]
    signals = [
        [kind, str(outcomes.total()), ", ".join(f"{n} {name}" for name, n in outcomes.items())]
        for kind, outcomes in totals.kinds().items()
    ]
    synthesizers = [
        [
            each.synthesizer,
            str(each.candidates),
            str(each.admitted),
            str(each.usage.calls),
            str(each.usage.tokens),
            f"{each.usage.cost_usd:.4f}",
        ]
        for each in totals.synthesizers()
    ]
    costs = [[cost.name.strip(), cost.text] for cost in source.history.costs.lines()]
    yield "## The run\n"
    yield _table(("what", "value"), facts)
    yield "Weaknesses found in the policy's rollouts, and their outcomes:\n"
    yield _table(("signal", "count", "outcomes"), signals)
    yield "Synthesizers that made tasks from them:\n"
    yield _table(("synthesizer", "candidates", "admitted", "calls", "tokens", "USD"), synthesizers)
    yield "Resources that the run used:\n"
    yield _table(("what", "amount"), costs)


def _base(source: Source) -> str:
    policy = source.directory.written_config().policy
    if policy.tiny_random:
        return f"a tiny model with random weights, of the architecture of {policy.model}"
    return TINY_POLICY if policy.model == TINY else hub_base(policy) or Path(policy.model).name


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; ``None.`` if there are no rows."""
    if not rows:
        return "None.\n"
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    """Return text without Markdown or HTML of its own."""
    return _MARKING.sub(r"\\\g<0>", " ".join(text.split()))
