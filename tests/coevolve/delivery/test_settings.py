"""An engine's sampling state besides the tensors of the files: tables, and settings as text."""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.fitting import check_positions
from coevolve.engine.generator import TransformersGenerator
from coevolve.models.load import read_config, read_model
from protocols.config import PolicyConfig, RunConfig
from protocols.errors import DeliveryError, GeneratorError
from tests.delivering import proven
from tests.learning import MemoryJournal
from tests.serving import MAX_LENGTH, SHAPE, VOCABULARY, ask, moved, published

ORIGINAL = 64
"""Original maximum length of the models, for kinds where it matters."""

SCALED = {"factor": 4.0, "original_max_position_embeddings": ORIGINAL}
FACTORS = {"short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
ROPES: Mapping[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2.0},
    "yarn": SCALED,
    "llama3": SCALED | {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": SCALED | FACTORS,
}
LENGTHS: Mapping[str, tuple[int, ...]] = {
    "nothing": (),
    "short": (20,),
    "long": (200,),
    "longer than ever": (MAX_LENGTH + 50,),
    "long, then longer": (MAX_LENGTH + 20, MAX_LENGTH + 50),
    "long, then short": (200, MAX_LENGTH + 50, 20),
}
CHANGING = ("dynamic", "longrope")


def rope(kind: str, name: str) -> dict[str, Any]:
    """Return the settings of a model; gemma3 has tables for each type of its layers."""
    settings = {"rope_type": name, "rope_theta": 10_000.0, **ROPES[name]}
    if kind == "llama":
        return settings
    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    return {"full_attention": settings, "sliding_attention": plain}


class Served:
    """An engine, and two versions for it on disk."""

    def __init__(self, run_dir: Path, kind: str, **settings: Any) -> None:
        torch.manual_seed(0)
        folder = run_dir / "model"
        config = AutoConfig.for_model(kind, **(SHAPE | settings))
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        self.versions = [
            published(run_dir, number, moved(read_model(folder), seed=number)) for number in (1, 2)
        ]
        self.generator = TransformersGenerator(
            folder, run_dir, max_concurrent=2, max_length=ORIGINAL
        )
        self.model: Any = self.generator._model
        run = RunConfig(name="settings", policy=PolicyConfig(model=str(folder), train="full"))
        self.engine: VerifiedEngine = proven(self.generator, MemoryJournal(), run_dir, run)

    @torch.inference_mode()
    def compute(self, length: int) -> None:
        """Let the model compute a conversation longer than requests may be."""
        self.model(input_ids=torch.arange(length)[None] % VOCABULARY)

    def rotary(self) -> Any:
        return self.model.model.rotary_emb


def with_rope(run_dir: Path, kind: str, name: str) -> Served:
    return Served(run_dir, kind, rope_parameters=rope(kind, name), sliding_window=MAX_LENGTH)


@pytest.fixture
async def gemma2(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path, "gemma2", sliding_window=MAX_LENGTH)
    yield served
    await served.generator.close()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("llama", name) for name in ROPES),
        # With longrope, transformers cannot compute a second long conversation.
        *(("gemma3_text", name) for name in ROPES if name != "longrope"),
    ],
)
async def test_conversations_of_any_length_raise_no_alarm(
    kind: str, name: str, tmp_path: Path
) -> None:
    served = with_rope(tmp_path, kind, name)
    for lengths in LENGTHS.values():
        for length in lengths:
            served.compute(length)
        for version in served.versions:
            await served.engine.serve(version)
    await served.generator.close()


@pytest.mark.parametrize("name", CHANGING)
async def test_requests_in_between_raise_no_alarm(name: str, tmp_path: Path) -> None:
    served = with_rope(tmp_path, "llama", name)
    for version in served.versions:
        for tokens in (5, ORIGINAL - 8):
            await served.generator.generate(ask("talk", range(tokens)))
        await served.engine.serve(version)
    await served.generator.close()


@pytest.mark.parametrize(("name", "limit"), [("longrope", ORIGINAL), ("dynamic", MAX_LENGTH)])
async def test_conversations_that_would_change_a_table_are_refused(
    name: str, limit: int, tmp_path: Path
) -> None:
    served = with_rope(tmp_path, "llama", name)
    await served.generator.close()
    config = read_config(tmp_path / "model")
    check_positions(config, tmp_path, limit)
    with pytest.raises(GeneratorError, match=f"lower rollout.max_tokens to {limit}"):
        check_positions(config, tmp_path, limit + 1)


async def test_a_model_whose_table_would_change_is_not_served(tmp_path: Path) -> None:
    served = with_rope(tmp_path, "llama", "longrope")
    await served.generator.close()
    with pytest.raises(GeneratorError, match="computes all positions differently"):
        TransformersGenerator(
            tmp_path / "model", tmp_path, max_concurrent=2, max_length=ORIGINAL + 1
        )


