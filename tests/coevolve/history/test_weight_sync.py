from coevolve.history.weight_sync import Deliveries
from protocols.control import RolloutScaled, RunResumed
from protocols.learning import OldVersionServed, StepReport, WeightsVerified, WeightSyncAlarm


def proven(engine: str, version: int, difference: float, pause_s: float) -> WeightsVerified:
    return WeightsVerified(
        engine=engine,
        version=version,
        digest="d",
        max_abs_difference=difference,
        wall_s=0.1,
        pause_s=pause_s,
        proven_ns=1,
    )


def test_the_summary_reports_how_versions_reached_the_engines():
    deliveries = Deliveries()
    assert deliveries.lines() == []
    deliveries.fold(proven("rollout-0", 0, 2e-6, 0.0))
    deliveries.fold(proven("rollout-0", 1, 1e-7, 0.004))
    deliveries.fold(proven("evaluator", 0, 1e-7, 0.0))
    for step, sync_s in ((1, 0.2), (2, None), (3, 0.4), (4, 0.1)):
        metrics = {} if sync_s is None else {"timing_s/param_sync": sync_s}
        deliveries.fold(
            StepReport(step=step, groups=(), weights_digest="", groups_consumed=0, metrics=metrics)
        )
    assert {engine: proof.version for engine, proof in deliveries.newest.items()} == {
        "rollout-0": 1,
        "evaluator": 0,
    }
    assert [value for _, value in deliveries.lines()] == [
        "3",
        "2.0e-06 nats",
        "4 ms",
        "0.20 / 0.40 s",
    ]


def test_an_alarm_stands_until_the_run_is_resumed():
    deliveries = Deliveries()
    reason = OldVersionServed(served=1, evidence="digest")
    alarm = WeightSyncAlarm(engine="rollout-0", version=2, reason=reason)
    deliveries.fold(alarm)
    assert deliveries.alarm == alarm
    deliveries.fold(RunResumed(run_id="r", config=""))
    assert deliveries.alarm is None


def test_an_engine_that_was_let_go_is_forgotten():
    deliveries = Deliveries()
    for engines in (("rollout-0", "rollout-1"), ("rollout-0",)):
        scaled = RolloutScaled(cause="request", actors=len(engines), engines=engines)
        deliveries.fold(scaled)
        for engine in ("evaluator", *engines):
            deliveries.fold(proven(engine, 1, 0.0, 0.0))
        assert set(deliveries.newest) == {"evaluator", *engines}
        assert deliveries.scaled == scaled
