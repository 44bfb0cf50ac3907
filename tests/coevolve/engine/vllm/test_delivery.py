"""Attacks on the delivery of weights to vLLM, and deliveries without attacks."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM

from coevolve.weights.published import Published
from protocols.config import VllmEngine
from protocols.errors import DeliveryError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import WeightsFormat
from tests.coevolve.delivery.scenes import Scene, Weights, attack_and_alarm
from tests.coevolve.delivery.weight_attacks import WEIGHTS, WeightAttack
from tests.serving import SHAPE, adapted, ask, difference, moved, new_model
from tests.vllm_engines import open_engine

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

DTYPES = ("float32", "bfloat16")


class VllmScene(Scene[Any]):
    """Two versions that differ by 0.3 % of each weight's spread."""

    def __init__(
        self,
        folder: Path,
        dtype: str,
        *,
        architecture: str = "qwen3",
        adapters: int = 0,
        model: Any = None,
        open_merged: bool = False,
    ) -> None:
        """Publish two versions; ``open_merged`` starts the engine with the second in its model."""
        engine: dict[str, Any] = {"dtype": dtype, "deliver": "adapter" if adapters else "merged"}
        super().__init__(folder, VllmEngine(**engine), "lora" if adapters else "full")
        (model or new_model(architecture)).save_pretrained(self.base)
        whole = model or new_model(architecture, seed=1)
        first = adapted(self.base, seed=1) if adapters else whole
        self.before = self.publish(1, first)
        self.right = self.publish(2, moved(first))
        if open_merged:
            merged = adapted(self.base, seed=1)
            moved(merged).merge_and_unload().save_pretrained(self.base)
        self.generator = open_engine(self.base, folder, adapters=adapters, dtype=dtype)

    def sabotage(self, change: Callable[[], Weights], monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the engine load other weights than it is given."""
        core = self.generator._core
        serve = core.serve_weights
        monkeypatch.setattr(
            core, "serve_weights", lambda _, version: serve(change().items(), version)
        )


@pytest.fixture(scope="module", params=DTYPES)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VllmScene:
    return VllmScene(tmp_path_factory.mktemp("run"), request.param)


@pytest.fixture(scope="module", params=DTYPES)
def adapting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VllmScene:
    return VllmScene(tmp_path_factory.mktemp("run"), request.param, adapters=2)


@pytest.mark.parametrize("attack", WEIGHTS, ids=lambda attack: attack.__name__)
async def test_other_weights_than_the_published_are_noticed_at_once(
    scene: VllmScene, attack: WeightAttack, monkeypatch: pytest.MonkeyPatch
) -> None:
    await attack_and_alarm(scene, attack, scene.sabotage, monkeypatch)


async def test_a_packed_copy_that_is_not_renewed_is_noticed(
    scene: VllmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = scene.engine()
    await engine.serve(scene.before)
    with monkeypatch.context() as patch:
        patch.setattr("coevolve.engine.vllm.repairs.retie", lambda _: None)
        with pytest.raises(DeliveryError, match="lm_head"):
            await engine.serve(scene.right)


def _attention(model: Any) -> Any:
    return model.model.layers[1].self_attn.attn


def _positions(model: Any) -> tuple[Any, str, Any]:
    rotary = model.model.layers[0].self_attn.rotary_emb
    return rotary, "cos_sin_cache", rotary.cos_sin_cache * (1 + 2**-6)


def _far_position(model: Any) -> tuple[Any, str, Any]:
    rotary = model.model.layers[0].self_attn.rotary_emb
    table = rotary.cos_sin_cache.clone()
    table[-1] = table[-2]
    return rotary, "cos_sin_cache", table


def _further_table(model: Any) -> tuple[Any, str, Any]:
    model.model.norm.register_buffer("offset", torch.zeros(1))
    return model.model.norm, "offset", torch.ones(1)


def _softmax_scale(model: Any) -> tuple[Any, str, Any]:
    return _attention(model).impl, "scale", 0.2


def _attention_cap(model: Any) -> tuple[Any, str, Any]:
    return _attention(model).impl, "logits_soft_cap", 30.0


def _output_scale(model: Any) -> tuple[Any, str, Any]:
    return model.logits_processor, "scale", 1.01


def _output_cap(model: Any) -> tuple[Any, str, Any]:
    return model.logits_processor, "soft_cap", 30.0


def _epsilon(model: Any) -> tuple[Any, str, Any]:
    return model.model.norm, "variance_epsilon", 1e-5


TABLES = (_positions, _far_position, _further_table)
SETTINGS = (_softmax_scale, _attention_cap, _output_scale, _output_cap, _epsilon)


@pytest.mark.parametrize("already", [False, True])
@pytest.mark.parametrize("change", [*TABLES, *SETTINGS])
async def test_a_changed_table_or_setting_is_noticed(
    scene: VllmScene, change: Callable[[Any], tuple[Any, str, Any]], already: bool
) -> None:
    """Covers engines that have proven a version and engines that were wrong from the start."""
    engine = scene.engine()
    if already:
        await engine.serve(scene.before)
    (model,) = scene.generator._core._llm.apply_model(lambda model: model)
    owner, name, wrong = change(model)
    right = getattr(owner, name)
    setattr(owner, name, wrong)
    with pytest.raises(DeliveryError, match=name):
        await engine.serve(scene.right)
    setattr(owner, name, right)
    owner.__dict__.get("_buffers", {}).pop("offset", None)
    await scene.engine().serve(scene.right)


def tampered(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Weights, dict[str, Any]], None]
) -> None:
    """Change the adapter that the engine loads, after it was read and checked."""
    write = Published.copy_adapter

    def copy(self: Published, folder: Path) -> None:
        tensors = {name: tensor.clone() for name, tensor in self.tensors.items()}
        settings = dict(self.settings)
        change(tensors, settings)
        write(replace(self, tensors=tensors, settings=settings), folder)

    monkeypatch.setattr(Published, "copy_adapter", copy)


A = "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"
B = "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight"


def _scaled(_tensors: Weights, settings: dict[str, Any]) -> None:
    settings["lora_alpha"] = 7


def _one_row(tensors: Weights, _settings: dict[str, Any]) -> None:
    tensors[A][2] = tensors[A][1]


def _one_module(tensors: Weights, _settings: dict[str, Any]) -> None:
    del tensors[A], tensors[A.replace("lora_A", "lora_B")]


def _signs(tensors: Weights, _settings: dict[str, Any]) -> None:
    # The product stays the same.
    tensors[B] *= -1
    tensors[B.replace("lora_B", "lora_A")] *= -1


def _root(_tensors: Weights, settings: dict[str, Any]) -> None:
    settings["use_rslora"] = True


@pytest.mark.parametrize("change", [_scaled, _one_row, _one_module, _signs, _root])
async def test_an_adapter_that_was_changed_on_its_way_is_noticed(
    adapting: VllmScene, change: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = adapting.engine()
    await engine.serve(adapting.before)
    with monkeypatch.context() as patch:
        tampered(patch, change)
        with pytest.raises(DeliveryError):
            await engine.serve(adapting.right)


async def test_an_adapter_that_is_merged_and_served_beside_as_well_is_noticed(
    adapting: VllmScene,
) -> None:
    core, base = adapting.generator._core, adapting.generator._base
    engine = adapting.engine()
    await engine.serve(adapting.before)
    core.serve_weights(adapting.weights(adapting.right).items(), 2)
    with pytest.raises(DeliveryError, match="among them some of"):
        await engine.serve(adapting.right)
    core.serve_weights(base.for_format("lora").parameters.items(), 0)
    await adapting.engine().serve(adapting.right)


async def test_an_adapter_on_a_model_that_holds_it_already_is_noticed(tmp_path: Path) -> None:
    scene = VllmScene(tmp_path, "float32", adapters=2, open_merged=True)
    with pytest.raises(DeliveryError, match="is not the learner's"):
        await scene.engine().serve(scene.right)


async def test_requests_that_get_an_older_adapter_are_noticed(
    adapting: VllmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = adapting.engine()
    await engine.serve(adapting.before)
    with monkeypatch.context() as patch:
        core = adapting.generator._core  # pyright: ignore[reportPrivateUsage]
        patch.setattr(core, "serve_adapter", lambda *_: True)
        with pytest.raises(DeliveryError, match="by the tensors it serves version 1"):
            await engine.serve(adapting.right)


@pytest.mark.parametrize("dtype", DTYPES)
async def test_an_output_of_its_own_is_read_as_well(tmp_path: Path, dtype: str) -> None:
    scene = VllmScene(tmp_path, dtype, architecture="llama")
    proof = await scene.engine().serve(scene.right)
    assert proof.rows > 2 * 200


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_requests_in_flight_and_proofs_do_not_disturb_one_another(
    tmp_path: Path, dtype: str
) -> None:
    scene = VllmScene(tmp_path, dtype)
    engine = scene.engine()
    models = {1: new_model("qwen3", seed=1), 2: moved(new_model("qwen3", seed=1))}
    await engine.serve(scene.before)
    over = asyncio.Event()
    answers: list[tuple[GenerationRequest, Generation]] = []

    async def talk(name: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            request = ask(f"talk {name} {turn}", [name, 7, turn], max_tokens=30, seed=turn)
            answers.append((request, await scene.generator.generate(request)))

    talks = [asyncio.create_task(talk(name)) for name in range(1, 5)]
    for _ in range(15):
        await engine.serve(scene.right)
        await engine.serve(scene.before)
    over.set()
    await asyncio.gather(*talks)
    assert len({each for _, said in answers for each in said.versions}) == 2
    for request, said in answers:
        by_version = {number: difference(model, request, said) for number, model in models.items()}
        apart = torch.stack(
            [by_version[version][token] for token, version in enumerate(said.versions)]
        )
        assert apart.mean() < (1e-4 if dtype == "float32" else 0.05)


@pytest.mark.parametrize(("dtype", "format"), [("float32", "full"), ("bfloat16", "lora")])
@pytest.mark.parametrize("kind", ["qwen2", "phi3"])
async def test_biases_and_layers_that_files_hold_as_one_are_compared(
    tmp_path: Path, kind: str, dtype: str, format: WeightsFormat
) -> None:
    torch.manual_seed(0)
    shape: dict[str, Any] = {**SHAPE, "tie_word_embeddings": False, "pad_token_id": 0}
    config: Any = Qwen2Config(**shape) if kind == "qwen2" else Phi3Config(**shape)
    kinds = {"qwen2": Qwen2ForCausalLM, "phi3": Phi3ForCausalLM}
    model = cast("Any", kinds[kind])(config)
    adapters = 2 if format == "lora" else 0
    scene = VllmScene(tmp_path, dtype, model=moved(model), adapters=adapters)
    proof = await scene.engine().serve(scene.right)
    assert proof.rows > 1000
