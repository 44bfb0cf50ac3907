"""The names that an environment may use, besides `protocols`.

An environment that keeps to them imports no other module of coevolve, so that the loop can change
behind them; the import rules hold `coevolve.environments.hdl` to this. A name is loaded when it is
first used: a process without a model loads no torch, and the program that reads RTL nearly nothing.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

# isort: off
if TYPE_CHECKING:
    # An environment, and what a run file says about it.
    from coevolve.environments.interface import (
        Environment as Environment,  # its members, with defaults for most of them
        Fault as Fault,  # a rule of run files: whether it is broken, and the refusal
    )
    from coevolve.environments.settings import (
        settings_of as settings_of,  # reads the environment's settings of a run
        section as section,  # writes them as a section of a run file
    )
    from coevolve.parts.context import (
        PartContext as PartContext,  # what a part of the loop is given: settings, folder, journal
    )
    from coevolve.yaml.text import (
        parse_yaml as parse_yaml,  # reads a YAML file that a user wrote
        NotYamlError as NotYamlError,  # says why it cannot be read
    )
    from coevolve.yaml.structs import (
        check_section as check_section,  # refuses unknown and wrong fields, with their remedies
    )

    # Tasks.
    from coevolve.curriculum.task_sampler import (
        TaskSampler as TaskSampler,  # chooses the task of each group
        SourceSampler as SourceSampler,  # draws from given tasks alone
        Draw as Draw,  # what it chose
    )
    from coevolve.environments.instances import (
        instances_of as instances_of,  # makes instances of many tasks at the same time
    )
    from coevolve.environments.tools.split_tasks import (
        held_out_places as held_out_places,  # which groups of tasks are held out
        apart as apart,  # which training tasks the guard watches, and the order of the others
    )
    from coevolve.history.progress import (
        HELD_OUT as HELD_OUT,  # label of scores on held-out tasks
    )

    # Attempts and scores.
    from coevolve.rollouts.agent import (
        Agent as Agent,  # attempts tasks
        Episode as Episode,  # one attempt, with its tokens and reward
        room_left as room_left,  # tokens that an attempt may still sample
        sampling_seed as sampling_seed,  # seed of a place in an attempt
    )
    from coevolve.rollouts.transcript import (
        Transcript as Transcript,  # collects an attempt's tokens
    )
    from coevolve.rollouts.evaluator import (
        Scorer as Scorer,  # scores a policy on one task
        AttemptScorer as AttemptScorer,  # scores it by an attempt of an agent
    )
    from coevolve.gateway.gateway import (
        Gateway as Gateway,  # the policy as an endpoint, for programs of others
    )
    from coevolve.environments.tools.chat.named_calls import (
        with_tools as with_tools,  # lets sessions offer a policy tools
    )
    from coevolve.gateway.session import (
        GatewaySession as GatewaySession,  # one attempt's conversation at it
        Sampling as Sampling,  # engine, template and limits of sessions
    )
    from coevolve.history.score import (
        score_of as score_of,  # mean and standard error of scores
    )
    from coevolve.delivery.engine import (
        VerifiedEngine as VerifiedEngine,  # the engine that serves the policy
    )
    from coevolve.environments.evaluation import (
        OwnEvaluation as OwnEvaluation,  # an evaluation with options of its own
        EvaluationRequest as EvaluationRequest,  # the policy that it is to evaluate
    )

    # Groups of attempts, and what is learned from them.
    from coevolve.learning.objective_registry import (
        objective_of as objective_of,  # what the run's objective needs and does
    )
    from coevolve.environments.rewards_only import (
        TaskObserver as TaskObserver,  # summarizes groups, and finds weaknesses by rewards
    )
    from coevolve.signals.groups import (
        CompleteGroup as CompleteGroup,  # a group with all members
        summary_of as summary_of,  # the summary of one
    )

    # The journal.
    from coevolve.journal.codec import (
        topics_of as topics_of,  # topics of some kinds of messages
    )
    from coevolve.journal.task_cache import (
        TaskCache as TaskCache,  # tasks by id, read once
    )
    from coevolve.journal.lookups import (
        environment_record as environment_record,  # what the environment recorded under a key
        rollout_with_outcome as rollout_with_outcome,  # an earlier rollout with the same outcome
        all_of as all_of,  # every message of a kind
    )

    # Findings, tables and reports.
    from coevolve.environments.findings import (
        Finding as Finding,  # the result of one check of an environment
        Checks as Checks,  # checks by name
        findings as findings,  # carries checks out
        EARNED as EARNED,  # name of the check that no reward is unearned
    )
    from coevolve.export.exporter import (
        Exporter as Exporter,  # a table that `coevolve export` can write
    )
    from coevolve.export.source import (
        Source as Source,  # the run that it is written from
    )
    from coevolve.history.annotated_source import (
        AnnotatedSource as AnnotatedSource,  # a text with what rollouts reached in it
        SourceLine as SourceLine,  # one of its lines
    )

    # Models on this machine.
    from coevolve.models.architecture import (
        word_config as word_config,  # `config.json` of a small policy with a token a word
    )
    from coevolve.models.model_folder import (
        TINY as TINY,  # name of the policy that coevolve carries
        model_folder as model_folder,  # folder of a model
        whole_model as whole_model,  # the same; None if parts of it are missing
    )
    from coevolve.models.model_files import (
        has_chat_template as has_chat_template,  # whether a model has a chat template
    )
    from coevolve.models.chat_template import (
        ChatTemplate as ChatTemplate,  # renders and reads chats as a model's template does
        SENTINEL as SENTINEL,  # a text that stands for a message's place
    )
    from coevolve.models.word_model import (
        write_word_model as write_word_model,  # writes a small policy with a token a word
    )
    from coevolve.engine.generator import (
        TransformersGenerator as TransformersGenerator,  # samples from a model in this process
    )

    # Models behind an endpoint.
    from coevolve.llm.client import (
        Chat as Chat,  # asks an OpenAI-compatible server
        PromptMessage as PromptMessage,  # a message to it
        Said as Said,  # its answer
        cost_usd as cost_usd,  # the price of an answer
        most_prompt_tokens as most_prompt_tokens,  # an upper bound of a prompt's tokens
    )
    from coevolve.llm.breaker import (
        Breaker as Breaker,  # lets a model rest that does not answer
    )
    from coevolve.llm.recorded_calls import (
        Budget as Budget,  # maximum tokens and cost of a run's calls
        Ledger as Ledger,  # what they used so far
        JournalCallLog as JournalCallLog,  # records calls, and answers them again on resume
    )
    from coevolve.llm.usage import (
        ModelUsage as ModelUsage,  # calls, tokens and cost of a model
    )
    from coevolve.llm.keys import (
        check_key as check_key,  # refuses a model whose key is not set
    )
    from coevolve.llm.urls import (
        url_of as url_of,  # reads a server's address
    )
    from coevolve.llm.reading import (
        opens_thinking as opens_thinking,  # whether a prompt ends inside the model's thinking
        spoken as spoken,  # a message after its thinking
        without_thoughts as without_thoughts,  # a message without all thinking
    )

    # Programs, packages and files.
    from coevolve.environments.sandbox.runner import (
        Sandbox as Sandbox,  # runs untrusted programs
        StageLimits as StageLimits,  # limits of one program
        Finished as Finished,  # how it ended
    )
    from coevolve.environments.sandbox.levels import (
        SandboxLevel as SandboxLevel,  # how strongly it is isolated
    )
    from coevolve.environments.sandbox.work_folders import (
        WorkFolder as WorkFolder,  # a folder for it
        sweep as sweep,  # removes folders of processes that were killed
    )
    from coevolve.environments.sandbox.supervision import (
        found_program as found_program,  # path of a program of the machine
        cpu_s_so_far as cpu_s_so_far,  # CPU seconds of a process and its descendants
    )
    from coevolve.environments.python_folders import (
        OwnPython as OwnPython,  # packages of a program, in a Python environment of their own
    )
    from coevolve.environments.packages import (
        Requirements as Requirements,  # packages and programs that an environment needs
        Package as Package,  # a package in a folder of its own
        package_files as package_files,  # folder of an installed package
    )
    from coevolve.base.dependencies import (
        require as require,  # refuses to go on without a package
        extra as extra,  # command that installs an extra of coevolve
        lacking as lacking,  # collects what several checks refuse
        refuse as refuse,  # raises one error for all that is missing
    )
    from coevolve.environments.cache_folder import (
        cache_folder as cache_folder,  # where this machine keeps packages and builds
        named_folder as named_folder,  # the same, if an environment variable names it
        shared_folder as shared_folder,  # creates a folder that other users can read
        CACHE_VARIABLE as CACHE_VARIABLE,  # the environment variable
    )
    from coevolve.base.shipped import (
        shipped_folder as shipped_folder,  # a folder that comes with coevolve
    )

    # Foreign text.
    from coevolve.base.foreign import (
        boundary as boundary,  # turns any error of a parser of foreign text into one
        bytes_of as bytes_of,  # the content of a file that a user names, up to a size
        plain as plain,  # a foreign text in one line: escaped, masked and cut
        described as described,  # type and message of an error, in one line
        shown as shown,  # a foreign value as Python writes it: escaped, masked and cut
    )


def _homes() -> dict[str, str]:
    """Return the module of each name above, which is the only list of them."""
    imports = ast.walk(ast.parse(Path(__file__).read_text()))
    return {
        alias.asname: each.module
        for each in imports
        if isinstance(each, ast.ImportFrom) and each.module
        for alias in each.names
        if alias.asname
    }


HOMES = _homes()
"""Each name, and the module that it comes from."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a name. Raises AttributeError if it is none of them."""
        if name not in HOMES:
            raise AttributeError(f"{__name__} has no name {name!r}; its file lists those there are")
        return getattr(import_module(HOMES[name]), name)
