"""Finds the folder of the model that a run starts from."""

from pathlib import Path

from protocols.errors import ConfigError

TINY = "tiny"
TINY_FOLDER = Path(__file__).parents[1] / "tiny" / "checkpoint"


def model_folder(name: str) -> Path:
    """Return the folder that ``policy.model`` names, in Hugging Face layout.

    Raises:
        ConfigError: There is no such folder, or it holds no model.
    """
    folder = TINY_FOLDER if name == TINY else Path(name)
    if not folder.is_dir():
        raise ConfigError(
            f"policy.model: needs {TINY!r} or a folder in Hugging Face layout, found {name!r}, and "
            f"{folder} is no folder; download the model first and give its path"
        )
    missing = [
        what
        for what, pattern in (("config.json", "config.json"), ("*.safetensors", "*.safetensors"))
        if not any(folder.glob(pattern))
    ]
    if missing:
        raise ConfigError(
            f"policy.model: {folder} holds no {' and no '.join(missing)}; give a folder that "
            "save_pretrained of transformers wrote, with its weights as safetensors"
        )
    return folder
