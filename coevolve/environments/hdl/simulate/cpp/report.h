// The interface between the runtime and the loop of a simulation.
#ifndef COEVOLVE_REPORT_H_
#define COEVOLVE_REPORT_H_

namespace coevolve {

// Prints like printf, up to `print_at_most` bytes in total.
int print(const char* format, ...) __attribute__((format(printf, 1, 2)));
void print_at_most(unsigned long bytes);

// Whether `$fatal` ended the simulation.
bool fatal();

// Line of the `$stop` that ended the simulation; 0 if none did.
int stopped();

// Exit statuses: the solver of constraints exceeded the limit of `solve_at_most`, or died.
enum : int { SOLVER_STEPS = 4, SOLVER_DIED = 5 };
void solve_at_most(unsigned long steps);

// Kills the solver, if there is one, and waits for it, so that its CPU time is counted.
void end_solver();

}  // namespace coevolve

#endif
