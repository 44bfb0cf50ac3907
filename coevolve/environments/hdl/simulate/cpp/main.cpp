// Runs the model once: main SEED SLOTS LOG_BYTES CPU_S SOLVER_STEPS SOLVER MUTANT; SOLVER is a command
// line, MUTANT the number that a switched design (`hdl.designs.switching`) asks for.
// A testbench without `$finish` is cut off after a number of time slots, not seconds, so the result
// does not depend on the machine; its coverage is kept. Writes coverage.dat, and ended.txt: how it
// ended, slots, time, number of errors, line of the `$stop` or 0. Included after the model and
// `counters.h`.
#include <sys/resource.h>

// A file included before can define another class to run in place of the model.
#ifndef COEVOLVE_MODEL
#define COEVOLVE_MODEL Vtb
#endif

static int chosen_mutant = 0;
extern "C" int coevolve_mutant() { return chosen_mutant; }

namespace {

int simulate(int seed, unsigned long most_slots, const char* solver, const char** program) {
  const auto context = std::make_unique<VerilatedContext>();
  context->threads(1);
  // Only the program's name, so that there are no plusargs.
  context->commandArgs(1, program);
  context->randReset(0);
  // 0 would seed from the clock.
  context->randSeed(seed == 0 ? -1 : seed);
  context->solverProgram(solver);
  context->coveragep()->forcePerInstance(true);
  const auto model = std::make_unique<COEVOLVE_MODEL>(context.get(), "");
  const char* ended = "slot_limit";
  unsigned long slots = 0;
  while (slots < most_slots) {
    model->eval();
    if (context->time() == 0) coevolve::forget_toggles();
    ++slots;
    if (context->gotFinish()) {
      ended = "finish";
      break;
    }
    if (!model->eventsPending()) {
      ended = "quiet";
      break;
    }
    context->time(model->nextTimeSlot());
  }
  model->final();
  coevolve::end_solver();
  fflush(stdout);
  if (coevolve::fatal()) return 2;
  context->coveragep()->write("coverage.dat");
  FILE* const file = fopen("ended.txt", "w");
  if (file == nullptr) return 3;
  fprintf(file, "%s %lu %llu %d %d\n", ended, slots,
          static_cast<unsigned long long>(context->time()), context->errorCount(),
          coevolve::stopped());
  return fclose(file) == 0 ? 0 : 3;
}

// Sets the soft limit; the rest up to the hard limit is for the solver.
void take_at_most(unsigned long cpu_s) {
  rlimit limit{};
  getrlimit(RLIMIT_CPU, &limit);
  limit.rlim_cur = cpu_s;
  setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 3;
  coevolve::print_at_most(strtoul(argv[3], nullptr, 10));
  coevolve::solve_at_most(strtoul(argv[5], nullptr, 10));
  take_at_most(strtoul(argv[4], nullptr, 10));
  chosen_mutant = static_cast<int>(strtol(argv[7], nullptr, 10));
  const char* program[] = {argv[0]};
  return simulate(static_cast<int>(strtol(argv[1], nullptr, 10)), strtoul(argv[2], nullptr, 10),
                  argv[6], program);
}
