"""What is wrong with a delivery, in words."""

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
    """Return what is wrong and the remedy, for a person."""
    match alarm.reason:
        case WeightsDiffer() as found:
            said = _differing(found)
        case TensorsDiffer() as found:
            said = _other_tensors(found)
        case SettingsDiffer() as found:
            said = _other_settings(found)
        case SamplerDiffers() as found:
            said = (
                f"the learner gives the tokens that it sampled under this very version other "
                f"logprobs: {found.mean_abs_difference:.2g} nats apart on average over "
                f"{found.tokens} tokens (allowed: {found.tolerance:.2g}). {COMPARE}; raise "
                "delivery.sampler_tolerance only where the engine's precision explains so much"
            )
        case OldVersionServed(served=served, evidence=evidence):
            said = (
                f"by the {evidence} it serves version {served} instead. Check that the engine sees "
                "the run's folder as it is (a shared file system may show old files) and takes "
                "over what it loads"
            )
        case NothingDelivered(waited_s=waited_s, newest=newest):
            proven = f"the newest that it has proven is {newest}" if newest >= 0 else "it has none"
            said = (
                f"no proof came within {waited_s:.0f} s of publication, {proven}. See "
                f"logs/{alarm.engine}.jsonl; raise delivery.timeout_s where the engine takes "
                "longer than that to start or to load"
            )
        case _:
            assert_never(alarm.reason)
    return (
        f"version {alarm.version} has to be served by {alarm.engine}, and {said}. Training has "
        "stopped; go on with --resume"
    )


def _differing(found: WeightsDiffer) -> str:
    if found.found_digest != found.expected_digest:
        return (
            f"its files have the SHA-256 {found.found_digest[:12]} where the record says "
            f"{found.expected_digest[:12]}: they were changed after they were published. Check the "
            "disk; the learner writes the newest version again when the run is resumed"
        )
    return (
        f"it gives token {found.position} of the probe a logprob that is off by "
        f"{found.max_abs_difference:.2g} nats (allowed: {found.tolerance:.2g}) although it read "
        f"the right files: it computes otherwise, or less exactly. {COMPARE}; raise "
        "delivery.tolerance only where the engine's precision explains so much"
    )


def _other_tensors(found: TensorsDiffer) -> str:
    names = ", ".join(found.tensors)
    match found.cause:
        case "served":
            return (
                f"{found.rows_differ} of the {found.rows} rows of its tensors are not those that "
                f"the published files give in {found.precision}, among them some of {names}: it "
                f"converts weights wrongly, or takes over only a part of them. {COMPARE}"
            )
        case "merged":
            return (
                f"{found.rows_differ} rows of {names} are not the model's with the adapter: it is "
                "merged wrongly. Choose rollout.engine.deliver=adapter or policy.train=full"
            )
        case "base":
            return (
                f"the model that it started from is not the learner's (SHA-256 over {names}). Give "
                "every machine the same policy.model"
            )
        case "precision":
            return (
                f"it serves {found.precision}, which the run file does not say. Check "
                "rollout.engine.dtype"
            )
        case _:
            assert_never(found.cause)


def _other_settings(found: SettingsDiffer) -> str:
    words = "; ".join(found.settings)
    if found.where == "files":
        return (
            f"the config.json of the version makes another model than policy.model ({words}). The "
            "learner may not change it: give the run the model that it began with"
        )
    return (
        f"{found.count} of the settings that it samples with are not those that the model's config "
        f"gives ({words}): it computes otherwise. {COMPARE}"
    )
