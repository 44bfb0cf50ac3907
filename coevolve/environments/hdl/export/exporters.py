"""The exports that the environment offers for a run on designs."""

from collections.abc import Mapping

from coevolve.environments.sdk import Exporter

EXPORTERS: Mapping[str, Exporter] = {
    "transitions": Exporter(
        about="steps on hardware designs for supervised fine-tuning, as JSON lines",
        file="train.jsonl",
        module="coevolve.environments.hdl.export.transitions",
        options={
            "form": ("chat", "llamafactory"),
            "keep": ("stage", "paper", "released", "warm_up", "unfiltered"),
        },
    ),
}
