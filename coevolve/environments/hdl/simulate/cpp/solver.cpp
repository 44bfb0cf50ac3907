// Verilator's end of the solver, with two differences: what the solver spends is counted in steps of
// its own, which do not depend on the machine; and where it spends more than `solve_at_most` allows,
// or dies, the simulation ends at once with a status of its own, so that no `randomize()` fails for
// want of time.
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

// What starting a search comes to, which the solver does not count.
constexpr unsigned long SEARCH_STEPS = 1000;

unsigned long most_steps = ~0UL;
unsigned long steps = 0;

// What passes between a solver and the model.
struct Talk {
  std::string line;         // That the model is writing: as much of it as tells what it is.
  std::string unfinished;   // That the solver has not ended yet.
  std::string ready;        // For the model.
  unsigned long asked = 0;  // Counts that the solver owes.
  unsigned long count = 0;  // The last one.
};
Talk talk;
pid_t solver = 0;

[[noreturn]] void end(int status) {
  end_solver();
  fflush(stdout);
  _exit(status);
}

// Returns where there is no solver to start, which Verilator tells by itself.
void lost() {
  siginfo_t ended{};
  if (waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0 && ended.si_code == CLD_EXITED &&
      ended.si_status == 127) {
    return;
  }
  end(SOLVER_DIED);
}

// The solver counts from 0 again whenever it is reset.
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

// The process that will run the solver has all the CPU time that the simulation may not take, and
// no way to say something that would be taken for the simulation's last words.
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

// Asks for a count after each line that lets the solver search.
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

// Gives nothing before every count is in: the model must not go on with what took too long.
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
  signal(SIGPIPE, SIG_IGN);  // A dead solver is seen by what `write` returns.
  coevolve::talk = {};
  coevolve::solver = fork();
  if (coevolve::solver == 0) coevolve::become_solver();
  return coevolve::solver;
}
