"""Starts runs, and the Ray cluster under them.

Ray's core ends the process of a driver, without a word, when its connection to the raylet breaks
and `RAY_RAYLET_PID` names no live process. Without that variable it looks for this process's
parent, and a run in the background has none. It reads the variable when it is imported.
"""

import os
import sys

if "ray" not in sys.modules:
    # The raylet gives its own children its own id in the place of this one.
    os.environ["RAY_RAYLET_PID"] = str(os.getpid())