@pytest.mark.parametrize("length", [20, MAX_LENGTH + 50])
@pytest.mark.parametrize("name", ROPES)
async def test_a_changed_table_is_noticed(name: str, length: int, tmp_path: Path) -> None:
    served = with_rope(tmp_path, "llama", name)
    served.compute(length)
    rotary = served.rotary()
    right = rotary.inv_freq.clone()
    halves = (right[:8], right[8:] / 2)
    for wrong in (right * (1 + 2**-20), right.flip(0), torch.cat(halves)):
        rotary.inv_freq = wrong
        with pytest.raises(DeliveryError, match=r"rotary_emb\.inv_freq"):
            await served.engine.serve(served.versions[0])
    rotary.inv_freq = right
    served.compute(length)
    await served.engine.serve(served.versions[1])
    await served.generator.close()


@pytest.mark.parametrize("name", CHANGING)
async def test_a_table_of_another_length_than_is_held_is_noticed(name: str, tmp_path: Path) -> None:
    served = with_rope(tmp_path, "llama", name)
    served.compute(MAX_LENGTH + 50)
    rotary = served.rotary()
    rotary.max_seq_len_cached = MAX_LENGTH + 51
    with pytest.raises(DeliveryError, match=r"rotary_emb"):
        await served.engine.serve(served.versions[0])
    await served.generator.close()


async def test_a_kept_table_that_changed_is_noticed(tmp_path: Path) -> None:
    served = with_rope(tmp_path, "llama", "longrope")
    served.compute(200)
    served.compute(20)
    rotary = served.rotary()
    rotary.long_inv_freq = rotary.long_inv_freq * 1.5
    with pytest.raises(DeliveryError, match="long_inv_freq"):
        await served.engine.serve(served.versions[0])
    await served.generator.close()


@pytest.mark.parametrize("name", ROPES)
async def test_another_scale_of_the_table_is_noticed(name: str, tmp_path: Path) -> None:
    served = with_rope(tmp_path, "llama", name)
    served.compute(200)
    served.rotary().attention_scaling *= 1.001
    with pytest.raises(DeliveryError, match="attention_scaling"):
        await served.engine.serve(served.versions[0])
    await served.generator.close()


def _attention(model: Any) -> Any:
    return model.model.layers[1].self_attn


def _scale(model: Any) -> None:
    _attention(model).scaling *= 1.01


def _attention_cap(model: Any) -> None:
    _attention(model).attn_logit_softcapping = 49.0


def _output_cap(model: Any) -> None:
    model.config.final_logit_softcapping = None


def _epsilon(model: Any) -> None:
    model.model.norm.eps = 1e-5


def _groups(model: Any) -> None:
    _attention(model).num_key_value_groups = 1


def _activation(model: Any) -> None:
    model.model.layers[0].mlp.act_fn = torch.nn.SiLU()


def _order(model: Any) -> None:
    model.model.layers = torch.nn.ModuleList([*model.model.layers][::-1])


def _training(model: Any) -> None:
    _attention(model).train()


def _forward(model: Any) -> None:
    layer = model.model.layers[0].mlp
    layer.forward = lambda hidden: hidden


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (_scale, r"layers\.1\.self_attn\.scaling 0\.\d+, not 0\.\d+"),
        (_attention_cap, r"attn_logit_softcapping 49\.0, not 50\.0"),
        (_output_cap, r"config\.final_logit_softcapping None, not 30\.0"),
        (_epsilon, r"model\.norm\.eps 1e-05, not 1e-06"),
        (_groups, r"num_key_value_groups 1, not 2"),
        (_activation, r"mlp\.act_fn: SiLU, not GELUTanh"),
        (_order, r"layer_idx"),
        (_training, r"self_attn\.training True, not False"),
        (_forward, r"mlp\.forward"),
    ],
)
async def test_a_changed_setting_is_noticed(
    gemma2: Served, change: Callable[[Any], None], names: str
) -> None:
    await gemma2.engine.serve(gemma2.versions[0])
    change(gemma2.model)
    with pytest.raises(DeliveryError, match=names):
        await gemma2.engine.serve(gemma2.versions[1])


async def test_a_version_with_the_config_of_another_model_is_noticed(
    gemma2: Served, tmp_path: Path
) -> None:
    other = read_model(tmp_path / "model")
    other.config.rms_norm_eps = 1e-3
    version = published(tmp_path, 3, other)
    with pytest.raises(DeliveryError, match=r"the config\.json of the version gives another model"):
        await gemma2.engine.serve(version)
