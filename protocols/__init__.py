"""Everything that crosses a process boundary.

Records of the journal (`protocols.journal.Message`):

| message              | from                  | to                                      |
|----------------------|-----------------------|-----------------------------------------|
| `RunStarted`         | launch                | curriculum, whoever attaches            |
| `RunResumed`         | launch                | whoever attaches                        |
| `Task`               | curriculum, validator | rollout, learner, evaluator             |
| `RolloutRequest`     | curriculum, validator | rollout                                 |
| `Rollout`            | rollout               | learner, signal extractor, validator    |
| `VoidRollout`        | rollout               | learner, validator                      |
| `GroupDiscarded`     | learner               | curriculum                              |
| `StepReport`         | learner               | curriculum, launch, whoever attaches    |
| `PolicyVersion`      | learner               | rollout, evaluator                      |
| `Checkpoint`         | learner               | learner (after a restart)               |
| `Evaluation`         | evaluator             | launch, whoever attaches                |
| `Signal`             | signal extractor      | synthesizer                             |
| `Candidate`          | synthesizer           | validator                               |
| `CandidateVerdict`   | validator             | curriculum, synthesizer                 |
| `ModelCall`          | synthesizer           | replay of a run without its endpoint    |
| `SynthesizerSwapped` | attach                | synthesizer                             |
| `StopRequested`      | attach                | launch                                  |
| `Stalled`            | launch (watchdog)     | whoever attaches                        |
| `PartFailed`         | launch                | whoever attaches                        |
| `RunFinished`        | launch                | whoever attaches                        |

Calls that leave no record: `protocols.simulation` (rollout <-> simulator),
`protocols.generation` (rollout <-> engine), `protocols.journal` (anybody <-> store),
`PartStatus` (any part -> attach, watchdog). Settings: `protocols.config`. Failures of machines:
`protocols.errors`. What each part offers: `protocols.interfaces`.
"""
