"""The model folder with which a run of the tiny hardware policy starts."""

from pathlib import Path

import pytest

from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.environments.hdl.policy.tiny.model import write_model
from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, MODEL, PAD, WORDS
from coevolve.models.architecture import architecture, read_config
from coevolve.models.load import read_model
from coevolve.models.weight_files import file_digest
from protocols.config import RunConfig
from protocols.errors import ConfigError

RUN_FILE = Path(__file__).parents[6] / "configs" / "hdl_tiny.yaml"
QUICKSTART = RUN_FILE.with_name("quickstart.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    write_model(0, folder)
    return folder


def config(*overrides: str) -> RunConfig:
    return load_config(RUN_FILE, overrides)


def test_the_models_size_is_known_before_it_is_made(folder: Path):
    model, expected = read_model(folder), architecture(MODEL)
    assert expected is not None
    assert expected.parameters == sum(each.numel() for each in model.parameters())
    written = architecture(read_config(folder))
    assert written == expected


def test_the_weights_depend_on_the_seed(folder: Path, tmp_path: Path):
    digests = [file_digest(folder / "model.safetensors")]
    for seed in (0, 1):
        write_model(seed, tmp_path / str(seed))
        digests.append(file_digest(tmp_path / str(seed) / "model.safetensors"))
    assert digests[0] == digests[1] != digests[2]


def test_an_existing_model_stays(folder: Path):
    before = file_digest(folder / "model.safetensors")
    write_model(1, folder)
    assert file_digest(folder / "model.safetensors") == before


def test_the_tokenizer_encodes_and_decodes_the_words(folder: Path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = "<edit> set in1 =max wait out0 =c3 run8"
    assert tokenizer.encode(said) == [IDS[word] for word in said.split()]
    assert tokenizer.pad_token_id == PAD
    assert len(tokenizer) == len(WORDS)


@pytest.mark.hdl
def test_the_run_file_meets_its_preflight():
    preflight.check(config())


@pytest.mark.hdl
@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "environment.form=testbench",
            "environment.form: policy.model tiny_hdl needs stimulus, found testbench",
        ),
        ("policy.tiny_random=true", "needs a model to make a small one of, found 'tiny_hdl'"),
    ],
)
def test_unsupported_settings_are_refused(override: str, words: str):
    with pytest.raises(ConfigError, match=words):
        preflight.check(config(override))


def test_the_tiny_policy_is_refused_for_tools():
    with pytest.raises(ConfigError, match=r"policy\.model: needs 'tiny', a folder"):
        preflight.check(load_config(QUICKSTART, ["policy.model=tiny_hdl"]))


def test_only_the_tiny_policy_has_a_grammar_to_warm_up_on():
    with pytest.raises(ConfigError, match=r"\$\.environment\.stages: the writer grammar needs"):
        config("policy.model=tiny")
