// Runs stimulus programs on one verilated design. Included after the model and its pins.
//
//   server map PREFIX
//     writes PREFIX.0, PREFIX.1, ...: coverage in which the counters of a pass are different powers
//     of two, so that a sum of counters that share a point still shows which ones they are.
//   server serve POINTS COUNT IN OUT SECONDS
//     reads requests from the FIFO IN and answers on the FIFO OUT, until no process has IN open.
//   server trace IN OUT SECONDS
//     likewise, but answers with a hash of the outputs instead of coverage.
//
// POINTS is a file with the point of each counter, one int32 each, -1 for none. A request is, in
// words of 64 bits: the number of programs, then for each program its seed, the number of a switched
// design's mutant (`hdl.designs.switching`; else 0), the first state of its random words, the number of its instructions, and four words for each instruction. The answer for
// each program is one bit for each of COUNT points, the first in the lowest bit of the first byte, and
// one byte: 1 if the design reported an error or ended the simulation. Or it is two words: the hash of
// the outputs and the times at which they changed, and how often they changed.
// After the last program follows one word: the CPU nanoseconds of this process so far. Of an output
// wider than 64 bits only the lowest 64 are used. A program that takes more than SECONDS ends the
// server.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

static int chosen_mutant = 0;
extern "C" int coevolve_mutant() { return chosen_mutant; }

namespace coevolve {
namespace {

constexpr uint64_t half_cycle_ps = 5000;
constexpr size_t counters_of_pass = 32;

enum Code : uint64_t { kReset, kStep, kSet, kRandom, kChance, kInc, kRol, kInv, kOnce, kWait, kRepeat };

struct Instruction {
  uint64_t code;
  uint64_t port;  // For a repetition: the number of instructions in its body.
  uint64_t word;
  uint64_t count;
};

struct Request {
  uint64_t seed;
  uint64_t state;
  std::vector<Instruction> instructions;
};

enum class Mode { held, random, chance };

struct Input {
  uint64_t word = 0;
  uint64_t eighths = 0;
  Mode mode = Mode::held;
};

uint64_t ones(int bits) { return bits < 64 ? (uint64_t{1} << bits) - 1 : ~uint64_t{0}; }

class Bench {
 public:
  Bench(uint64_t seed, uint64_t state, bool traces) : state_{state}, traces_{traces} {
    forget_counters();
    context_.threads(1);
    context_.randReset(0);
    context_.randSeed(seed == 0 ? -1 : static_cast<int>(seed));
    context_.coveragep()->forcePerInstance(true);
    model_ = std::make_unique<Vtb>(&context_, "");
    pins::reset(*model_, false);
    settle();
  }

  VerilatedContext& context() { return context_; }
  bool waits() { return model_->eventsPending(); }

  void run(const Instruction* at, const Instruction* end) {
    while (at != end) {
      const Instruction& now = *at++;
      switch (now.code) {
        case kReset:
          pins::reset(*model_, true);
          cycles(now.count);
          pins::reset(*model_, false);
          break;
        case kStep:
          cycles(now.count);
          break;
        case kWait:
          for (uint64_t n = now.count; n && pins::read(*model_, now.port) != now.word; --n) cycle();
          break;
        case kRepeat:
          for (uint64_t n = now.count; n; --n) run(at, at + now.port);
          at += now.port;
          break;
        default:
          change(now, inputs_[now.port], pins::bits[now.port]);
      }
    }
  }

  void finish() {
    pins::clock(*model_, false);
    settle();
    model_->final();
  }

  // Whether the design reported an error, or ended the simulation.
  bool spoke() const { return context_.errorCount() || context_.gotFinish(); }

  uint64_t folded() const { return folded_; }
  uint64_t changes() const { return changes_; }

 private:
  void change(const Instruction& now, Input& input, int bits) {
    input.mode = Mode::held;
    switch (now.code) {
      case kSet: input.word = now.word; break;
      case kRandom: input.mode = Mode::random; break;
      case kChance: input.mode = Mode::chance; input.eighths = now.word; break;
      case kInc: input.word += 1; break;
      case kRol: input.word = input.word << 1 | input.word >> (bits - 1); break;
      case kInv: input.word = ~input.word; break;
      case kOnce: input.word = draw(); break;
    }
    input.word &= ones(bits);
  }

  void cycles(uint64_t count) {
    for (; count; --count) cycle();
  }

  void cycle() {
    pins::clock(*model_, false);
    for (size_t port = 0; port < pins::inputs; ++port) {
      Input& input = inputs_[port];
      if (input.mode == Mode::random) input.word = draw() & ones(pins::bits[port]);
      if (input.mode == Mode::chance) input.word = draw() % 8 < input.eighths;
    }
    settle();
    if (!pins::clocked) return;
    pins::clock(*model_, true);
    settle();
  }

  // Applies the inputs' words, and lets half a cycle pass.
  void settle() {
    if (context_.gotFinish()) return;
    for (size_t port = 0; port < pins::inputs; ++port) pins::drive(*model_, port, inputs_[port].word);
    model_->eval();
    if (context_.time() == 0) forget_toggles();
    if (traces_) trace();
    context_.timeInc(half_cycle_ps);
  }

