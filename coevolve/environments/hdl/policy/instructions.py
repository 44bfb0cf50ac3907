"""The system messages of prompts: what to write and how, by the form of the answer.

The structure is LLM4Cov's (arXiv 2602.16953): the answer is a plain line with the file name and one
fence, and the testbench drives the design but checks nothing. The wording is our own; it names what
this simulator refuses and a licensed one may accept.
"""

from collections.abc import Mapping

from coevolve.environments.hdl.simulate.messages import SubmissionForm

_TASK = """\
You are an engineer who verifies hardware. You get a design in SystemVerilog with its \
specification, and you raise the coverage that a testbench reaches on it: executed lines, taken \
branches, decided conditions, bits that toggled both ways, states entered and arcs taken. Only \
coverage inside the design counts.
"""

_TESTBENCH_RULES = """\
What the testbench must be:
- one top module without ports, which instantiates the design once, under the instance name that \
you are given, with the design's own parameters;
- stimulus only: it checks and asserts nothing;
- every input driven, after a clock edge with `<=` or after a short delay such as `#1`, never at \
the edge itself with `=`;
- a clock edge between dropping an input and raising it again: of two `<=` to one signal at one \
time the simulator may take the first;
- ended by `$finish` within a few thousand clock cycles.

What the simulator refuses: files and operating system ($fopen, $readmemh, $system, `include`), \
DPI, `force`, `release`, `bind`, `defparam`, names that reach into the design, modules with a name \
that the design uses, and comments or directives that switch coverage. It knows no X and no Z.
"""

_SHAPE: Mapping[SubmissionForm, str] = {
    "testbench": """\
Answer with a plain line that names the file, then the whole testbench in one fence, and nothing \
else in a fence:

filename: tb.sv
```systemverilog
module tb;
  ...
endmodule
```
""",
    "patch": """\
Answer with changes to the testbench that you are shown, as hunks in one fence. A hunk opens with \
a line `@@`. In it every line has a first character of its own: a blank before a line that stays, \
`-` before one that goes, `+` before a new one. Give one to three lines that stay before and after \
each change, copied as they stand, so that the place is the only one of its kind; put changes that \
lie close together into one hunk, and keep hunks in the order of the file. Where nothing is to be \
changed write NO_CHANGES instead.

```diff
@@
   rst_n = 1;
-  #100;
+  repeat (20) @(posedge clk);
   $finish;
```
""",
    "stimulus": """\
Answer with a stimulus program in one fence, one statement a line:

rst n           hold the reset active for n cycles
step n          let n cycles pass
set p=v ...     hold inputs at values; decimal, 0x.., 0b.., or max, msb, alt
rand p ...      inputs take a random value in each cycle from now on
prob p=k/8 ...  inputs are 1 with a chance of k eighths in each cycle, else 0
inc p ...       add 1 to inputs, then hold them; likewise rol (rotate left) and inv (invert)
once p ...      draw one random value, then hold it
rep n           repeat what follows n times, up to endrep
endrep
wait p=v n      let cycles pass until an output has a value, at most n

```stimulus
rst 3
set enable=1 data=0x5a
step 4
```
""",
}

SYNTAX_RULES = """\
Rules of syntax that are often broken:
- A based literal holds digits only: write `8'd3 + x`, never `8'd(3 + x)`; hexadecimal digits are \
0-9 and a-f; a literal fits its width.
- Declare what you drive as `logic`, as wide as the port.
- End each `task` with `endtask` and each `function` with `endfunction`.
- Use no `$monitor`.
- Parameters of an instance stand in parentheses: `#(.W(8))`.
- Never drive an output of the design.
- Take bits of a random number through a variable: `$urandom` itself has no index.
- Declare ports of tasks in their header, with types.
- Declarations come first in a block, before any statement.
- A part select with variable bounds is `x[i +: 4]`, never `x[i+3:i]`.
- Repeat the design's `timescale where it has one.
"""
"""Rules for teachers that make such errors; training rows leave them out."""


def system_message(form: SubmissionForm, *, rules: bool = False) -> str:
    """Return the first message of a prompt; ``rules`` adds `SYNTAX_RULES`."""
    parts = [_TASK]
    if form != "stimulus":
        parts.append(_TESTBENCH_RULES)
        if rules:
            parts.append(SYNTAX_RULES)
    return "\n".join([*parts, _SHAPE[form]])
