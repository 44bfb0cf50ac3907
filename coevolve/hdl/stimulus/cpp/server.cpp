// Runs stimulus programs on one verilated design. Included after the model and its pins.
//
//   server map PREFIX
//     writes PREFIX.0, PREFIX.1, ...: coverage in which each counter of a pass is another power of
//     two, so that sums of counters that share a point still tell which ones they are.
//   server serve POINTS COUNT IN OUT SECONDS
//     answers on the FIFO OUT what comes from the FIFO IN, until nobody has IN open any more.
//
// POINTS says which point each counter belongs to, one int32 each, -1 for none. A request is, in
// words of 64 bits, the number of programs, then for each program its seed, the first state of its
// random words, the number of its instructions, and four words for each instruction. The answer is,
// for each program, one bit for each of COUNT points, the first in the lowest bit of the first byte.
// A program that takes more than SECONDS ends the server.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace coevolve {
namespace {

constexpr uint64_t half_cycle_ps = 5000;
constexpr size_t counters_of_pass = 32;

enum Code : uint64_t { kReset, kStep, kSet, kRandom, kChance, kInc, kRol, kInv, kOnce, kWait, kRepeat };

struct Instruction {
  uint64_t code;
  uint64_t port;  // Of a repetition: how many instructions its body has.
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
  Bench(uint64_t seed, uint64_t state) : state_{state} {
    counters.clear();
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

  // The inputs take their words, and half a cycle passes.
  void settle() {
    if (context_.gotFinish()) return;
    for (size_t port = 0; port < pins::inputs; ++port) pins::drive(*model_, port, inputs_[port].word);
    model_->eval();
    context_.timeInc(half_cycle_ps);
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
};

int map(const std::string& prefix) {
  registers = true;
  Bench bench{1, 1};
  if (bench.waits()) return 4;
  for (size_t first = 0, pass = 0; first < counters.size(); first += counters_of_pass, ++pass) {
    for (size_t n = 0; n < counters.size(); ++n) {
      const bool now = n >= first && n < first + counters_of_pass;
      *counters[n] = now ? uint32_t{1} << (n - first) : 0;
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
  uint64_t head[3];
  if (!read(in, head, 3)) return false;
  request.seed = head[0];
  request.state = head[1];
  request.instructions.resize(head[2]);
  return read(in, request.instructions.data(), head[2]);
}

std::vector<uint8_t> hits(const Request& request, const std::vector<int32_t>& points, size_t count) {
  Bench bench{request.seed, request.state};
  if (counters.size() < points.size()) return {};
  const Instruction* const first = request.instructions.data();
  bench.run(first, first + request.instructions.size());
  bench.finish();
  std::vector<uint8_t> bits((count + 7) / 8);
  for (size_t n = 0; n < points.size(); ++n) {
    if (points[n] >= 0 && *counters[n]) bits[points[n] / 8] |= 1 << points[n] % 8;
  }
  return bits;
}

std::vector<int32_t> load(const char* path) {
  std::vector<int32_t> points;
  int32_t point;
  FILE* const file = fopen(path, "rb");
  while (file && read(file, &point, 1)) points.push_back(point);
  if (file) fclose(file);
  return points;
}

int serve(char** arguments) {
  const std::vector<int32_t> points = load(arguments[0]);
  const size_t count = strtoul(arguments[1], nullptr, 10);
  FILE* const in = fopen(arguments[2], "rb");
  FILE* const out = fopen(arguments[3], "wb");
  const unsigned seconds = strtoul(arguments[4], nullptr, 10);
  if (!in || !out) return 3;
  Request request;
  for (uint64_t programs; read(in, &programs, 1); fflush(out)) {
    for (; programs; --programs) {
      if (!read(in, request)) return 3;
      alarm(seconds);
      const std::vector<uint8_t> bits = hits(request, points, count);
      alarm(0);
      if (bits.empty()) return 5;
      if (fwrite(bits.data(), 1, bits.size(), out) != bits.size()) return 3;
    }
  }
  return 0;
}

}  // namespace
}  // namespace coevolve

int main(int argc, char** argv) {
  coevolve::print_at_most(0);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "map" && argc == 3) return coevolve::map(argv[2]);
  if (what == "serve" && argc == 7) return coevolve::serve(argv + 2);
  return 3;
}
