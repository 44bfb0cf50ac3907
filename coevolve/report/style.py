"""The page's style sheet: light or dark by the reader's setting, light on paper.

The series colours are those of Okabe and Ito (Color Universal Design, 2008), which people with any
kind of colour vision can tell apart; each theme lightens or darkens some for contrast.
"""

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "faint": "#59636e",
    "line": "#d5dae0",
    "soft": "#f4f6f8",
    "heat": "#0b5394",
    "c0": "#0072b2",
    "c1": "#d55e00",
    "c2": "#009e73",
    "c3": "#b3568a",
    "c4": "#c98a00",
    "c5": "#3f9fd6",
    "c6": "#4d4d4d",
}
DARK = {
    "paper": "#14181d",
    "ink": "#e8ecf1",
    "faint": "#a3adb8",
    "line": "#343c46",
    "soft": "#1d232a",
    "heat": "#3d9be0",
    "c0": "#56b4e9",
    "c1": "#f0803c",
    "c2": "#2bc59a",
    "c3": "#dd94bd",
    "c4": "#f0c04a",
    "c5": "#8fa8ff",
    "c6": "#c4c4c4",
}

_RULES = """
html { scroll-padding-top: 4rem; }
body { margin: 0 auto; padding: 1rem clamp(1rem, 2vw, 2.5rem) 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 1.5rem 0 .5rem; font-size: 1.2rem; }
h3 { margin: 1.5rem 0 .25rem; font-size: 1.05rem; }
h4 { margin: 0 0 .5rem; font-size: 1rem; overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; max-width: 46rem; }
a { color: var(--c0); }
nav { margin: .75rem 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .9rem;
  align-items: baseline; }
nav details { position: relative; }
nav summary { color: var(--c0); }
nav ul { position: absolute; z-index: 3; margin: .25rem 0 0; padding: .5rem 1rem; list-style: none;
  background: var(--paper); border: 1px solid var(--line); white-space: nowrap; }
nav button { font: inherit; }
header > p { margin: 0; }
header > .verdict, .verdict { margin: .5rem 0; max-width: none; color: var(--ink);
  font-size: 1.2rem; line-height: 1.4; }
.opening { display: grid; gap: .75rem 2rem; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
  grid-template-areas: "curve weak" "curve made"; grid-template-rows: auto 1fr; }
.panel h2 { margin: .5rem 0 .25rem; font-size: 1rem; }
.panel p { margin: .25rem 0; font-size: .85rem; color: var(--faint); max-width: none; }
.curve-panel { grid-area: curve; --high: clamp(14rem, 100vh - 24rem, 34rem); }
.weak-panel { grid-area: weak; }
.made-panel { grid-area: made; --high: 6.5rem; }
@media (max-width: 60rem) {
  .opening { grid-template: "curve" "weak" "made" / minmax(0, 1fr); }
  .curve-panel { --high: 14rem; }
}
.picture { display: grid; grid-template: var(--high, 16rem) auto auto / auto 1fr;
  gap: .15rem .5rem; padding-top: 1.4rem; font-size: .8rem; color: var(--faint); }
.up { position: relative; min-width: 2.6rem; }
.up span { position: absolute; right: 0; transform: translateY(-50%); }
.along { position: relative; grid-column: 2; height: 1.2rem; }
.along span { position: absolute; transform: translateX(-50%); }
.along span:last-child { transform: translateX(-100%); }
.along span:first-child { transform: none; }
.picture > small { grid-column: 2; text-align: center; }
.plane { position: relative; }
.plane b { position: absolute; transform: translate(.4rem, -100%); color: var(--ink);
  font-size: 1rem; white-space: nowrap; }
.plane b.before { transform: translate(-100%, -100%); }
.plane i { position: absolute; top: 0; padding: .1rem .4rem; box-sizing: border-box;
  overflow: hidden; font-style: normal; white-space: nowrap; }
.drawn { display: block; width: 100%; height: 100%; overflow: visible; }
.drawn > * { fill: none; stroke: none; vector-effect: non-scaling-stroke; --colour: var(--c0); }
.drawn .grid { stroke: var(--line); }
.drawn .trace { stroke: var(--colour); stroke-width: 2.5; stroke-linejoin: round; }
.drawn .thin { stroke-width: 1.25; }
.drawn .stem { stroke: var(--colour); stroke-width: 2; opacity: .4; }
.drawn .band { fill: var(--colour); opacity: .25; }
.drawn .dot { stroke: var(--colour); stroke-width: 9; stroke-linecap: round; }
.drawn .start { stroke: var(--faint); stroke-width: 7; }
.drawn .stage { fill: var(--c4); opacity: .12; }
.drawn .n1 { fill: var(--c2); opacity: .06; }
svg.spark { display: inline-block; width: 7rem; height: 1.4rem; }
svg.spark .dot { stroke-width: 6; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .25rem 0; padding: 0;
  list-style: none; font-size: .85rem; overflow-wrap: anywhere; }
.legend .swatch { margin-right: .4rem; vertical-align: middle; }
.weak { margin: 0; padding: 0; list-style: none; font-size: .9rem; }
.weak li { display: grid; grid-template-columns: minmax(0, 9rem) 1fr 3.5rem 2.5rem; gap: .75rem;
  align-items: center; line-height: 1.55; }
.weak .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.weak b, .weak small { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
svg.range { height: .8rem; padding: 0 .3rem; box-sizing: border-box; }
ul.findings { columns: 2 36rem; column-gap: 2.5rem; padding-left: 1.2rem; margin: .5rem 0; }
.findings li { break-inside: avoid; margin-bottom: .4rem; }
.fold { border-top: 1px solid var(--line); }
.fold > .bare, .fold > details > summary { display: flex; flex-wrap: wrap; gap: 0 1rem;
  position: relative; align-items: baseline; padding: .45rem 0 .45rem 1.25rem;
  color: var(--faint); font-size: .9rem; }
.fold > details > summary::before { content: "▸"; position: absolute; left: 0; }
.fold > details[open] > summary::before { content: "▾"; }
.fold h2 { margin: 0; font-size: 1.05rem; color: var(--ink); }
.fold .body { display: grid; gap: 0 2.5rem; padding: .25rem 0 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(34rem, 100%), 1fr)); }
.fold .body > * { min-width: 0; }
.fold .body > :is(p, .group, .controls, .filters, #side-by-side, #life, .terms, #suspects),
.fold .body > :has([data-sortable]) { grid-column: 1 / -1; }
figcaption p, .listed > p, header > p, .missing { color: var(--faint); }
figure { margin: 1.5rem 0; }
code, pre { font: .85em/1.45 ui-monospace, Menlo, Consolas, monospace; }
code, td, th, dd { unicode-bidi: isolate; }
code, td a { overflow-wrap: anywhere; }
pre { padding: .75rem; overflow: auto; background: var(--soft); }
summary { color: var(--faint); font-size: .9rem; cursor: pointer; }
.scroll { max-height: 32rem; overflow: auto; scroll-padding-top: 4rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { padding: .25rem 0; text-align: left; color: var(--faint); }
th, td { padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; white-space: pre-wrap; overflow-wrap: break-word; min-width: 3rem; }
tbody th { font-weight: normal; }
thead th { position: sticky; top: 0; background: var(--paper); overflow-wrap: normal; }
[data-sortable] :is(td, th) { min-width: 5.92rem; }
[data-sortable] .number { min-width: 4rem; }
.filter { font-size: .9rem; color: var(--faint); }
td.number { text-align: right; overflow-wrap: normal; }
article { margin: 1rem 0; padding: .75rem 1rem; background: var(--soft); }
.chain { margin: 0; padding-left: 1.25rem; }
.chain p, dl { margin: .1rem 0 .35rem; }
.chain p, .chain li, dd { white-space: pre-wrap; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .75rem; }
dt { color: var(--faint); }
dd { margin: 0; }
.words { position: fixed; right: 0; bottom: 0; z-index: 2; padding: .2rem .6rem;
  background: var(--soft); border: 1px solid var(--line); font-size: .8rem; }
.terms dt { overflow-wrap: anywhere; max-width: 14rem; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem 1.25rem; align-items: center;
  position: sticky; top: 0; z-index: 1; padding: .6rem 0; background: var(--paper);
  border-bottom: 1px solid var(--line); font-size: .9rem; }
.controls fieldset { display: flex; flex-wrap: wrap; gap: .25rem 1rem; border: 0; padding: 0; }
.controls legend { float: left; margin-right: .75rem; padding: 0; }
.controls label { display: inline-flex; gap: .4rem; align-items: center; }
.controls input[type=number] { width: 6rem; }
.controls output { min-width: 2.5rem; }
.swatch { width: 1.2rem; height: .25rem; display: inline-block; }
.group > summary { margin-top: 1.5rem; font-size: 1.05rem; font-weight: 600; color: var(--ink); }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr));
  gap: 1.25rem 2rem; }
.curve { margin: .5rem 0; display: flex; flex-direction: column; min-width: 0;
  content-visibility: auto; contain-intrinsic-size: auto 16rem; }
.curve[hidden] { display: none; }
.curve figcaption { flex: 1; font-size: .85rem; }
.curve h3 { margin: 0; font-size: .95rem; }
.curve h3 small { font-weight: normal; color: var(--faint); }
.curve p { margin: 0 0 .25rem; }
.plot { min-height: 9.5rem; overflow: hidden; touch-action: pan-y; }
.plot:focus-visible, summary:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
.filters { display: flex; flex-wrap: wrap; gap: .5rem 1.25rem; margin: .75rem 0; }
.filters .wide { flex-basis: 100%; }
.filters select { max-width: 14rem; }
.filters .wide select { display: block; width: 100%; max-width: none; }
.side { display: flex; gap: 1rem; overflow-x: auto; }
.side article { flex: 1 0 min(22rem, 88vw); max-width: 40rem; }
.tokens { max-height: 24rem; white-space: pre-wrap; overflow-wrap: anywhere;
  background: var(--paper); }
.given { color: var(--faint); }
.token { background: color-mix(in srgb, var(--c1) var(--doubt), transparent);
  box-shadow: inset 0 -1px var(--line); }
mark { margin-right: .35rem; padding: 0 .3rem; background: var(--ink); color: var(--paper);
  font-size: .75rem; white-space: nowrap; }
.values { font-size: .85rem; color: var(--faint); font-variant-numeric: tabular-nums; }
.chart { width: 100%; min-height: 4rem; }
.chart svg, .plot svg { display: block; max-width: 100%; }
svg.small { display: inline-block; margin-right: .5rem; vertical-align: middle; }
.fill { fill: var(--c0); }
.reached-none { border-left: .3rem solid var(--c1); padding-left: .3rem; }
.reached-some { border-left: .3rem solid var(--c4); padding-left: .3rem; }
.reached-all { border-left: .3rem solid var(--c2); padding-left: .3rem; }
.ring { fill: none; stroke: var(--ink); }
td:has(:target), th:has(:target) { outline: 2px solid var(--c1); outline-offset: 2px; }
th button { all: unset; cursor: pointer; text-decoration: underline dotted; }
th button:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
[aria-sort=ascending] button::after { content: " ↑"; }
[aria-sort=descending] button::after { content: " ↓"; }
.none { fill: none; stroke: var(--line); }
@media print {
  body { padding: 0; font-size: 11pt; }
  nav, .words { display: none; }
  .scroll { max-height: none; overflow: visible; }
  figure, tr, article li { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  details::details-content { display: block; content-visibility: visible; }
}
"""


def style_sheet() -> str:
    """Return the whole style sheet; it refers to nothing outside the page."""
    swatches = "".join(
        f".swatch.s{n} {{ background: var(--c{n}); }} .drawn .c{n} {{ --colour: var(--c{n}); }}\n"
        for n in range(sum(name[0] == "c" for name in LIGHT))
    )
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
        f"{_RULES}{swatches}"
    )


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
