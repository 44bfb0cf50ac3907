// Verilator's runtime with three differences: the output is limited; `$error` and failed assertions
// are counted and do not end the simulation; `$stop` ends it like `$finish`.
#include "report.h"

void vl_stop_maybe(const char* file, int line, const char* hier, bool maybe);

#define VL_PRINTF ::coevolve::print
#define VL_USER_STOP
#define VL_USER_STOP_MAYBE
#include "verilated.cpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace coevolve {
namespace {

unsigned long left = ~0UL;
int fatal_at = 0;
int stopped_at = 0;
std::string last;

// Whether the last output was an error's place: Verilator prints it before it reports an error, but
// prints nothing before a `$stop`.
bool printed_error(const char* file, int line) {
  const std::string place = std::string{"%Error: "} + file + ":" + std::to_string(line) + ":";
  return last.find(place) != std::string::npos;
}

}  // namespace

int print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* text = nullptr;
  const int size = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (size < 0) return size;
  const size_t kept = std::min<unsigned long>(left, size);
  left -= kept;
  fwrite(text, 1, kept, stdout);
  last.assign(text, std::min<size_t>(size, 4096));
  free(text);
  return size;
}

void print_at_most(unsigned long bytes) { left = bytes; }

bool fatal() { return fatal_at; }

int stopped() { return stopped_at; }

}  // namespace coevolve

void vl_stop(const char*, int, const char*) { Verilated::threadContextp()->gotFinish(true); }

void vl_stop_maybe(const char* file, int line, const char* hier, bool maybe) {
  const bool reported = maybe && coevolve::printed_error(file, line);
  coevolve::last.clear();
  if (reported) {
    Verilated::threadContextp()->errorCountInc();
    return;
  }
  (maybe ? coevolve::stopped_at : coevolve::fatal_at) = line;
  vl_stop(file, line, hier);
}
