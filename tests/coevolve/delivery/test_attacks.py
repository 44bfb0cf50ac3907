"""Attacks on the delivery of weights, most of them written without knowledge of its code.

The tests exchange the engine's weights at the place where it loads them, so an attack covers every
fault between file and memory with this effect.
"""

import random
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.models.tiny_random.model import write_model
from coevolve.weights.models import Base
from protocols.config import (
    PolicyConfig,
    RunConfig,
    TransformersDtype,
    TransformersEngine,
)
from protocols.errors import DeliveryError, GeneratorError
from protocols.learning import WeightsFormat
from tests.coevolve.delivery.experts import EXPERTS, Change, prove_and_alarm
from tests.coevolve.delivery.scenes import Scene, Weights, attack_and_alarm
from tests.coevolve.delivery.weight_attacks import FILES, WEIGHTS, FileAttack, WeightAttack
from tests.serving import MAX_LENGTH, adapted, ask, moved, new_model

TEXTS = tuple(Bfcl(RunConfig(name="texts", environment={"use": "bfcl"})).texts())

BESIDE = ("old_file_beside", "index_to_old_shard")
"""These put a file beside the others that nothing reads."""


def fits(attack: FileAttack, format: WeightsFormat) -> bool:
    """Return whether the attack applies to weights of this format."""
    return attack.__dict__["form"] in (format, "either")


