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
        *("Passed: 0 Failed: 5", "PASS=0 FAIL=5", "passed 0 failed 10", "Warnings: 0 Errors: 5"),
        *("a=1 b=0 FAIL", "b=0 Error", "Test 0 failed", "bit 0 mismatch", "lane 0 errors"),
        *("total 9 passed 0 failed 9", "Passed: 0 Errors 5", "0 FAIL: addr 5", "1,000 errors"),
        *("error: expected 0 got 1", "FAIL: addr 0", "failed: 2", "0 passed, 3 failed"),
        *("Errors found: 12", "errors: 10", "1 CRC error", "FAIL: 0, addr 3", "0 passed 3 failed"),
        *("Hint: Total mismatched samples is 3 out of 439 samples", "Failed tests: 0, 3"),
        *(
            "Error: none of them matches",
            "ERROR: no response",
            "@0 ERROR addr 5",
            "Failed test 0",
            "error: 0 at 5",
        ),
        *("10 tests: 2 failed", "10 tests: 0 passed 3 failed", "5 checks: 0 failed: 2"),
        *("error=69 at 5 ns", "ERROR: 69 ns: late", "error=5 ns, 3 failed", "error=1 bits"),
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
        *("PASS: 10, FAIL: 0", "fail=0", "err=0 data=5", "error: 0", "FAIL: 0 PASS: 10"),
        *("Errors found: 0", "Error(s): 0", "errors detected: 0", "errors: none", "error: none"),
        *("0/10 tests failed", "Number of failed tests: 0", "0 CRC errors", "9 passed, 0 failed"),
        *("10 tests: 0 failed", "ran 10 tests - 0 failed", "5 checks done: 0 mismatches"),
        *("no parity errors detected", "Done: 0 errors", "Passed (0 errors)", "9 passed 0 failed"),
        *("Mean squared error: 0.001", "error injection enabled", "error-free"),
        "tx: 8681 ns (ideal), 8750 ns (actual). error=69 ns relative_error=0.800%",
        *("Hint: Total mismatched samples is 0 out of 439 samples", "5 warnings and 0 errors"),
        *("Finished without errors.", "no data mismatches", "error_flag=1", "PASS: all successful"),
    ],
)
def test_a_success_is_none(line: str):
    assert not re.search(REPORTED, line)
