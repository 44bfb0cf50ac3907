"""All messages that cross a process boundary.

Records of the journal (`protocols.journal.Message`), as `coevolve.loop` declares them. Commands and the
report read all of them, and a part reads what it has given itself when it starts again.

| message              | from                                            | to                                                                       |
|----------------------|-------------------------------------------------|--------------------------------------------------------------------------|
| `RunStarted`         | launch                                          | curriculum, learner                                                      |
| `RunResumed`         | launch                                          | curriculum, learner                                                      |
| `RunFinished`        | launch                                          | commands and report                                                      |
| `StartMeasured`      | launch                                          | commands and report                                                      |
| `StopRequested`      | attach                                          | launch                                                                   |
| `RunPaused`          | attach                                          | curriculum, synthesizer, launch                                          |
| `RunContinued`       | attach                                          | curriculum, synthesizer, launch                                          |
| `ScaleRequested`     | attach                                          | launch                                                                   |
| `RolloutScaled`      | launch                                          | learner                                                                  |
| `ScaleRefused`       | launch                                          | commands and report                                                      |
| `NodesTooSmall`      | launch                                          | commands and report                                                      |
| `Stalled`            | launch                                          | commands and report                                                      |
| `PartFailed`         | launch                                          | commands and report                                                      |
| `PartsRest`          | launch                                          | curriculum, rollout                                                      |
| `FollowersFail`      | launch                                          | commands and report                                                      |
| `UnitsBegan`         | signals, synthesizer, validator, rollout        | commands and report                                                      |
| `DeadLetter`         | signals, synthesizer, validator, rollout        | curriculum                                                               |
| `LetterRetried`      | attach                                          | signals, synthesizer, validator, rollout                                 |
| `LetterAnswered`     | signals, synthesizer, validator, rollout        | commands and report                                                      |
| `RunCopied`          | launch                                          | commands and report                                                      |
| `CopyFailed`         | launch                                          | commands and report                                                      |
| `StateSnapshot`      | curriculum, signals, validator, learner, launch | commands and report                                                      |
| `Task`               | curriculum, validator                           | curriculum, signals, synthesizer, validator, rollout, learner, evaluator |
| `RolloutRequest`     | curriculum                                      | rollout, learner                                                         |
| `Rollout`            | rollout                                         | curriculum, signals, synthesizer, learner, launch                        |
| `FailedRollout`      | rollout                                         | curriculum, signals, synthesizer, learner, launch                        |
| `GroupDiscarded`     | learner                                         | curriculum                                                               |
| `StepReport`         | learner                                         | curriculum, evaluator, launch                                            |
| `PolicyVersion`      | learner                                         | synthesizer, validator, rollout, evaluator                               |
| `WeightsVerified`    | synthesizer, rollout, evaluator                 | learner                                                                  |
| `WeightSyncAlarm`    | synthesizer, rollout, learner, evaluator        | commands and report                                                      |
| `TurnBegan`          | learner                                         | rollout                                                                  |
| `EngineAsleep`       | rollout                                         | learner                                                                  |
| `TurnEnded`          | learner                                         | rollout                                                                  |
| `Checkpoint`         | learner                                         | commands and report                                                      |
| `ScoreRequest`       | evaluator                                       | rollout                                                                  |
| `ScoreReport`        | rollout                                         | evaluator                                                                |
| `Evaluation`         | evaluator                                       | synthesizer, rollout, launch                                             |
| `CanaryScores`       | evaluator                                       | rollout, learner                                                         |
| `PolicyRegressed`    | learner                                         | commands and report                                                      |
| `GroupSummary`       | signals                                         | curriculum, synthesizer, validator                                       |
| `Signal`             | signals                                         | curriculum, synthesizer, validator                                       |
| `SignalSettled`      | synthesizer                                     | curriculum                                                               |
| `Exploration`        | synthesizer                                     | commands and report                                                      |
| `Candidate`          | synthesizer                                     | curriculum, validator, rollout                                           |
| `EnvironmentRecord`  | signals, validator                              | commands and report                                                      |
| `CandidateVerdict`   | validator                                       | curriculum                                                               |
| `ProbeRequest`       | validator                                       | rollout                                                                  |
| `ProbeReport`        | rollout                                         | validator                                                                |
| `ModelCall`          | synthesizer, validator, rollout                 | commands and report                                                      |
| `CallFailed`         | synthesizer, validator, rollout                 | commands and report                                                      |
| `SwapRequested`      | attach                                          | synthesizer                                                              |
| `SynthesizerSwapped` | synthesizer                                     | curriculum, validator                                                    |
| `SwapRefused`        | synthesizer                                     | commands and report                                                      |
| `ModelRests`         | synthesizer                                     | curriculum                                                               |
| `ModelAnswers`       | synthesizer                                     | curriculum                                                               |
| `ReaderRests`        | validator                                       | curriculum                                                               |
| `ReaderAnswers`      | validator                                       | curriculum                                                               |

Calls that leave no record: bytes of the environment (any part <-> simulator),
`protocols.generation` (rollout <-> engine), `protocols.synthesis` (synthesizer <-> its model),
`protocols.store_calls` (any process <-> store), `PartStatus` (any part -> attach, watchdog).
Settings are in `protocols.config`, infrastructure errors in `protocols.errors`, and the interface
of each part in `protocols.interfaces`. Only the environment reads bodies of type ``msgspec.Raw``.
"""  # noqa: E501
