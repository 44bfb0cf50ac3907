"""Templates of own tasks: each draws a task from a world.

A task is an instruction, a reference as blocks of code, and the changes from which its evaluator is
written (``drawn.py``). What the instruction asks for, what the reference does, and what the
evaluator accepts are derived from the same draw. A template only reads the world.

This module runs in the engine's process, beside ``worlds.py``.
"""
# pyright: basic, reportMissingImports=false

from templates_money import MONEY
from templates_music import MUSIC
from templates_people import PEOPLE
from templates_things import THINGS

TEMPLATES = {each.__name__: each for each in (*MUSIC, *PEOPLE, *MONEY, *THINGS)}
"""Name -> function of the models, a generator and the person who asks, which returns a `Drawn`."""
