from coevolve.environments.hdl.coverage.instrument import ADDED, instrument
from coevolve.environments.hdl.coverage.state_machines import machines
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit


def unit(body: str, ports: str = "input logic clk, rst_n, go, input logic [3:0] x") -> Unit:
    text = f"module m ({ports});\n{body}\nendmodule\n"
    return Unit(name="m", files=(SourceFile(name="m.sv", text=text),), top="m")


def names(body: str) -> list[str]:
    return [point.name for point in instrument(elaborate(unit(body))).names.values()]


ONE_PROCESS = """
typedef enum logic [1:0] {IDLE, RUN, DONE} state_t;
state_t state;
always_ff @(posedge clk or negedge rst_n)
  if (!rst_n) state <= IDLE;
  else case (state)
    IDLE: if (go) state <= RUN;
    RUN: state <= x[0] ? DONE : RUN;
    default: state <= IDLE;
  endcase
"""


def test_a_process_with_a_case_has_states_and_arcs():
    assert names(ONE_PROCESS) == ["IDLE", "RUN", "DONE", "IDLE->RUN", "RUN->DONE", "DONE->IDLE"]


def test_two_processes_are_one_machine():
    body = """
    localparam A = 2'd0, B = 2'd1, C = 2'd3;
    logic [1:0] now, next;
    always @(posedge clk) if (!rst_n) now <= A; else now <= next;
    always @* begin
      next = now;
      case (now)
        A: if (go) next = B;
        B: next = go ? C : A;
        C: next = A;
        default: next = A;
      endcase
      if (now == B && x == 0) next = C;
    end
    """
    assert names(body) == ["A", "B", "C", "A->B", "B->C", "B->A", "C->A"]


def test_machines_of_one_module_are_told_apart_by_their_registers():
    body = """
    typedef enum logic {OFF, ON} state_t;
    state_t left, right;
    always_ff @(posedge clk) case (left) OFF: if (go) left <= ON; ON: left <= OFF; endcase
    always_ff @(posedge clk) if (right == OFF) right <= ON;
    """
    assert names(body) == [
        *("left.OFF", "left.ON", "left.OFF->ON", "left.ON->OFF"),
        *("right.OFF", "right.ON", "right.OFF->ON"),
    ]


def test_machines_of_two_modules_in_one_file_keep_their_names():
    lane = f"module lane (input logic clk, rst_n, go, input logic [3:0] x);{ONE_PROCESS}endmodule\n"
    other = ONE_PROCESS.replace("IDLE", "OPEN").replace("DONE", "SHUT")
    given = unit(f"{other}\nlane l (.*);")
    text = lane + given.files[0].text
    both = Unit(name="m", files=(SourceFile(name="m.sv", text=text),), top="m")
    made = instrument(elaborate(both))
    found = [point.name for point in made.names.values()]
    assert sorted(found) == sorted([*names(ONE_PROCESS), *names(other)])
    assert len(made.names) == len(set(made.names)) == 12


def test_a_counter_is_not_a_state_machine():
    body = """
    localparam FULL = 4'd9, EMPTY = 4'd0;
    logic [3:0] count;
    always_ff @(posedge clk) if (count == FULL) count <= EMPTY; else count <= count + 1;
    """
    assert names(body) == []


def test_a_leading_reset_is_found_and_an_enable_is_not_a_reset():
    rtl = elaborate(unit(ONE_PROCESS))
    assert len(machines(rtl.top)[0].clock.resets) == 1
    enabled = """
    typedef enum logic {OFF, ON} state_t;
    state_t state, next;
    always_ff @(posedge clk) if (go) state <= next;
    always_comb if (state == OFF) next = ON; else next = OFF;
    """
    found = machines(elaborate(unit(enabled)).top)[0]
    assert found.clock.resets == ()
    assert list(found.arcs) == [("OFF", "ON"), ("ON", "OFF")]


def test_the_clock_is_the_edge_that_no_leading_condition_reads():
    body = """
    typedef enum logic {OFF, ON} state_t;
    state_t state;
    always_ff @(posedge x[0] or negedge rst_n or posedge clk)
      if (!rst_n) state <= OFF;
      else if (x[0]) state <= ON;
      else if (go) case (state) OFF: state <= ON; ON: state <= OFF; endcase
    """
    clock = machines(elaborate(unit(body)).top)[0].clock
    assert [len(each) for each in (clock.edges, clock.controls, clock.resets)] == [1, 2, 2]


def test_lines_of_the_design_keep_their_numbers():
    given = unit(ONE_PROCESS)
    made = instrument(elaborate(given))
    before, after = (each.files[0].text.splitlines() for each in (given, made))
    added = len(after) - len(before)
    assert added > 0
    end = len(before) - 1
    assert before[:end] == after[:end]
    assert after[end + added - 1] == f'`line {end + 1} "m.sv" 0'
    assert after[end + added :] == before[end:]
    first = next(iter(made.names.values()))
    assert before[first.line - 1][first.column - 1 :].startswith("IDLE")


def test_each_point_is_a_line_of_the_added_text():
    made = instrument(elaborate(unit(ONE_PROCESS)))
    _, _, added = made.files[0].text.partition(f'`line 1 "{ADDED}" 0\n')
    lines = added.splitlines()
    states = [lines[number - 1] for number, each in made.names.items() if "->" not in each.name]
    assert states == [f"if (state == 2'b{value}) ;" for value in ("0", "1", "10")]
    assert all(lines[number - 1].startswith("if (state == ") for number in made.names)
