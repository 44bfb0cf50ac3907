"""A teacher behind a scripted server, and the coverage of its testbenches."""

import re

import msgspec

from coevolve.environments.hdl.simulate.messages import Covered, Outcome
from protocols.synthesizers import EndpointModel
from tests.hdl_points import all_but, covering

DESIGN = "combo_lock"
GOOD = "filename: tb.sv\n```systemverilog\nmodule tb; // misses DONE\nendmodule\n```"
WORSE = GOOD.replace("DONE", "DONE if")
WORST = GOOD.replace("DONE", "DONE if cond_then")


def by_what_is_missed(testbench: str) -> Outcome:
    missed = re.search(r"misses (.*)", testbench)
    coverage = covering(all_but(*(missed[1].split() if missed else [])))
    return Covered(coverage=coverage, ended="finish", slots=1, time=1, log="")


def endpoint(base_url: str, **changes: object) -> EndpointModel:
    priced = {"usd_per_million_prompt_tokens": 1.0, "usd_per_million_answer_tokens": 2.0}
    settings = {"base_url": base_url, "model": "teacher", "tries": 1, **priced, **changes}
    return msgspec.convert(settings, EndpointModel)
