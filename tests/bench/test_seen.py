"""The results page says at which commit its benches were last seen to run."""

import contextlib
import importlib
import io
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.bench.__main__ import BENCHES
from tests.bench.seen import NEVER, PAGE, SEEN, SMALL, STAMP, Section, sections, small, stamped
from tests.bench.seen import unseen_of as unseen
from tests.documented import ROOT

SECTIONS = list(sections(PAGE.read_text()))
WITHOUT = {"survey", "likelihood", "scaling", "journal-cost"}


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


HAS_HISTORY = git("rev-parse", "--is-shallow-repository").stdout.strip() == "false"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_a_section_says_when_its_benches_were_seen_to_run(section: Section):
    stamp = STAMP.search(section.text)
    assert stamp, section.title
    assert set(unseen(section)) <= set(section.benches)
    seen = SEEN.search(stamp[0])
    if seen is None:
        assert NEVER in " ".join(stamp[0].split())
        assert set(unseen(section)) == set(section.benches)
    elif HAS_HISTORY:
        assert git("cat-file", "-e", f"{seen[2]}^{{commit}}").returncode == 0, seen[2]


def test_a_line_that_was_written_is_read_back():
    section = next(each for each in SECTIONS if len(each.benches) > 2)
    for lacking in ([], list(section.benches), list(section.benches[:1])):
        again = section._replace(text=stamped(section, lacking, "(2026-11-27, 0123abcd)"))
        assert unseen(again) == lacking
        assert all(len(line) <= 120 for line in again.text.partition("\n\n")[2].splitlines()[:8])
        assert STAMP.sub("", again.text).split() == STAMP.sub("", section.text).split()


@pytest.mark.parametrize("bench", SMALL)
def test_the_small_form_of_a_bench_has_arguments_that_it_knows(bench: str):
    words = [each for each in shlex.split(SMALL[bench]) if each.startswith("--")]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit):
        importlib.import_module(BENCHES[bench]).main(["--help"])
    assert not [each for each in words if not re.search(rf"{each}\b", said.getvalue())]


def test_every_bench_of_the_page_has_a_small_form_or_needs_what_is_not_here():
    named = {shlex.split(each)[3] for section in SECTIONS for each in section.benches}
    assert named - SMALL.keys() <= WITHOUT
    assert small("python -m tests.bench scaling --beside e0ca7dc", Path("runs")) is None
