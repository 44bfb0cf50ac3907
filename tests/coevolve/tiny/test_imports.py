import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["sources", "renderer", "abstraction", "tokenizer", "synthesizer"]
)
def test_actors_that_do_no_model_work_load_no_model_library(module: str) -> None:
    code = (
        f"import sys, coevolve.tiny.{module}\n"
        "loaded = {'torch', 'transformers', 'ray'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
