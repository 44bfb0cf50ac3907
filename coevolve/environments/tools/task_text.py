"""Tasks with tools in words, for people."""

from coevolve.environments.tools.cells import tools_by_turn
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.tasks import TaskText, TurnText


def task_text(body: ToolTask) -> TaskText:
    """Return the user's instructions and the calls that solve the task."""
    calls = [call for turn in body.turns for call in turn.reference]
    return TaskText(
        headline=body.turns[0].instruction,
        turns=tuple(
            TurnText(instruction=_instruction_text(turn), calls=turn.reference)
            for turn in body.turns
        ),
        tools=tuple(call.partition("(")[0] for call in calls),
        skills=tools_by_turn(body),
    )


def instructions_text(body: ToolTask) -> str:
    """Return the number of turns, and all instructions."""
    count = "1 turn" if len(body.turns) == 1 else f"{len(body.turns)} turns"
    asked = "; ".join(f'"{turn.instruction}"' for turn in body.turns)
    return f"{count}, {asked}"


def _instruction_text(turn: ToolTurn) -> str:
    """Return a turn's instruction, and which tools exist from this turn on."""
    revealed = f"[new tools: {', '.join(turn.revealed)}]" if turn.revealed else ""
    return f"{turn.instruction} {revealed}".strip()
