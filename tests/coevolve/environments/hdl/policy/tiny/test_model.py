"""The model folder that a run of the tiny hardware policy begins with."""

from pathlib import Path

import pytest

from coevolve.config import load_config
from coevolve.environments.hdl.policy.tiny.model import write_model
from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, MODEL, PAD, WORDS
from coevolve.launcher import preflight
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


def test_its_size_is_known_before_it_is_made(folder: Path):
    model, expected = read_model(folder), architecture(MODEL)
    assert expected is not None
    assert expected.parameters == sum(each.numel() for each in model.parameters())
    written = architecture(read_config(folder))
    assert written == expected


def test_its_weights_are_the_seeds(folder: Path, tmp_path: Path):
    digests = [file_digest(folder / "model.safetensors")]
    for seed in (0, 1):
        write_model(seed, tmp_path / str(seed))
        digests.append(file_digest(tmp_path / str(seed) / "model.safetensors"))
    assert digests[0] == digests[1] != digests[2]


def test_one_that_is_there_stays(folder: Path):
    before = file_digest(folder / "model.safetensors")
    write_model(1, folder)
    assert file_digest(folder / "model.safetensors") == before


def test_its_tokenizer_spells_its_words(folder: Path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = "<edit> set in1 =max wait out0 =c3 run8"
    assert tokenizer.encode(said) == [IDS[word] for word in said.split()]
    assert tokenizer.pad_token_id == PAD
    assert len(tokenizer) == len(WORDS)


@pytest.mark.hdl
def test_the_run_file_can_be_run():
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
def test_what_it_is_not_made_for_is_refused_in_words(override: str, words: str):
    with pytest.raises(ConfigError, match=words):
        preflight.check(config(override))


def test_it_is_refused_for_tools():
    with pytest.raises(ConfigError, match=r"policy\.model: needs 'tiny', a folder"):
        preflight.check(load_config(QUICKSTART, ["policy.model=tiny_hdl"]))


def test_only_it_can_be_warmed_up_on_a_grammar():
    with pytest.raises(ConfigError, match=r"\$\.environment\.stages: the writer grammar needs"):
        config("policy.model=tiny")
