"""A task set of verifiers: puzzles of reasoning-gym, and a tool that adds."""

# The packages are in another Python environment.
# pyright: basic, reportMissingImports=false

import reasoning_gym
import verifiers.v1 as vf

PUZZLES = reasoning_gym.create_dataset("leg_counting", size=16, seed=7)


class Puzzle(vf.TaskData):
    number: int


class AdderTools(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = ""

    @vf.tool
    def add(self, one: int, other: int) -> str:
        """Return a sum."""
        return str(one + other)


class PuzzleConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()
    with_tool: bool = False


class PuzzleTask(vf.Task[Puzzle, vf.State, PuzzleConfig]):
    @classmethod
    def toolsets(cls, config: PuzzleConfig) -> list[vf.Toolset]:
        return [AdderTools(config.tools)] if config.with_tool else []

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        said = trace.assistant_messages[-1].content if trace.assistant_messages else ""
        entry = PUZZLES[self.data.number]
        return float(PUZZLES.score_answer(answer=(said or "").strip(), entry=entry))


class PuzzlesConfig(vf.TasksetConfig):
    task: PuzzleConfig = PuzzleConfig()


class Puzzles(vf.Taskset[PuzzleTask, PuzzlesConfig]):
    def load(self) -> list[PuzzleTask]:
        return [
            PuzzleTask(
                Puzzle(idx=number, number=number, prompt=PUZZLES[number]["question"]),
                self.config.task,
            )
            for number in range(len(PUZZLES))
        ]


__all__ = ["Puzzles"]

if __name__ == "__main__":
    AdderTools.run()
