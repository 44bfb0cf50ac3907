// Folds a design's outputs into one number, at the end of every time slot in which they changed. The
// outputs are the only variables that the model makes public. Included after the model and before
// main.cpp, which then runs this class in place of the model. Writes outputs.txt: the number, and how
// often the outputs changed.

#include <cstdint>
#include <cstring>
#include <string>

#include "verilated_syms.h"

namespace {

class ObservedModel final : public Vtb {
 public:
  using Vtb::Vtb;

  void eval() {
    Vtb::eval();
    std::string now;
    for (const auto& scope : *contextp()->scopeNameMap()) {
      if (scope.second->varsp() == nullptr) continue;
      for (const auto& variable : *scope.second->varsp()) {
        now.append(static_cast<const char*>(variable.second.datap()), variable.second.totalSize());
      }
    }
    if (now == last_) return;
    last_.swap(now);
    ++changes_;
    const uint64_t time = contextp()->time();
    fold(&time, sizeof time);
    fold(last_.data(), last_.size());
  }

  void final() {
    Vtb::final();
    FILE* const file = fopen("outputs.txt", "w");
    if (file == nullptr) return;
    fprintf(file, "%016llx %lu\n", static_cast<unsigned long long>(folded_), changes_);
    fclose(file);
  }

 private:
  // FNV-1a.
  void fold(const void* bytes, size_t size) {
    for (size_t at = 0; at < size; ++at) {
      folded_ = (folded_ ^ static_cast<const unsigned char*>(bytes)[at]) * 0x100000001b3ULL;
    }
  }

  std::string last_;
  uint64_t folded_ = 0xcbf29ce484222325ULL;
  unsigned long changes_ = 0;
};

}  // namespace

#define COEVOLVE_MODEL ObservedModel
