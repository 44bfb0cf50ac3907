"""What a testbench may contain, as tables: the rest of the language is not of interest to the gate.

System tasks and compiler directives are allow-lists, so that what a newer simulator adds is refused
until somebody has looked at it.
"""

MOST_BYTES = 65_536
"""Of a testbench."""

MOST_TOKENS = 200_000
"""Of a testbench whose macros are expanded, every branch of every condition included."""

MOST_VIOLATIONS = 20
"""That are told; they go into a prompt."""

_PRINTING = (
    "display displayb displayh displayo write writeb writeh writeo strobe strobeb strobeh strobeo "
    "monitor monitorb monitorh monitoro monitoron monitoroff info warning error fatal "
    "printtimescale timeformat fflush"
)
_STRINGS = "sformat sformatf psprintf swrite swriteb swriteh swriteo sscanf typename"
_CONTROL = "finish stop exit time stime realtime timeunit timeprecision"
_RANDOM = (
    "random urandom urandom_range dist_uniform dist_normal dist_exponential dist_poisson "
    "dist_chi_square dist_t dist_erlang"
)
_VALUES = (
    "signed unsigned bits size high low left right increment dimensions unpacked_dimensions clog2 "
    "isunknown isunbounded onehot onehot0 countones countbits cast itor rtoi bitstoreal realtobits "
    "bitstoshortreal shortrealtobits"
)
_MATHEMATICS = (
    "ln log10 exp sqrt pow floor ceil sin cos tan asin acos atan atan2 hypot sinh cosh "
    "tanh asinh acosh atanh"
)
_ASSERTIONS = (
    "past rose fell stable changed sampled asserton assertoff assertkill assertcontrol "
    "assertpasson assertpassoff assertfailon assertfailoff assertnonvacuouson assertvacuousoff"
)
_WAVES = "dumpfile dumpvars dumpon dumpoff dumpall dumpflush dumplimit"
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")

_ARGUMENTS = "test$plusargs value$plusargs"

TASKS = frozenset({"$"}) | frozenset(
    "$" + name
    for names in (
        *(_PRINTING, _STRINGS, _CONTROL, _RANDOM, _VALUES),
        *(_MATHEMATICS, _ASSERTIONS, _WAVES, _ARGUMENTS),
    )
    for name in names.split()
)
"""System tasks and functions that neither read nor write a file, nor call a program, nor tell an
address, which differs from run to run."""

CONDITIONS = frozenset({"ifdef", "ifndef", "elsif"})
DIRECTIVES = CONDITIONS | {
    *("define", "undef", "undefineall", "else", "endif", "timescale", "default_nettype"),
    *("resetall", "celldefine", "endcelldefine", "unconnected_drive", "nounconnected_drive"),
}
PREDEFINED = frozenset(
    {
        *("__FILE__", "__LINE__", "VERILATOR", "SV_COV_START", "SV_COV_STOP", "SV_COV_RESET"),
        *("SV_COV_CHECK", "SV_COV_MODULE", "SV_COV_HIER", "SV_COV_ASSERTION", "SV_COV_FSM_STATE"),
        *("SV_COV_STATEMENT", "SV_COV_TOGGLE", "SV_COV_OVERFLOW", "SV_COV_ERROR", "SV_COV_NOCOV"),
        *("SV_COV_OK", "SV_COV_PARTIAL"),
    }
)
"""Macros that every simulator has, or Verilator."""

RESERVED = (
    *("include", "line", "pragma", "begin_keywords", "end_keywords", "protect", "endprotect"),
    *("uselib", "verilog", "verilator", "systemc", "coverage", "error", "__"),
)
"""What the name of a macro may not begin with: a simulator takes some for directives."""

HIERARCHY = "drive and watch the design through its ports"
KEYWORDS = {
    "force": HIERARCHY,
    "release": HIERARCHY,
    "deassign": HIERARCHY,
    "alias": HIERARCHY,
    "bind": HIERARCHY,
    "defparam": "the design is verified with the parameters that it has",
    "config": "the design is verified as it is",
    "primitive": "write a module instead",
    "checker": "write a module instead",
    "specify": "write the delays into the stimulus",
}
"""Keywords that a testbench may not use, and what to do instead."""
