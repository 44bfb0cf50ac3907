"""Tables of what a testbench may contain.

System tasks and compiler directives are allow-lists: additions of newer simulators are refused
until somebody has checked them.
"""

MOST_BYTES = 65_536
"""Maximum size of a testbench."""

MOST_TOKENS = 200_000
"""Maximum tokens of a testbench after macro expansion, in all branches of all conditions."""

MOST_VIOLATIONS = 20
"""Maximum number of reported violations; they go into a prompt."""

MOST_MESSAGE = 300
"""Maximum characters of one of them, which may name a word of the testbench."""

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
_READING = "fscanf fgets fgetc feof fclose"

TASKS = frozenset({"$"}) | frozenset(
    "$" + name
    for names in (
        *(_PRINTING, _STRINGS, _CONTROL, _RANDOM, _VALUES),
        *(_MATHEMATICS, _ASSERTIONS, _WAVES, _ARGUMENTS, _READING),
    )
    for name in names.split()
)
"""System tasks and functions that do not open or write files, call programs or return addresses.
(Addresses differ from run to run.)"""

LOADS = frozenset({"$readmemh", "$readmemb"})
"""Those that may read the data of the design, and nothing else."""

OPENS = "$fopen"
MODES = frozenset({'"r"', '"rb"'})
"""The one that may open the data of the design, with a mode that only reads."""

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
"""Macros that every simulator defines, or Verilator."""

RESERVED = (
    *("include", "line", "pragma", "begin_keywords", "end_keywords", "protect", "endprotect"),
    *("uselib", "verilog", "verilator", "systemc", "coverage", "error", "__"),
)
"""Prefixes that a macro's name may not have, because simulators take some names for directives."""

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
"""Keywords that a testbench may not use, and the remedy."""
