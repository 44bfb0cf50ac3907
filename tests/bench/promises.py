"""Promises of README and pages, each with a change that breaks it, and the tests to notice that."""

import msgspec

UNIT = "tests/coevolve"


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One broken promise."""

    promise: str
    file: str
    old: str
    """Found exactly once in the file; ``new`` takes its place."""

    new: str
    tests: tuple[str, ...]
    """Files and tests, as pytest takes them."""


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        promise="replay compares every step's weights",
        file="coevolve/commands/replay.py",
        old="    return not differing\n",
        new="    return True\n",
        tests=(f"{UNIT}/commands/test_replay.py",),
    ),
    Mutant(
        promise="work whose lease expired is taken again",
        file="coevolve/journal/consumers.py",
        old=" | consumer.release_expired(now_s)",
        new="",
        tests=(f"{UNIT}/journal/test_journal.py",),
    ),
    Mutant(
        promise="no seed task has a pair of requests that only held-out tasks have",
        file="coevolve/environments/tools/filesystem/grammar.py",
        old="if not (held_out_pair(tool_task(task)) or leaks(task)):",
        new="if not leaks(task):",
        tests=(f"{UNIT}/environments/tools/filesystem/test_grammar.py",),
    ),
    Mutant(
        promise="the loop makes tasks from the weakness that a signal shows",
        file="coevolve/synthesis/arms.py",
        old="return Subject(about=signal.about, evidence=signal.evidence)",
        new="return NOTHING",
        tests=(f"{UNIT}/synthesis/test_arms.py",),
    ),
    Mutant(
        promise="environment check notices sessions that share a state",
        file="coevolve/environments/tools/conformance.py",
        old="if await subject.side_by_side(pair) != list(map(seen_in, alone)):",
        new="if len(pair) != len(alone):",
        tests=(
            f"{UNIT}/environments/tools/test_own.py::test_sessions_that_share_a_state_are_found_out",
        ),
    ),
    Mutant(
        promise="a score has its standard error",
        file="coevolve/history/score.py",
        old="std_error=(high - low) / (2 * NORMAL)",
        new="std_error=(high - low) / (2.5 * NORMAL)",
        tests=(f"{UNIT}/history/test_score.py",),
    ),
    Mutant(
        promise="a dry run reckons the disk of checkpoints",
        file="coevolve/estimate/estimate.py",
        old="times(learning, FP32 + moment_bytes)",
        new="times(learning, (FP32 + moment_bytes) // 2)",
        tests=(f"{UNIT}/estimate/test_estimate.py",),
    ),
    Mutant(
        promise="probes are a tenth of the rollouts at most",
        file="coevolve/validation/ledger.py",
        old="return probes <= share * (self.state.rollouts + probes)",
        new="return probes >= 0 <= share",
        tests=(f"{UNIT}/validation/test_validator.py",),
    ),
    Mutant(
        promise="intervals are those of 95 %",
        file="coevolve/commands/intervals.py",
        old="LEVEL = 0.95",
        new="LEVEL = 0.80",
        tests=("tests/test_docs.py::test_the_python_of_the_page_compares_runs",),
    ),
    Mutant(
        promise="the report needs no network",
        file="coevolve/report/page.py",
        old='<meta charset="utf-8">',
        new='<meta charset="utf-8"><link rel="stylesheet" href="https://example.org/a.css">',
        tests=(f"{UNIT}/report/test_page.py",),
    ),
    Mutant(
        promise="no more groups are requested than staleness allows",
        file="protocols/config.py",
        old="return self.learner.groups_per_step * (1 + self.learner.max_staleness)",
        new="return self.learner.groups_per_step * (2 + self.learner.max_staleness)",
        tests=(
            f"{UNIT}/config/test_load.py",
            f"{UNIT}/curriculum/test_worker.py",
        ),
    ),
    Mutant(
        promise="no held-out task is recorded for training",
        file="coevolve/curriculum/held_out.py",
        old="if isinstance(task, Task) and (found := self._leak(task)):",
        new="if isinstance(task, str) and (found := self._leak(task)):",
        tests=(f"{UNIT}/curriculum/test_worker.py",),
    ),
    Mutant(
        promise="environment check notices tasks that pass without acting",
        file="coevolve/environments/tools/conformance_rewards.py",
        old="    if not found.solved:\n",
        new="    if len(found.solved) <= len(subject.tasks):\n",
        tests=(
            "tests/own/test_letters.py::test_a_grader_that_is_content_with_silence_is_found_out",
        ),
    ),
    Mutant(
        promise="the guard raises a false alarm in one run of a hundred at most",
        file="protocols/learner_config.py",
        old="return self.guard.chance / (self.guard_comparisons * max(1, references))",
        new="return self.guard.chance / self.guard_comparisons",
        tests=(f"{UNIT}/learning/test_guard.py",),
    ),
    Mutant(
        promise="the last version is scored",
        file="coevolve/curriculum/schedule.py",
        old="return version % config.evaluator.every == 0 or version == config.learner.steps",
        new="return version % config.evaluator.every == 0",
        tests=(f"{UNIT}/rollouts/test_evaluator.py",),
    ),
    Mutant(
        promise="the quickstart trains for 120 steps",
        file="configs/quickstart.yaml",
        old="  steps: 120",
        new="  steps: 12",
        tests=("tests/test_docs.py::test_the_numbers_of_the_readme_are_those_of_the_quickstart",),
    ),
    Mutant(
        promise="held-out scores are greedy",
        file="coevolve/environments/tools/environment.py",
        old="self.agent(engine.generator, simulators, 0.0, self.attempt_gather_s)",
        new="self.agent(engine.generator, simulators, 1.0, self.attempt_gather_s)",
        tests=(f"{UNIT}/rollouts/test_greedy.py",),
    ),
    Mutant(
        promise="the quickstart learns",
        file="configs/quickstart.yaml",
        old="learning_rate: 4e-3",
        new="learning_rate: 4e-5",
        tests=("tests/test_learns.py",),
    ),
    Mutant(
        promise="the quickstart is scored on 480 held-out tasks",
        file="configs/quickstart.yaml",
        old="held_out: 480",
        new="held_out: 48",
        tests=("tests/test_docs.py::test_the_numbers_of_the_readme_are_those_of_the_quickstart",),
    ),
    Mutant(
        promise="attach tasks --origin prints the tasks of that origin",
        file="coevolve/cli/attach_views/views.py",
        old="= await _tasks(subject, origin, count)",
        new="= await _tasks(subject, origin, 0 if origin else count)",
        tests=(f"{UNIT}/cli/attach_views/test_views.py",),
    ),
)
"""The first twenty; most of them follow a list of mutants that a reviewer had tried."""

OTHERS: tuple[Mutant, ...] = (
    Mutant(
        promise="a candidate that its reader refutes is refused",
        file="coevolve/environments/tools/gates/executed.py",
        old='if reading.outcome == "refuted":',
        new='if reading.outcome == "unread":',
        tests=(f"{UNIT}/environments/tools/gates/test_contrast.py",),
    ),
    Mutant(
        promise="importance weights are truncated",
        file="coevolve/learning/step_loss.py",
        old="importance_N = ratios_N.clamp(max=cap)",
        new="importance_N = ratios_N",
        tests=(f"{UNIT}/learning/test_trainer.py",),
    ),
    Mutant(
        promise="failures have the weight of learner.negative_weight",
        file="coevolve/learning/losses/policy_gradient.py",
        old="return [a if a >= 0 else learner.negative_weight * a for a in plain(rewards)]",
        new="return list(plain(rewards))",
        tests=(f"{UNIT}/learning/losses/test_credit.py",),
    ),
    Mutant(
        promise="a brief never contains a held-out task",
        file="coevolve/synthesis/briefs.py",
        old='if task.split != "train":',
        new='if task.split == "":',
        tests=(f"{UNIT}/synthesis/test_briefs.py",),
    ),
    Mutant(
        promise="every row of the journal is verified when it is read",
        file="coevolve/journal/checksums.py",
        old='if value[:CHECK_BYTES] != check.to_bytes(CHECK_BYTES, "little"):',
        new="if len(value) < CHECK_BYTES:",
        tests=(
            f"{UNIT}/journal/test_faults.py",
            f"{UNIT}/journal/test_repair.py",
        ),
    ),
    Mutant(
        promise="the learning rate decays to its final share",
        file="coevolve/learning/rates.py",
        old="return floor + (1.0 - floor) * left",
        new="return max(floor, 1.0)",
        tests=(f"{UNIT}/learning/test_lr_schedule.py",),
    ),
    Mutant(
        promise="groups that are too old are never trained on",
        file="coevolve/learning/groups.py",
        old="if group.oldest_version < self._step - 1 - self._config.max_staleness:",
        new="if group.oldest_version < self._step - 2 - self._config.max_staleness:",
        tests=(
            f"{UNIT}/learning/test_groups.py",
            f"{UNIT}/learning/test_learner.py",
        ),
    ),
    Mutant(
        promise="groups without variance are replaced within refill_batches only",
        file="coevolve/learning/groups.py",
        old='if self._replaced < most and use == "nothing":',
        new='if most and use == "nothing":',
        tests=(f"{UNIT}/learning/test_groups.py",),
    ),
    Mutant(
        promise="a signal expires after expire_versions",
        file="coevolve/synthesis/backlog.py",
        old="if version - each.signal.policy_version >= expire_versions",
        new="if version - each.signal.policy_version >= 2 * expire_versions",
        tests=(f"{UNIT}/synthesis/test_worker.py",),
    ),
    Mutant(
        promise="made tasks never exceed their share of all groups",
        file="coevolve/curriculum/task_pool.py",
        old="self._state.synthesized_groups + 1 <= self._rules.synthetic_share * (",
        new="self._state.synthesized_groups <= 2 * self._rules.synthetic_share * (",
        tests=(f"{UNIT}/curriculum/test_task_pool.py",),
    ),
    Mutant(
        promise="weights that lack a tensor are refused",
        file="coevolve/models/load.py",
        old="    if lacking:\n",
        new="    if len(lacking) > 1000:\n",
        tests=(f"{UNIT}/models/test_load.py",),
    ),
    Mutant(
        promise="redirects of an endpoint are not followed",
        file="coevolve/llm/http.py",
        old="follow_redirects=False",
        new="follow_redirects=True",
        tests=(f"{UNIT}/llm/test_client.py",),
    ),
    Mutant(
        promise="a run's files belong to its user alone",
        file="coevolve/parts/privacy.py",
        old="UMASK = 0o077",
        new="UMASK = 0o022",
        tests=(f"{UNIT}/parts/test_privacy.py",),
    ),
    Mutant(
        promise="work that fails at each of watchdog.attempts attempts is a dead letter",
        file="coevolve/parts/attempts.py",
        old="return self.count(item) >= self._max + (",
        new="return self.count(item) > self._max + (",
        tests=(
            f"{UNIT}/rollouts/test_worker.py",
            f"{UNIT}/synthesis/test_worker.py",
        ),
    ),
    Mutant(
        promise="a synthesizer stays within its budget",
        file="coevolve/llm/recorded_calls.py",
        old="if self.room(in_flight=in_flight) < amount:",
        new="if self.room(in_flight=in_flight) <= 0 < amount:",
        tests=(f"{UNIT}/llm/test_recorded_calls.py",),
    ),
    Mutant(
        promise="the rule of forgetting controls false discoveries over all tasks",
        file="coevolve/signals/posterior.py",
        old="benjamini_hochberg(history.p_values, config.false_discovery):",
        new="config.false_discovery:",
        tests=(
            f"{UNIT}/signals/test_posterior.py",
            f"{UNIT}/signals/test_detector.py",
        ),
    ),
    Mutant(
        promise="processes of a run do not get the launcher's secrets",
        file="coevolve/launcher/session.py",
        old="if (name in keys or SECRET.search(name)) and name not in kept",
        new="if name in keys and name not in kept",
        tests=(f"{UNIT}/launcher/test_session.py",),
    ),
    Mutant(
        promise="a candidate whose reference varies is refused",
        file="coevolve/environments/tools/gates/gates.py",
        old='refuse("not_deterministic", _difference(played, await trials.play(turns)))',
        new='refuse("not_deterministic", _difference(played, played))',
        tests=(f"{UNIT}/environments/tools/gates/test_gates.py",),
    ),
    Mutant(
        promise="only a browser with the board's key sees its pages",
        file="coevolve/board/server.py",
        old="return hmac.compare_digest(text.encode(), self.server.key.encode())",
        new='return not hmac.compare_digest(text.encode(), b"\\0")',
        tests=(f"{UNIT}/board/test_board.py",),
    ),
    Mutant(
        promise="a return to an earlier version lowers all learning rates",
        file="coevolve/learning/learner_run.py",
        old="rate_factor=self.guard.state.rate_factor * self.config.learner.guard.rate_factor,",
        new="rate_factor=self.guard.state.rate_factor,",
        tests=(f"{UNIT}/learning/test_returns.py",),
    ),
)
"""Twenty more, which were written from the pages and the sources, without a look at the tests."""