class TransformersScene(Scene[TransformersGenerator]):
    """Two versions that differ by 0.3 % of each weight's spread."""

    def __init__(
        self, folder: Path, dtype: TransformersDtype, format: WeightsFormat = "full"
    ) -> None:
        super().__init__(folder, TransformersEngine(dtype=dtype), format)
        new_model("qwen3").save_pretrained(self.base)
        first = new_model("qwen3", seed=1) if format == "full" else adapted(self.base, seed=1)
        self.before = self.publish(1, first)
        self.right = self.publish(2, moved(first))
        self.generator = TransformersGenerator(
            self.base, folder, max_concurrent=2, max_length=MAX_LENGTH, dtype=dtype
        )

    def sabotage(self, change: Callable[[], Weights], monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the engine load other weights than it is given."""
        engine = self.generator._queued.engine  # pyright: ignore[reportPrivateUsage]
        swap = engine.swap_weights
        monkeypatch.setattr(engine, "swap_weights", lambda _, version: swap(change(), version))


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TransformersScene:
    return TransformersScene(tmp_path_factory.mktemp("run"), request.param)


@pytest.mark.parametrize("attack", WEIGHTS, ids=lambda attack: attack.__name__)
async def test_other_weights_than_the_published_are_noticed_at_once(
    scene: TransformersScene, attack: WeightAttack, monkeypatch: pytest.MonkeyPatch
) -> None:
    await attack_and_alarm(scene, attack, scene.sabotage, monkeypatch)


FORMATS: tuple[WeightsFormat, ...] = ("full", "lora")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[WeightsFormat, TransformersScene]:
    return {
        each: TransformersScene(tmp_path_factory.mktemp("run"), "bfloat16", each)
        for each in FORMATS
    }


@contextmanager
def put_back(scene: TransformersScene) -> Generator[Path]:
    """Yield the folder of the right version, and restore it afterwards."""
    folder, copy = scene.run_dir / scene.right.path, scene.run_dir / "copy"
    shutil.copytree(folder, copy)
    yield folder
    shutil.rmtree(folder)
    copy.rename(folder)


@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize(
    ("format", "attack"),
    [(each, attack) for attack in FILES for each in FORMATS if fits(attack, each)],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_files_that_changed_after_their_record_are_noticed_or_not_used(
    scenes: dict[WeightsFormat, TransformersScene],
    format: WeightsFormat,
    attack: FileAttack,
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = scenes[format]
    engine, right = scene.engine(), scene.weights(scene.right)
    await engine.serve(scene.before)
    with put_back(scene) as folder:

        def damage() -> Weights:
            attack(scene.run_dir / scene.before.path, folder, random.Random(1))
            return right

        if when == "between":
            scene.sabotage(damage, monkeypatch)
        else:
            damage()
        if attack.__name__ in BESIDE:
            await engine.serve(scene.right)
        else:
            with pytest.raises(DeliveryError):
                await engine.serve(scene.right)


async def test_an_adapter_with_another_scale_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = TransformersScene(tmp_path, "bfloat16", "lora")
    monkeypatch.setattr("coevolve.weights.published.Published.scale", 6 / 4.5)
    with pytest.raises(DeliveryError, match="are not the model's with the adapter"):
        await scene.engine().serve(scene.right)


async def test_another_initial_model_is_detected(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "bfloat16", "lora")
    await scene.engine().serve(scene.right)
    moved(new_model("qwen3")).save_pretrained(tmp_path / "model")
    with pytest.raises(DeliveryError, match="is not the learner's"):
        await scene.engine().serve(scene.right)


async def test_an_adapter_that_is_merged_twice_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = TransformersScene(tmp_path, "float32", "lora")
    once, base = scene.weights(scene.right), Base(scene.base).for_format("lora").parameters
    with monkeypatch.context() as patch:
        scene.sabotage(lambda: {name: 2 * once[name] - base[name] for name in once}, patch)
        with pytest.raises(DeliveryError, match="among them some of"):
            await scene.engine().serve(scene.right)
    await scene.engine().serve(scene.right)


async def test_an_adapter_on_a_model_that_holds_it_already_is_noticed(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "float32", "lora")
    moved(adapted(scene.base, seed=1)).merge_and_unload().save_pretrained(scene.base)
    scene.generator = TransformersGenerator(
        scene.base, tmp_path, max_concurrent=2, max_length=MAX_LENGTH
    )
    with pytest.raises(DeliveryError, match="is not the learner's"):
        await scene.engine().serve(scene.right)


async def test_another_precision_than_configured_is_noticed(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "bfloat16")
    scene.config = RunConfig(name="exact", policy=scene.config.policy)
    with pytest.raises(DeliveryError, match="serves bfloat16, which differs from the run file"):
        await scene.engine().serve(scene.right)


async def test_unpublished_tensors_must_not_change(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "float32")
    engine = scene.engine()
    await engine.serve(scene.before)
    buffers = dict(scene.generator._model.named_buffers())  # pyright: ignore[reportPrivateUsage]
    next(iter(buffers.values())).mul_(1.0 + 2**-20)
    with pytest.raises(DeliveryError, match="inv_freq"):
        await engine.serve(scene.right)


async def test_nan_weights_raise_an_error(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "bfloat16")
    parameters = dict(scene.generator._model.named_parameters())  # pyright: ignore
    with torch.no_grad():
        parameters["model.embed_tokens.weight"][7] = float("nan")
    with pytest.raises(GeneratorError, match="have the logprob nan"):
        await scene.generator.generate(ask("talk", [1, 7]))


async def test_single_experts_are_compared(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(
        RunConfig(name="experts", policy=PolicyConfig(model=EXPERTS, tiny_random=True)),
        folder,
        TEXTS,
    )
    generator = TransformersGenerator(
        folder, tmp_path, max_concurrent=2, max_length=MAX_LENGTH, dtype="bfloat16"
    )
    engine = generator._queued.engine  # pyright: ignore[reportPrivateUsage]
    swap = engine.swap_weights

    def sabotage(change: Change) -> None:
        engine.swap_weights = lambda weights, version: swap(change(dict(weights)), version)

    await prove_and_alarm(folder, TransformersEngine(dtype="bfloat16"), generator, sabotage)
    await generator.close()


async def test_a_parameter_that_nobody_published_is_noticed(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "bfloat16")
    layer: Any = scene.generator._model.model.layers[0].mlp.down_proj  # pyright: ignore
    layer.bias = torch.nn.Parameter(torch.full((64,), 2e-3, dtype=torch.bfloat16))
    with pytest.raises(DeliveryError, match=r"down_proj\.bias"):
        await scene.engine().serve(scene.right)


async def test_weights_that_are_not_rounded_are_noticed(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "bfloat16")
    scene.generator._model.float()  # pyright: ignore
    with pytest.raises(DeliveryError, match="differ from the published files"):
        await scene.engine().serve(scene.right)


async def test_tables_that_are_not_stated_are_noticed(tmp_path: Path) -> None:
    scene = TransformersScene(tmp_path, "bfloat16")
    for module in scene.generator._model.modules():  # pyright: ignore
        for name in list(module._buffers):
            table: Any = module._buffers.pop(name)
            setattr(module, name, table * 1.002)
    with pytest.raises(DeliveryError, match="inv_freq"):
        await scene.engine().serve(scene.right)
