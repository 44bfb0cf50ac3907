"""Tells lines of output that report a failure in common words, for a person's testbench."""

_BAD = (
    r"\b(?:errors?|err|fail(?:s|ed|ures?|ing)?|mismatch(?:es|ed)?|incorrect(?:ly)?|wrong"
    r"|unexpected(?:ly)?|not (?:completed? )?success\w*|unsuccessful\w*)\b"
)
_NONE = (
    r"\b(?:0+|no|none|zero|not|never|without)\s+"
    r"(?:(?:any|of|out|the|all|\d+|tests?|test ?cases?|checks?|data|bit|total)\s+){0,4}"
    r"(?:errors?|fail\w*|mismatch\w*|unexpected|incorrect|wrong)\b"
    r"|\b(?:errors|fail(?:s|ed|ures)|mismatches"
    r"|(?:errors?|err|fail(?:ures?)?|mismatch)[ _]?(?:count|cnt|counter|total)s?)"
    r"\s*(?:[:=]|is|are)?\s*0+(?!\.?\w)(?!.{0,99}(?:expect|instead|should|!=|\bgot\b))"
)
REPORTED = rf"(?i)^(?>{_NONE}|(?!{_BAD}).)*+{_BAD}"
"""Pattern of a line that reports a failure in common words, and not that there was none: it finds
``ERROR: got 0`` and ``failed: 2``, and passes over ``0 errors`` and ``failed: 0``."""
