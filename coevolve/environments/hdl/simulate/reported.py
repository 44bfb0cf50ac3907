"""Tells lines of output that report a failure in common words, for a person's testbench."""

_BAD = (
    r"\b(?:errors?|err|fail(?:s|ed|ures?|ing)?|mismatch(?:es|ed)?|incorrect(?:ly)?|wrong"
    r"|unexpected(?:ly)?|not (?:completed? )?success\w*|unsuccessful\w*)\b"
)
_MANY = r"(?:errors|failures|mismatches)\b"

_ZERO = (
    r"(?:^[\s*#>=-]*|[,;(](?!\d{3})\s*|\b(?:with|and)\s+)0+(?:\s*/\s*\d+)?\s+"
    r"(?!(?:error|err|fail|mismatch)\s*[:=])"
)
"""A count that begins a part of the line, so that it is not the value of the word before it."""

_TESTS = (
    r"(?:(?:(?:of|the|all)(?:\s+\d+)?|any|out|tests?|test ?cases?|checks?|data|bit|total)\s+){0,4}"
)
_KINDS = r"(?:(?!(?:and|but|with|ok|pass\w*)\b)[a-z-]+\s+){0,3}"
_COUNTED_NONE = (
    rf"(?:{_ZERO}|\b(?:no|none|zero|not|never|without)\s+){_TESTS}"
    r"(?:errors?|fail\w*|mismatch\w*|unexpected|incorrect|wrong)\b(?!\s*[:=]\s*\d)",
    rf"(?:{_ZERO}|\b(?:no|zero|without)\s+){_KINDS}{_MANY}(?!\s*[:=]\s*\d)",
    rf"(?:[:|\]]\s*|\s-\s+|\b(?:found|were|had|of|total)\s+)0+\s+{_KINDS}{_MANY}(?!\s*[:=]?\s*\d)",
    r"\d\s+pass(?:ed)?\s+0+\s+fail(?:ed|s|ures)?\b(?!\s*[:=]?\s*\d)",
    r"\d\s+(?:test ?|check|case|vector)s?(?:\s+(?!fail|err)[a-z]+)?\s*(?:[:|]|-+>?|=>)\s*"
    r"0+\s+(?:errors?|fail(?:ed|s|ures?)?|mismatch(?:es|ed)?)\b(?!\s*[:=]?\s*\d)",
)
"""``0 CRC errors``, ``no data mismatches``, ``done: 0 errors``, ``9 passed 0 failed``,
``10 tests: 0 failed``."""

_LABEL = (
    r"\b(?:(?:errors|fail(?:s|ed|ures)|mismatche[sd])"
    r"(?:\s+(?:found|detected|seen|reported|(?:test\s+)?(?:test|check|case|sample)s))?"
    r"|(?:error|err|fail|failure|mismatch)"
    r"(?:\(e?s\)|(?:e?s)?[ _]?(?:count|cnt|counter|total)s?))\s*"
)
_NUMBER = r"0+(?!\.?\w)(?!\s*,\s*\d+\s*(?:,|$))(?!.{0,99}(?:expect|instead|should|!=|\bgot\b))"
_END = r"(?=\W*(?:$|\d*\s*(?:pass|warn|err|fail|mismatch|ok|skip|total)))"
_NAMED_NONE = (
    rf"{_LABEL}(?:(?:[:=]|is|are)\s*)?{_NUMBER}",
    rf"\b(?:error|err|fail|mismatch)\s*(?:=\s*{_NUMBER}|:\s*{_NUMBER}{_END})",
    rf"(?:{_LABEL}|\b(?:error|err|fail|mismatch)\s*)[:=]\s*none\b{_END}",
)
"""``failed tests: 0``, ``fail=0``, ``errors: none``."""

_NO_FAILURE = (
    r"\berror[- ](?:free|inject(?:ion|ed)|correction|detection|recovery|tolerance)\b",
    r"\b(?:mean|squared?|rms|absolute|relative|average|max(?:imum)?)\s+error\s*(?:[:=]|is)\s*[\d.]",
    r"\berror\s*=\s*[-+]?[\d.]+\s*(?:[fpnum]s|%|ppm|dB|[kMG]?Hz)(?!\w)",
)
"""Words for a feature or a measure."""

_NONE = "|".join((*_COUNTED_NONE, *_NAMED_NONE, *_NO_FAILURE))
REPORTED = rf"(?i)^(?>{_NONE}|(?!{_BAD}).)*+{_BAD}"
"""Pattern of a line that reports a failure in common words, and not that there was none: it finds
``ERROR: got 0`` and ``failed: 2``, and passes over ``0 errors`` and ``failed: 0``."""
