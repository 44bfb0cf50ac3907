"""`python -m tests.bench NAME`: measures one part on this machine."""

import sys
from importlib import import_module

BENCHES = {
    "appworld": "tests.bench.appworld",
    "appworld-gates": "tests.bench.appworld_gates",
    "appworld-templates": "tests.bench.appworld_templates",
    "calls": "tests.bench.calls",
    "chaos": "tests.bench.chaos",
    "delivery": "tests.bench.delivery",
    "endpoint": "tests.bench.endpoint",
    "engine": "tests.bench.engine",
    "exposure": "tests.bench.exposure",
    "faults": "tests.bench.faults",
    "gates": "tests.bench.gates",
    "gateway": "tests.bench.gateway",
    "gpu": "tests.bench.gpu",
    "gradient": "tests.bench.gradient",
    "guard": "tests.bench.guard",
    "hdl": "tests.bench.hdl",
    "hdl-ablation": "tests.bench.hdl_ablation",
    "hdl-baselines": "tests.bench.hdl_baselines",
    "journal": "tests.bench.journal",
    "journal-cost": "tests.bench.journal_cost",
    "learner": "tests.bench.learner",
    "learning": "tests.bench.learning",
    "lexical": "tests.bench.lexical",
    "likelihood": "tests.bench.likelihood",
    "memorization": "tests.bench.memorization",
    "mutants": "tests.bench.mutants",
    "mutations": "tests.bench.mutations",
    "page": "tests.bench.page",
    "planted": "tests.bench.planted",
    "powercuts": "tests.bench.powercuts",
    "recovery": "tests.bench.recovery",
    "restarts": "tests.bench.restarts",
    "rollouts": "tests.bench.rollouts",
    "scaling": "tests.bench.scaling",
    "scores": "tests.bench.scores",
    "seen": "tests.bench.seen",
    "simulator": "tests.bench.simulator",
    "soak": "tests.bench.soak",
    "soak-designs": "tests.bench.soak_designs",
    "store": "tests.bench.store",
    "survey": "tests.bench.survey",
    "tiny-policy": "tests.bench.tiny_policy",
    "trl": "tests.bench.against_trl",
    "trl-chat": "tests.bench.trl_chat",
}
"""Bench -> its module, whose ``main`` gets the remaining arguments."""


def main(arguments: list[str]) -> int:
    """Run the bench that the first argument names."""
    if not arguments or arguments[0] not in BENCHES:
        found = arguments[0] if arguments else "nothing"
        sys.stderr.write(f"bench: needs one of {', '.join(BENCHES)}, got {found}\n")
        return 2
    return import_module(BENCHES[arguments[0]]).main(arguments[1:]) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
