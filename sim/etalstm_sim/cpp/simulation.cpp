// The Verilated accelerator, its memory and its register bus, behind a C interface for ctypes.
#include <stdexcept>
#include <utility>

#include "glue.h"     // generated: BEAT_BYTES, PORTS, IDS, Waveform, Control, interrupt(), tie(), drive(), sample(), observe()
#include "machine.h"  // whole.h or apart.h

using namespace etalstm;

void vl_fatal(const char* file, int line, const char*, const char* message) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + message);
}

namespace {

enum Stop : int { INTERRUPT = 0, LIMIT = 1, BREACH = 2 };
enum Answer : int { NO_ANSWER = -1, FAILED = -2 };
constexpr int RESET_CYCLES = 3;
constexpr int ANSWER_CYCLES = 10000;  // a register that has not answered by then never will

// What the machine promises at its memory ports, and the simulation at its registers.
constexpr uint32_t PROMISES = WHOLE_BEATS | ALIGNED_BURSTS | WHOLE_STROBES | ADDRESS_FIRST;
constexpr uint32_t REGISTER_BYTES = sizeof(uint32_t);
constexpr uint32_t REGISTER_SIZE = 2;  // as AxSIZE has it
constexpr uint64_t ALL_STROBES = ~0ull;
constexpr Rules REGISTER_RULES{REGISTER_BYTES, 1, 1, 1, 1, WHOLE_BEATS | ALIGNED_BURSTS | WHOLE_STROBES};

struct Simulation {
    VerilatedContext context;
    Machine machine;
    Vregistered& top;
    Control control;
    Memory memory;
    std::vector<Port> ports;
    Checker register_checker;
    std::string failure, breach;  // what was thrown; the breach's fields
    Random random;
    uint64_t cycle = 0;
    std::unique_ptr<Waveform> waveform;
    uint64_t first_traced = 0, last_traced = 0;
    Observed seen;

    Simulation(uint8_t* bytes, uint64_t size, const Options& options)
        : machine(&context), top(machine.top), control(control_of(top)),
          memory{bytes, size, options, BEAT_BYTES, {}, {}},
          register_checker(memory.breach, "control", REGISTER_RULES), random(options.seed, 0, options.stall) {
        ports.reserve(PORTS);
        for (unsigned n = 0; n < PORTS; ++n) ports.emplace_back(memory, n, IDS[n], PROMISES);
        tie(top);
    }

    ~Simulation() {
        if (waveform) waveform->close();
        machine.final();
    }

    void dump(uint64_t time) {
        if (waveform && cycle >= first_traced && cycle <= last_traced) waveform->dump(time);
    }

    // End the cycle before and show this one's inputs with the same edge, then call `look` on the outputs.
    template <class Look>
    void step(Look look) {
        drive(top, ports.data());
        machine.fall();
        dump(2 * cycle);
        machine.rise();
        dump(2 * cycle + 1);
        look();
        check_registers();
        observe(top, seen);
        sample(top, ports.data(), top.rst, cycle);
        ++cycle;
    }

    // The register bus has bursts of one beat, and neither ids nor LAST.
    void check_registers() {
        if (!memory.options.checked) return;
        const auto address = [](bool valid, uint64_t place) {
            return Address{valid, place, 0, REGISTER_SIZE, INCREMENTING, 0};
        };
        Shown shown{address(control.arvalid, control.araddr), address(control.awvalid, control.awaddr)};
        shown.rready = control.rready, shown.bready = control.bready;
        shown.wvalid = control.wvalid, shown.wlast = true, shown.strobe = ALL_STROBES;
        shown.data = reinterpret_cast<const uint8_t*>(&control.wdata);
        Driven driven{};
        driven.arready = control.arready, driven.awready = control.awready, driven.wready = control.wready;
        driven.rvalid = control.rvalid, driven.rresp = control.rresp, driven.rlast = true;
        driven.bvalid = control.bvalid, driven.bresp = control.bresp;
        driven.data = reinterpret_cast<const uint8_t*>(&control.rdata);
        register_checker.step(shown, driven, top.rst, cycle);
    }

    void reset() {
        top.rst = 1;
        control.awvalid = control.wvalid = control.bready = 0;
        control.arvalid = control.rready = 0;
        for (Port& port : ports) port.reset();
        memory.breach = {};
        failure.clear();
        for (int n = 0; n < RESET_CYCLES; ++n) step([] {});
        top.rst = 0;
        step([] {});  // no bus may show anything in the cycle after a reset
    }