  void trace() {
    uint64_t now[pins::outputs + 1] = {};
    for (size_t port = 0; port < pins::outputs; ++port) now[port] = pins::read(*model_, port);
    if (changes_ && !memcmp(now, last_, sizeof now)) return;
    memcpy(last_, now, sizeof now);
    ++changes_;
    fold(context_.time());
    for (const uint64_t word : now) fold(word);
  }

  // FNV-1a.
  void fold(uint64_t word) {
    for (int bit = 0; bit < 64; bit += 8) folded_ = (folded_ ^ (word >> bit & 255)) * 0x100000001b3ULL;
  }

  uint64_t draw() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

  VerilatedContext context_;
  std::unique_ptr<Vtb> model_;
  uint64_t state_;
  Input inputs_[pins::inputs + 1];
  bool traces_;
  uint64_t last_[pins::outputs + 1];
  uint64_t folded_ = 0xcbf29ce484222325ULL;
  uint64_t changes_ = 0;
};

int map(const std::string& prefix) {
  marks_counters = true;
  Bench bench{1, 1, false};
  if (bench.waits()) return 4;
  for (size_t first = 0, pass = 0; first < marks.size(); first += counters_of_pass, ++pass) {
    for (size_t n = 0; n < marks.size(); ++n) {
      const bool now = n >= first && n < first + counters_of_pass;
      marks[n] = now ? uint32_t{1} << (n - first) : 0;
    }
    bench.context().coveragep()->write(prefix + "." + std::to_string(pass));
  }
  return 0;
}

template <typename T>
bool read(FILE* file, T* items, size_t count) {
  return fread(items, sizeof(T), count, file) == count;
}

bool read(FILE* in, Request& request) {
  uint64_t head[4];
  if (!read(in, head, 4)) return false;
  request.seed = head[0];
  chosen_mutant = static_cast<int>(head[1]);
  request.state = head[2];
  request.instructions.resize(head[3]);
  return read(in, request.instructions.data(), head[3]);
}

void perform(Bench& bench, const Request& request) {
  const Instruction* const first = request.instructions.data();
  bench.run(first, first + request.instructions.size());
  bench.finish();
}

std::vector<uint8_t> hits(const Request& request, const std::vector<int32_t>& points, size_t count) {
  Bench bench{request.seed, request.state, false};
  if (counters.size() < points.size()) return {};
  perform(bench, request);
  std::vector<uint8_t> bits((count + 7) / 8);
  for (size_t n = 0; n < points.size(); ++n) {
    if (points[n] >= 0 && *counters[n]) bits[points[n] / 8] |= 1 << points[n] % 8;
  }
  bits.push_back(bench.spoke());
  return bits;
}

std::vector<uint8_t> outputs(const Request& request) {
  Bench bench{request.seed, request.state, true};
  perform(bench, request);
  const uint64_t words[] = {bench.folded(), bench.changes()};
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(words);
  return {bytes, bytes + sizeof words};
}

std::vector<int32_t> load(const char* path) {
  std::vector<int32_t> points;
  int32_t point;
  FILE* const file = fopen(path, "rb");
  while (file && read(file, &point, 1)) points.push_back(point);
  if (file) fclose(file);
  return points;
}

template <typename Answer>
int answer(char** arguments, const Answer& answered) {
  FILE* const in = fopen(arguments[0], "rb");
  FILE* const out = fopen(arguments[1], "wb");
  const unsigned seconds = strtoul(arguments[2], nullptr, 10);
  if (!in || !out) return 3;
  Request request;
  for (uint64_t programs; read(in, &programs, 1); fflush(out)) {
    for (; programs; --programs) {
      if (!read(in, request)) return 3;
      alarm(seconds);
      const std::vector<uint8_t> bytes = answered(request);
      alarm(0);
      if (bytes.empty()) return 5;
      if (fwrite(bytes.data(), 1, bytes.size(), out) != bytes.size()) return 3;
    }
    timespec spent;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent)) return 3;
    const uint64_t spent_ns = uint64_t{1000000000} * spent.tv_sec + spent.tv_nsec;
    if (fwrite(&spent_ns, sizeof spent_ns, 1, out) != 1) return 3;
  }
  return 0;
}

int serve(char** arguments) {
  registers = false;
  const std::vector<int32_t> points = load(arguments[0]);
  const size_t count = strtoul(arguments[1], nullptr, 10);
  return answer(arguments + 2, [&](const Request& request) { return hits(request, points, count); });
}

}  // namespace
}  // namespace coevolve

int main(int argc, char** argv) {
  coevolve::print_at_most(0);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "map" && argc == 3) return coevolve::map(argv[2]);
  if (what == "serve" && argc == 7) return coevolve::serve(argv + 2);
  if (what == "trace" && argc == 5) {
    coevolve::registers = false;
    return coevolve::answer(argv + 2, coevolve::outputs);
  }
  return 3;
}
