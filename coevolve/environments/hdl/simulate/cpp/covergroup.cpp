// Verilator's covergroups, whose bins are collected like the other counters of `counters.h`.
#include "counters.h"

#undef VL_COVER_INSERT
#define VL_COVER_INSERT(context, name, counter, ...) \
  COEVOLVE_INSERT(context, name, counter, false, __VA_ARGS__)
#include "verilated_covergroup.cpp"
