// What the runtime and the loop of a simulation tell each other.
#ifndef COEVOLVE_REPORT_H_
#define COEVOLVE_REPORT_H_

namespace coevolve {

// Prints like printf until `print_at_most` bytes were printed, and nothing after.
int print(const char* format, ...) __attribute__((format(printf, 1, 2)));
void print_at_most(unsigned long bytes);

// Whether `$fatal` ended the simulation.
bool fatal();

}  // namespace coevolve

#endif
