// One port of the memory model behind a C interface, for a manager that a test moves cycle by cycle.
#include "memory.h"

using namespace etalstm;

namespace {
struct Bench {
    Memory memory;
    Port port;
    uint64_t cycle = 0;
    std::string breach;

    Bench(uint8_t* bytes, uint64_t size, const Options& options, unsigned beat_bytes, uint32_t ids)
        : memory{bytes, size, options, beat_bytes, {}, {}}, port(memory, 0, ids, WHOLE_BEATS | ALIGNED_BURSTS) {}
};
}  // namespace

extern "C" {

Bench* port_create(uint8_t* bytes, uint64_t size, const Options* options, uint32_t beat_bytes, uint32_t ids) {
    return new Bench(bytes, size, *options, beat_bytes, ids);
}

void port_destroy(Bench* bench) { delete bench; }

// Shows the memory what the manager shows in a cycle; gives what the memory shows in the next one.
const Driven* port_step(Bench* bench, const Shown* shown) {
    bench->port.step(*shown, false, bench->cycle++);
    return &bench->port.driven;
}

const char* port_breach(Bench* bench) {
    bench->breach = bench->memory.breach.fields();
    return bench->breach.c_str();
}
}
