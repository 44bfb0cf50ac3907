// Verilator's interface to the solver, with two differences: the solver's cost is counted in its own
// steps, which do not depend on the machine; and if it exceeds the limit of `solve_at_most`, or dies,
// the simulation ends at once with its own exit status, so that no `randomize()` fails for lack of
// time.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <streambuf>
#include <string>

#include "report.h"

ssize_t coevolve_read(int from, void* into, size_t most);
ssize_t coevolve_write(int to, const void* text, size_t size);
pid_t coevolve_fork();

#define read coevolve_read
#define write coevolve_write
#define fork coevolve_fork
#include "verilated_random.cpp"
#undef read
#undef write
#undef fork

namespace coevolve {
namespace {

const std::string CHECK = "(check-sat";
const std::string ASK = "(get-info :rlimit)\n";
const std::string ANSWER = "(:rlimit ";

// Cost of starting a search, which the solver does not count.
constexpr unsigned long SEARCH_STEPS = 1000;

unsigned long most_steps = ~0UL;
unsigned long steps = 0;

// The messages between a solver and the model.
struct Talk {
  std::string line;         // Start of the line that the model is writing, to recognize a search.
  std::string unfinished;   // Line of the solver without its end yet.
  std::string ready;        // Answer for the model.
  unsigned long asked = 0;  // Number of step counts that the solver still has to send.
  unsigned long count = 0;  // The last step count.
};
Talk talk;
pid_t solver = 0;

[[noreturn]] void end(int status) {
  end_solver();
  fflush(stdout);
  _exit(status);
}

// Ends the simulation because the solver died. Returns if no solver could be started (exit status
// 127), which Verilator reports itself.
void lost() {
  siginfo_t ended{};
  if (waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0 && ended.si_code == CLD_EXITED &&
      ended.si_status == 127) {
    return;
  }
  end(SOLVER_DIED);
}

// After a reset the solver counts from 0 again.
void add(unsigned long count) {
  steps += SEARCH_STEPS + (count < talk.count ? count : count - talk.count);
  talk.count = count;
  --talk.asked;
  if (steps > most_steps) end(SOLVER_STEPS);
}

void hear(const std::string& line) {
  if (line.compare(0, ANSWER.size(), ANSWER) == 0) {
    add(strtoul(line.c_str() + ANSWER.size(), nullptr, 10));
  } else {
    talk.ready += line;
  }
}

// Gives the solver's process the CPU time up to the hard limit, and closes its error output, which
// would be mistaken for the simulation's.
void become_solver() {
  rlimit cpu{};
  getrlimit(RLIMIT_CPU, &cpu);
  cpu.rlim_cur = cpu.rlim_max;
  setrlimit(RLIMIT_CPU, &cpu);
  close(STDERR_FILENO);
}

bool listen(int from) {
  char chunk[4096];
  const ssize_t size = read(from, chunk, sizeof chunk);
  if (size <= 0) {
    lost();
    return false;
  }
  talk.unfinished.append(chunk, size);
  size_t start = 0;
  for (size_t stop; (stop = talk.unfinished.find('\n', start)) != std::string::npos;
       start = stop + 1) {
    hear(talk.unfinished.substr(start, stop + 1 - start));
  }
  talk.unfinished.erase(0, start);
  return true;
}

// Adds a request for the step count after each line that starts a search.
std::string with_questions(const char* text, size_t size) {
  std::string told;
  for (const char* at = text; at != text + size; ++at) {
    told += *at;
    if (*at != '\n') {
      if (talk.line.size() < CHECK.size()) talk.line += *at;
      continue;
    }
    if (talk.line == CHECK) {
      told += ASK;
      ++talk.asked;
    }
    talk.line.clear();
  }
  return told;
}

}  // namespace

void solve_at_most(unsigned long steps) { most_steps = steps; }

void end_solver() {
  if (solver <= 0 || waitpid(solver, nullptr, WNOHANG) != 0) return;
  kill(solver, SIGKILL);
  waitpid(solver, nullptr, 0);
}

}  // namespace coevolve

// Returns nothing until every step count has arrived: the model must not use an answer that exceeded
// the limit.
ssize_t coevolve_read(int from, void* into, size_t most) {
  using coevolve::talk;
  while (talk.asked > 0 || talk.ready.empty()) {
    if (!coevolve::listen(from)) return 0;
  }
  const size_t size = std::min(most, talk.ready.size());
  memcpy(into, talk.ready.data(), size);
  talk.ready.erase(0, size);
  return size;
}

ssize_t coevolve_write(int to, const void* text, size_t size) {
  const std::string told = coevolve::with_questions(static_cast<const char*>(text), size);
  for (size_t at = 0; at < told.size();) {
    const ssize_t done = write(to, told.data() + at, told.size() - at);
    if (done <= 0) {
      coevolve::lost();
      return -1;
    }
    at += done;
  }
  return size;
}

pid_t coevolve_fork() {
  signal(SIGPIPE, SIG_IGN);  // The return value of `write` shows that the solver died.
  coevolve::talk = {};
  coevolve::solver = fork();
  if (coevolve::solver == 0) coevolve::become_solver();
  return coevolve::solver;
}
