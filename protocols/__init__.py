"""All messages that cross a process boundary.

Records of the journal (`protocols.journal.Message`):

| message              | from                   | to                                            |
|----------------------|------------------------|-----------------------------------------------|
| `RunStarted`         | launch                 | curriculum, whoever attaches                  |
| `RunResumed`         | launch                 | whoever attaches                              |
| `Task`               | curriculum, validator  | rollout, learner, synthesizer                 |
| `RolloutRequest`     | curriculum             | rollout                                       |
| `Rollout`            | rollout                | learner, signal extractor                     |
| `FailedRollout`      | rollout                | learner, signal extractor                     |
| `GroupDiscarded`     | learner                | curriculum                                    |
| `StepReport`         | learner                | curriculum, launch, whoever attaches          |
| `PolicyVersion`      | learner                | rollout, evaluator, synthesizer               |
| `WeightsVerified`    | rollout, evaluator, synthesizer | learner, launch, whoever attaches   |
| `WeightSyncAlarm`    | the same, learner      | learner, launch, whoever attaches             |
| `Checkpoint`         | learner                | learner (after a restart)                     |
| `Evaluation`         | evaluator              | launch, whoever attaches                      |
| `CanaryScores`       | evaluator              | learner, whoever attaches                     |
| `PolicyRegressed`    | learner                | launch, whoever attaches                      |
| `GroupSummary`       | signal extractor       | curriculum, signal extractor                  |
| `Signal`             | signal extractor       | synthesizer, curriculum                       |
| `SignalSettled`      | synthesizer            | curriculum, whoever attaches                  |
| `Exploration`        | synthesizer            | whoever attaches                              |
| `Candidate`          | synthesizer            | validator                                     |
| `EnvironmentRecord`  | validator              | whichever part of the environment needs it     |
| `CandidateVerdict`   | validator              | curriculum, whoever attaches                  |
| `ProbeRequest`       | validator              | rollout                                       |
| `ProbeReport`        | rollout                | validator                                     |
| `ModelCall`          | synthesizer, validator, rollout | the same, after a restart             |
| `SwapRequested`      | attach                 | synthesizer                                   |
| `SynthesizerSwapped` | synthesizer            | attach, synthesizer (after a restart)         |
| `SwapRefused`        | synthesizer            | attach                                        |
| `StopRequested`      | attach                 | launch                                        |
| `RunPaused`          | attach                 | curriculum, synthesizer, watchdog             |
| `RunContinued`       | attach                 | curriculum, synthesizer, watchdog             |
| `Stalled`            | launch (watchdog)      | whoever attaches                              |
| `PartFailed`         | launch                 | whoever attaches                              |
| `RunFinished`        | launch                 | whoever attaches                              |

Calls that leave no record: bytes of the environment (any part <-> simulator),
`protocols.generation` (rollout <-> engine), `protocols.synthesis` (synthesizer <-> its model),
`protocols.journal` (any process <-> store), `PartStatus` (any part -> attach, watchdog). Settings
are in `protocols.config`, infrastructure errors in `protocols.errors`, and the interface of each
part in `protocols.interfaces`. Only the environment reads bodies of type ``msgspec.Raw``.
"""
