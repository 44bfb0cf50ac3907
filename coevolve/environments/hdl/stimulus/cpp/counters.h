// Collects the addresses of the model's coverage counters. Included before the model.
//
// Verilator registers each counter with this macro. Registering formats a dozen strings for each, far
// more work than a short simulation, so a server that knows the counters' points leaves it out.
#ifndef COEVOLVE_COUNTERS_H_
#define COEVOLVE_COUNTERS_H_

#include <cstdint>
#include <vector>

namespace coevolve {

inline bool registers = false;
inline std::vector<uint32_t*> counters;

}  // namespace coevolve

#undef VL_COVER_INSERT
#define VL_COVER_INSERT(context, name, counter, ...)      \
  do {                                                    \
    ::coevolve::counters.push_back(counter);              \
    if (::coevolve::registers) {                          \
      (context)->_inserti(counter);                       \
      (context)->_insertf(__FILE__, __LINE__);            \
      (context)->_insertp("hier", name, __VA_ARGS__);     \
    }                                                     \
  } while (false)

#endif
