// Collects the addresses of the model's coverage counters. Included before the model,
// and before the covergroups of Verilator's runtime: the library and the program share these variables.
//
// Verilator registers each counter with this macro, in a function whose parameter `pagep` is the kind
// of coverage. Registering formats a dozen strings for each, far more work than a short simulation, so
// a server that knows the counters' points leaves it out. Signals that are always equal share a counter;
// where the points of the counters are asked, each is registered with a mark of its own instead.
#ifndef COEVOLVE_COUNTERS_H_
#define COEVOLVE_COUNTERS_H_

#include <cstdint>
#include <deque>
#include <vector>

namespace coevolve {

inline bool registers = true;
inline bool marks_counters = false;
inline std::deque<uint32_t> marks;
inline std::vector<uint32_t*> counters;
inline std::vector<uint32_t*> toggles;

inline void forget_counters() {
  counters.clear();
  toggles.clear();
}

inline uint32_t* registered(uint32_t* counter) {
  return marks_counters ? &marks.emplace_back(0) : counter;
}

// Called at the end of time 0: in a simulation without unknown values every initial value would be a
// toggle from 0.
inline void forget_toggles() {
  for (uint32_t* const counter : toggles) *counter = 0;
}

}  // namespace coevolve

#include "verilated_cov.h"

#define COEVOLVE_INSERT(context, name, counter, is_toggle, ...)         \
  do {                                                                  \
    ::coevolve::counters.push_back(counter);                            \
    if (is_toggle) ::coevolve::toggles.push_back(counter);              \
    if (::coevolve::registers) {                                        \
      (context)->_inserti(::coevolve::registered(counter));              \
      (context)->_insertf(__FILE__, __LINE__);                          \
      (context)->_insertp("hier", name, __VA_ARGS__);                   \
    }                                                                   \
  } while (false)

#undef VL_COVER_INSERT
#define VL_COVER_INSERT(context, name, counter, ...) \
  COEVOLVE_INSERT(context, name, counter, pagep[2] == 't', __VA_ARGS__)

#endif
