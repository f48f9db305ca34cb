// Streams operands through one arithmetic unit of a bank, an operation a clock cycle.
//
// units.h, written with the Verilog, defines UNITS(X) as one X(name, first, second, latency) per unit: its place among
// the ports of the bank, the names of its operands and its latency in cycles.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "Vbank.h"
#include "units.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

struct Bank {
    VerilatedContext context;
    Vbank ports{&context, "bank"};

    // Without an evaluation before it the first rising edge would not be seen.
    Bank() {
        ports.clk = 0;
        ports.eval();
    }
};

Bank& bank() {
    static Bank instance;
    return instance;
}

template <class A, class B, class Z>
void stream(Vbank& ports, A& first, B& second, const Z& result, size_t latency, const uint32_t* a, const uint32_t* b,
            uint32_t* z, size_t count) {
    for (size_t edge = 0; edge + 1 < count + latency; ++edge) {
        if (edge < count) {
            first = static_cast<A>(a[edge]);
            second = static_cast<B>(b[edge]);
        }
        ports.clk = 1;
        ports.eval();
        if (edge + 1 >= latency) z[edge + 1 - latency] = result;
        ports.clk = 0;
        ports.eval();
    }
}

}  // namespace

// Returns 0, or 1 if the bank has no unit of this name.
extern "C" int run_unit(const char* name, const uint32_t* a, const uint32_t* b, uint32_t* z, size_t count) {
    if (count == 0) return 0;
    Vbank& ports = bank().ports;
// Verilator writes the second of two underscores as ___05F.
#define PORT(unit, member) ports.unit##___05F##member
#define RUN(unit, first, second, latency)                                                                            \
    if (std::strcmp(name, #unit) == 0) {                                                                             \
        stream(ports, PORT(unit, first), PORT(unit, second), PORT(unit, z), latency, a, b, z, count);                \
        return 0;                                                                                                    \
    }
    UNITS(RUN)
#undef RUN
#undef PORT
    return 1;
}
