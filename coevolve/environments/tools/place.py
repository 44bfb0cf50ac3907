"""Where a child is in its work, in memory that the parent can read even if the child hangs or died.

The first four bytes are the position of the command in its batch; then come the length of a text
and the text, which says in UTF-8 which step is under way.
"""

import mmap

from coevolve.environments.tools.frames import NUMBER_BYTES, number, number_in

STEP_CHARS = 60
"""Characters of a call that are kept."""

PLACE_BYTES = 2 * NUMBER_BYTES + 4 * STEP_CHARS


class Place:
    """The place in shared memory of ``PLACE_BYTES`` bytes; new memory says position 0, no step."""

    def __init__(self, descriptor: int) -> None:
        """Map the memory behind a descriptor, which may be closed afterwards; -1: new memory."""
        self._memory = mmap.mmap(descriptor, PLACE_BYTES)

    @property
    def position(self) -> int:
        """Position of the command in its batch."""
        return number_in(self._memory[:NUMBER_BYTES])

    @position.setter
    def position(self, position: int) -> None:
        self._memory[:NUMBER_BYTES] = number(position)

    @property
    def step(self) -> str:
        """The beginning of the text of the call under way; empty if there is none."""
        size = number_in(self._memory[NUMBER_BYTES : 2 * NUMBER_BYTES])
        return self._memory[2 * NUMBER_BYTES : 2 * NUMBER_BYTES + size].decode(errors="replace")

    @step.setter
    def step(self, text: str) -> None:
        content = text[:STEP_CHARS].encode(errors="replace")
        self._memory[2 * NUMBER_BYTES : 2 * NUMBER_BYTES + len(content)] = content
        self._memory[NUMBER_BYTES : 2 * NUMBER_BYTES] = number(len(content))

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()
