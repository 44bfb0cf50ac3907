"""Which lines of output report a failure."""

import re

import pytest

from coevolve.environments.hdl.simulate.reported import REPORTED


@pytest.mark.parametrize(
    "line",
    [
        *("FAIL", "[12] Failed", "*** ERROR: test 1 NOT successful.", "Error in digest."),
        *("10 errors", "Errors: 3", "wrong data", "02 did not complete successfully."),
        *("1 test(s) failed", "ERROR 0 of 5"),
        *("errors: 0, failures: 2", "passed: 10 failed: 2 errors: 0", "expected 0 got error"),
        *("Test failed: 0 != 1", "failed: 0, expected 1", "ERROR: got 0", "mismatch at 5: 0 vs 1"),
    ],
)
def test_a_failure_is_found(line: str):
    assert re.search(REPORTED, line)


@pytest.mark.parametrize(
    "line",
    [
        *("No errors", "0 errors, 0 warnings", "Errors: 0", "error count = 0", "failed:        0"),
        *(
            "0 of 5 tests failed",
            "none of the tests failed",
            "Failures: 0 Errors: 0",
            "TEST PASSED",
        ),
        *("Finished without errors.", "no data mismatches", "error_flag=1", "PASS: all successful"),
    ],
)
def test_a_success_is_none(line: str):
    assert not re.search(REPORTED, line)
