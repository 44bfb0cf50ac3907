"""`attach swap-synthesizer`: replaces the synthesizer's model in a live run."""

import re
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from coevolve.base.foreign import shown
from coevolve.cli.attach_views.output import say, tell
from coevolve.cli.attach_views.subject import Subject
from coevolve.journal.codec import decode, topics_of
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.evolution import SwapRefused, SwapRequested, SynthesizerSwapped
from protocols.synthesizers import EndpointModel, PolicyModel, SynthesizerModel

ANSWERS = topics_of(SynthesizerSwapped, SwapRefused)

SPARE_S = 120.0
"""Time for the synthesizer to see the request and load the policy, besides the model's own."""


def model_of(options: Mapping[str, Any]) -> SynthesizerModel:
    """Return the model that the options name, by their names on the command line.

    Options that are None get their defaults. Raises RunError if the options do not fit together.
    """
    kind, form = ("policy", PolicyModel) if options["policy"] else ("endpoint", EndpointModel)
    known = {field.name for form in (PolicyModel, EndpointModel) for field in _fields(form)}
    given = {name: options[name] for name in sorted(known) if options.get(name) is not None}
    chosen = "--policy" if options["policy"] else "--base-url"
    for name in given:
        if name not in {field.name for field in _fields(form)}:
            raise RunError(f"{_option(name)}: does not go with {chosen}; leave it out")
    missing = [field.name for field in _fields(form) if field.required and field.name not in given]
    if missing:
        raise RunError(f"{_option(missing[0])}: is required with {chosen} and missing")
    try:
        return msgspec.convert({"kind": kind, **given}, SynthesizerModel, strict=False)
    except msgspec.ValidationError as error:
        raise RunError(_fault(str(error), given)) from error


async def swap_synthesizer(subject: Subject, model: SynthesizerModel, *, as_json: bool) -> None:
    """Ask for ``model`` and wait for the synthesizer's answer.

    Raises RunError if the run has no synthesizer, or if the model or the run does not answer.
    """
    if not subject.config.synthesizes:
        raise RunError(
            f"{subject.name}: arm {subject.config.arm} has no synthesizer to swap; arms full, "
            "random, placebo, coverage and oracle have one"
        )
    if not subject.environment.swappable:
        raise RunError(
            f"{subject.name}: its tasks are enumerated, without a model that could be swapped"
        )
    live = subject.actors()
    patience_s = _patience_s(model)
    request = SwapRequested(request_id=uuid.uuid4().hex, model=model)
    if not as_json:
        say(f"{subject.name}: waits up to {patience_s:.0f} s for {_told(model)} to answer")
    await live.append(request)
    answer = await subject.answer(request.request_id, ANSWERS, patience_s)
    match answer and decode(answer):
        case SynthesizerSwapped(synthesizer=synthesizer):
            tree = {"run": subject.name, "request_id": request.request_id, "swapped": True}
            text = f"{synthesizer} synthesizes from the next signal on{_judge(subject.config)}"
            tree |= {"synthesizer": synthesizer}
            tell(tree, f"{subject.name}: {text}", as_json=as_json)
        case SwapRefused(reason=reason):
            raise RunError(
                f"{subject.name}: the synthesizer stays as it is, the new one is refused: {reason}"
            )
        case _:
            raise RunError(
                f"{subject.name}: the synthesizer did not answer within {patience_s:.0f} s; the "
                f"request {request.request_id} stands, and `tail synthesizer_swapped` or `tail "
                "swap_refused` will show what came of it; `status` shows what it does"
            )


def _judge(config: RunConfig) -> str:
    """Return whom `validator.judge` asks after a swap; empty if it asks nobody."""
    model = config.synthesizer.model
    if not (config.validator.judge and isinstance(model, EndpointModel)):
        return ""
    return f"; validator.judge still asks {_told(model)}, as the run file says"


def _patience_s(model: SynthesizerModel) -> float:
    """Return the maximum seconds that the synthesizer may take to try a model."""
    match model:
        case EndpointModel():
            return model.timeout_s * model.tries + SPARE_S
        case PolicyModel():
            return SPARE_S


def _told(model: SynthesizerModel) -> str:
    match model:
        case EndpointModel():
            return f"{model.model} at {model.base_url}"
        case PolicyModel():
            return f"the policy with its {model.weights} weights"


def _fields(form: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(form)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _fault(error: str, given: Mapping[str, Any]) -> str:
    """Return msgspec's error about a value as an error about the command-line option."""
    match = re.fullmatch(r"(?P<fault>.*) - at `\$\.(?P<name>\w+)`", error)
    if match is None:
        return f"the new synthesizer's settings: {error}"
    name = match["name"]
    needed = f"needs {match['fault'].partition(', got')[0].removeprefix('Expected ')}"
    return f"{_option(name)}: {needed}, found {shown(given[name])}"
