"""All messages that cross a process boundary.

Records of the journal (`protocols.journal.Message`):

| message              | from                   | to                                            |
|----------------------|------------------------|-----------------------------------------------|
| `RunStarted`         | launch                 | curriculum, attach                            |
| `RunResumed`         | launch                 | attach                                        |
| `Task`               | curriculum, validator  | rollout, learner, synthesizer                 |
| `RolloutRequest`     | curriculum             | rollout                                       |
| `Rollout`            | rollout                | learner, signal extractor                     |
| `FailedRollout`      | rollout                | learner, signal extractor                     |
| `GroupDiscarded`     | learner                | curriculum                                    |
| `StepReport`         | learner                | curriculum, launch, attach                    |
| `PolicyVersion`      | learner                | rollout, evaluator, synthesizer               |
| `WeightsVerified`    | rollout, evaluator, synthesizer | learner, launch, attach             |
| `WeightSyncAlarm`    | the same, learner      | learner, launch, attach                       |
| `TurnBegan`          | learner                | rollout                                       |
| `EngineAsleep`       | rollout                | learner                                       |
| `TurnEnded`          | learner                | rollout                                       |
| `Checkpoint`         | learner                | learner (after a restart)                     |
| `ScoreRequest`       | evaluator              | rollout                                       |
| `ScoreReport`        | rollout                | evaluator                                     |
| `Evaluation`         | evaluator              | launch, attach                                |
| `CanaryScores`       | evaluator              | learner, attach                               |
| `PolicyRegressed`    | learner                | launch, attach                                |
| `GroupSummary`       | signal extractor       | curriculum, signal extractor                  |
| `Signal`             | signal extractor       | synthesizer, curriculum                       |
| `SignalSettled`      | synthesizer            | curriculum, attach                            |
| `Exploration`        | synthesizer            | attach                                        |
| `Candidate`          | synthesizer            | validator                                     |
| `EnvironmentRecord`  | validator              | whichever part of the environment needs it     |
| `CandidateVerdict`   | validator              | curriculum, attach                            |
| `ProbeRequest`       | validator              | rollout                                       |
| `ProbeReport`        | rollout                | validator                                     |
| `ModelCall`          | synthesizer, validator, rollout | the same, after a restart             |
| `CallFailed`         | the same               | attach                                        |
| `SwapRequested`      | attach                 | synthesizer                                   |
| `SynthesizerSwapped` | synthesizer            | attach, synthesizer (after a restart)         |
| `SwapRefused`        | synthesizer            | attach                                        |
| `ModelRests`         | synthesizer            | launch, attach                                |
| `ModelAnswers`       | synthesizer            | launch, attach                                |
| `ReaderRests`        | validator              | launch, attach                                |
| `ReaderAnswers`      | validator              | launch, attach                                |
| `StopRequested`      | attach                 | launch                                        |
| `RunPaused`          | attach                 | curriculum, synthesizer, watchdog             |
| `RunContinued`       | attach                 | curriculum, synthesizer, watchdog             |
| `ScaleRequested`     | attach                 | launch                                        |
| `RolloutScaled`      | launch                 | learner, attach, launch (after a restart)     |
| `ScaleRefused`       | launch                 | attach                                        |
| `NodesTooSmall`      | launch                 | attach                                        |
| `Stalled`            | launch (watchdog)      | attach                                        |
| `PartFailed`         | launch                 | attach                                        |
| `PartsRest`        | launch                 | rollout, curriculum, attach                   |
| `FollowersFail`      | launch (followers)     | attach                                        |
| `UnitsBegan`         | rollout, signals, synthesizer, validator | the same, after a restart    |
| `DeadLetter`         | the same               | curriculum, attach                            |
| `LetterRetried`      | attach                 | the sender of the letter                      |
| `LetterAnswered`     | the same as `DeadLetter` | attach                                      |
| `RunCopied`          | launch (copier)        | attach                                        |
| `CopyFailed`         | launch (copier)        | attach                                        |
| `StateSnapshot`      | curriculum, signals, validator, learner | the same, after a restart    |
| `RunFinished`        | launch                 | attach                                        |
| `StartMeasured`      | launch                 | report                                        |

Calls that leave no record: bytes of the environment (any part <-> simulator),
`protocols.generation` (rollout <-> engine), `protocols.synthesis` (synthesizer <-> its model),
`protocols.store_calls` (any process <-> store), `PartStatus` (any part -> attach, watchdog).
Settings are in `protocols.config`, infrastructure errors in `protocols.errors`, and the interface
of each part in `protocols.interfaces`. Only the environment reads bodies of type ``msgspec.Raw``.
"""
