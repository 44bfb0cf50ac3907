// The headers that every verilated design includes.
#ifndef COEVOLVE_PRECOMPILED_H_
#define COEVOLVE_PRECOMPILED_H_

#include "verilated.h"
#include "verilated_cov.h"
#include "verilated_covergroup.h"
#include "verilated_funcs.h"
#include "verilated_random.h"
#include "verilated_timing.h"

#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "report.h"

#endif
