"""Error messages for weight sync alarms."""

from typing import assert_never

from protocols.learning import (
    NothingDelivered,
    OldVersionServed,
    SamplerDiffers,
    SettingsDiffer,
    TensorsDiffer,
    WeightsDiffer,
    WeightSyncAlarm,
)

COMPARE = "Compare with rollout.engine.kind=transformers"


def sentence(alarm: WeightSyncAlarm) -> str:
    """Return what a run's user reads: the fault, its remedy, and how training goes on."""
    return f"{fault(alarm)}. Training has stopped; continue it with `coevolve resume NAME`"


def fault(alarm: WeightSyncAlarm) -> str:
    """Return the fault and its remedy in words, for commands that do not train, too."""
    match alarm.reason:
        case WeightsDiffer() as found:
            said = _weights_fault(found)
        case TensorsDiffer() as found:
            said = _tensors_fault(found)
        case SettingsDiffer() as found:
            said = _settings_fault(found)
        case SamplerDiffers() as found:
            said = (
                f"the learner gives other logprobs to tokens that it sampled under this version: "
                f"{found.mean_abs_difference:.2g} nats apart on average over {found.tokens} tokens "
                f"(maximum: {found.tolerance:.2g}). {COMPARE}; raise delivery.sampler_tolerance "
                "only if the engine's precision explains the difference"
            )
        case OldVersionServed(served=served, evidence=evidence):
            said = (
                f"by the {evidence} it serves version {served} instead. Check that the engine sees "
                "the run's current folder (a shared file system may show old files) and uses the "
                "weights that it loads"
            )
        case NothingDelivered(waited_s=waited_s, newest=newest):
            proven = f"the newest that it has proven is {newest}" if newest >= 0 else "it has none"
            said = (
                f"no proof came within {waited_s:.0f} s of publication, {proven}. See "
                f"logs/{alarm.engine}.jsonl; raise delivery.timeout_s if the engine needs longer "
                "to start or to load"
            )
        case _:
            assert_never(alarm.reason)
    return f"{alarm.engine} must serve version {alarm.version}, and {said}"


def _weights_fault(found: WeightsDiffer) -> str:
    if found.found_digest != found.expected_digest:
        return (
            f"its files have the SHA-256 {found.found_digest[:12]} but the record says "
            f"{found.expected_digest[:12]}: they were changed after they were published. Check the "
            "disk; the learner writes the newest version again when the run is resumed"
        )
    return (
        f"its logprob of token {found.position} of the probe is off by "
        f"{found.max_abs_difference:.2g} nats (maximum: {found.tolerance:.2g}) although it read "
        f"the right files: it computes differently or less exactly. {COMPARE}; raise "
        "delivery.tolerance only if the engine's precision explains the difference"
    )


def _tensors_fault(found: TensorsDiffer) -> str:
    names = ", ".join(found.tensors)
    match found.cause:
        case "served":
            return (
                f"{found.rows_differ} of the {found.rows} rows of its tensors differ from the "
                f"published files in {found.precision}, among them some of {names}: it converts "
                f"weights wrongly, or loads only a part of them. {COMPARE}"
            )
        case "merged":
            return (
                f"{found.rows_differ} rows of {names} are not the model's with the adapter: the "
                "merge is wrong. Choose rollout.engine.deliver=adapter or policy.train=full"
            )
        case "base":
            return (
                f"its initial model is not the learner's (SHA-256 over {names}). Give every "
                "machine the same policy.model"
            )
        case "precision":
            return (
                f"it serves {found.precision}, which differs from the run file. Check "
                "rollout.engine.dtype"
            )
        case _:
            assert_never(found.cause)


def _settings_fault(found: SettingsDiffer) -> str:
    words = "; ".join(found.settings)
    if found.where == "files":
        return (
            f"the config.json of the version gives another model than policy.model ({words}). The "
            "learner may not change it: give the run its initial model"
        )
    return (
        f"{found.count} of its sampling settings differ from the model's config ({words}): it "
        f"computes differently. {COMPARE}"
    )
