import subprocess
import sys
from pathlib import Path

CODE = """
import os, sys
from pathlib import Path
from coevolve.launcher import native_errors
with native_errors.held_back(Path(sys.argv[1]), b"unwanted"):
    os.write(2, b"an unwanted line\\na wanted line\\n")
    native_errors.write("at once\\n")
os.write(2, b"after\\n")
"""


def test_only_the_unwanted_lines_of_native_code_are_left_out(tmp_path: Path):
    file = tmp_path / "logs" / "ray.log"
    command = [sys.executable, "-c", CODE, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stderr.splitlines() == ["at once", "a wanted line", "after"]
    assert file.read_text() == "an unwanted line\na wanted line\n"