    // Both give the response (0: OKAY), or NO_ANSWER.
    int write(uint32_t address, uint32_t value) {
        control.awaddr = address;
        control.wdata = value;
        control.awvalid = control.wvalid = 0;
        bool address_taken = false, data_taken = false;
        int response = NO_ANSWER;
        for (int n = 0; n < ANSWER_CYCLES && response == NO_ANSWER; ++n) {
            if (!address_taken && !random.happens()) control.awvalid = 1;
            if (!data_taken && !random.happens()) control.wvalid = 1;
            control.bready = address_taken && data_taken && !random.happens();
            bool take_address = false, take_data = false;
            step([&] {
                take_address = control.awvalid && control.awready;
                take_data = control.wvalid && control.wready;
                if (control.bready && control.bvalid) response = control.bresp;
            });
            if (take_address) address_taken = true, control.awvalid = 0;
            if (take_data) data_taken = true, control.wvalid = 0;
        }
        control.awvalid = control.wvalid = control.bready = 0;
        return response;
    }

    int read(uint32_t address, uint32_t* value) {
        control.araddr = address;
        control.arvalid = 0;
        bool taken = false;
        int response = NO_ANSWER;
        for (int n = 0; n < ANSWER_CYCLES && response == NO_ANSWER; ++n) {
            if (!taken && !random.happens()) control.arvalid = 1;
            control.rready = taken && !random.happens();
            bool take = false;
            step([&] {
                take = control.arvalid && control.arready;
                if (control.rready && control.rvalid) {
                    response = control.rresp;
                    *value = control.rdata;
                }
            });
            if (take) taken = true, control.arvalid = 0;
        }
        control.arvalid = control.rready = 0;
        return response;
    }

    int run(uint64_t cycles) {
        bool high = false;
        for (uint64_t n = 0; n < cycles && !high; ++n) {
            step([&] { high = interrupt(top, 0); });
            if (memory.breach.found()) return BREACH;
        }
        return high ? INTERRUPT : LIMIT;
    }
};

// Nothing may be thrown into Python.
template <class Body>
int guarded(Simulation* simulation, Body body) {
    try {
        return body();
    } catch (const std::exception& error) {
        simulation->failure = "in cycle " + std::to_string(simulation->cycle) + ": " + error.what();
        return FAILED;
    }
}

}  // namespace

extern "C" {

Simulation* simulation_create(uint8_t* bytes, uint64_t size, const Options* options) {
    return new Simulation(bytes, size, *options);
}

void simulation_destroy(Simulation* simulation) { delete simulation; }

int simulation_reset(Simulation* simulation) {
    return guarded(simulation, [&] { return simulation->reset(), 0; });
}

int simulation_write(Simulation* simulation, uint32_t address, uint32_t value) {
    return guarded(simulation, [&] { return simulation->write(address, value); });
}

int simulation_read(Simulation* simulation, uint32_t address, uint32_t* value) {
    return guarded(simulation, [&] { return simulation->read(address, value); });
}

int simulation_run(Simulation* simulation, uint64_t cycles) {
    return guarded(simulation, [&] { return simulation->run(cycles); });
}

uint64_t simulation_cycle(const Simulation* simulation) { return simulation->cycle; }

const char* simulation_failure(const Simulation* simulation) { return simulation->failure.c_str(); }

const char* simulation_breach(Simulation* simulation) {
    simulation->breach = simulation->memory.breach.fields();
    return simulation->breach.c_str();
}

void simulation_fault(Simulation* simulation, uint64_t begin, uint64_t end, uint32_t response) {
    simulation->memory.faults.push_back({begin, end, static_cast<Response>(response)});
}

void simulation_clear_faults(Simulation* simulation) { simulation->memory.faults.clear(); }

void simulation_upset(Simulation* simulation, uint32_t port, uint32_t glitch, uint64_t count, uint32_t bit) {
    simulation->ports[port].upset(static_cast<Glitch>(glitch), count, bit);
}

int simulation_was_upset(const Simulation* simulation, uint32_t port) { return simulation->ports[port].was_upset(); }

uint64_t simulation_observed(Simulation* simulation, uint32_t* halted) {
    const Observed seen = std::exchange(simulation->seen, {});
    *halted = seen.halted;
    return seen.dispatched;
}

int simulation_write_coverage(Simulation* simulation, const char* path) {
    return guarded(simulation, [&] { return write_coverage(simulation->context, path), 0; });
}

uint64_t simulation_beats(const Simulation* simulation, uint32_t port, uint32_t writes) {
    return writes ? simulation->ports[port].write_beats : simulation->ports[port].read_beats;
}

int simulation_trace(Simulation* simulation, const char* path, uint64_t first, uint64_t last) {
    return guarded(simulation, [&] {
        simulation->first_traced = first, simulation->last_traced = last;
        simulation->waveform = std::make_unique<Waveform>(simulation->machine, path);
        return simulation->waveform->opened() ? 0 : 1;
    });
}

void simulation_flush(Simulation* simulation) {
    if (simulation->waveform) simulation->waveform->flush();
}
}
