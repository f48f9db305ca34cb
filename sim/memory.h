// AXI4 memory for a Verilated manager: one byte array behind any number of ports.
//
// It is as unkind as the protocol allows, so that what works here works on a board: reads see the memory at the moment
// their address is accepted, writes reach it only with their response, bursts of different ids may overtake each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace etalstm {

struct Options {
    uint32_t latency;      // cycles from an address, or the last data of a write, to the response; at least 1
    uint32_t outstanding;  // bursts in flight per port and direction
    double bandwidth;      // beats per cycle of a port, both directions together; 0: no limit
    double stall;          // probability that a port delays a handshake by a cycle, drawn for each channel and cycle
    uint64_t seed;
    uint32_t reorder;  // answer reads of different ids in random order
};

enum class Response : uint8_t { OKAY = 0, SUBORDINATE_ERROR = 2, DECODE_ERROR = 3, NEVER = 4 };

struct Fault {
    uint64_t begin, end;
    Response response;
};

// A small generator of its own for each user, so that adding a port does not change what the others see.
class Random {
public:
    Random(uint64_t seed, uint64_t stream, double probability);
    bool happens() { return threshold_ != 0 && (next() >> 32) < threshold_; }
    uint64_t next();

private:
    uint64_t state_, threshold_;
};

struct Memory {
    uint8_t* bytes;
    uint64_t size;
    Options options;
    unsigned beat_bytes;
    std::vector<Fault> faults;
    std::string violation;  // the first breach of the protocol; empty if there was none

    Response response(uint64_t address) const;
};

struct Address {
    bool valid;
    uint64_t address;
    uint32_t length, size, burst, id;

    bool operator==(const Address& other) const;
};

// What a manager shows in a cycle. `data` points to `beat_bytes` bytes.
struct Shown {
    Address read, write;
    bool rready, wvalid, wlast, bready;
    uint64_t strobe;
    const uint8_t* data;
};

// What the memory shows in a cycle.
struct Driven {
    bool arready, rvalid, rlast, awready, wready, bvalid;
    uint32_t rid, bid;
    uint8_t rresp, bresp;
    const uint8_t* data;
};

class Port {
public:
    Port(Memory& memory, unsigned number);

    Driven driven{};
    uint64_t read_beats = 0, write_beats = 0;

    // Take the handshakes of `cycle` and decide what to show in the next one.
    void step(const Shown& shown, uint64_t cycle);
    void reset();

private:
    struct Burst {
        uint64_t address, ready_cycle;
        uint32_t id;
        unsigned beats, done;
        Response worst;
        std::vector<uint8_t> data;
        std::vector<uint64_t> strobes;
        std::vector<Response> responses;
    };
    using Bursts = std::vector<std::unique_ptr<Burst>>;

    Memory& memory_;
    unsigned number_;
    Random random_;
    double tokens_ = 0;
    Bursts reads_, writes_, free_;
    Burst* current_ = nullptr;
    std::vector<uint8_t> beat_;
    Address held_read_{}, held_write_{};

    std::unique_ptr<Burst> accept(const Address& address, uint64_t cycle);
    void release(Bursts& from, Burst* burst);
    void check(const char* channel, const Address& now, Address& held, bool ready);
    void violate(const std::string& what);
    bool affordable() const;
    void step_read(const Shown& shown, uint64_t cycle);
    void show_read(uint64_t cycle);
    void step_write(const Shown& shown, uint64_t cycle);
    void take_data(const Shown& shown, uint64_t cycle);
    void show_response(uint64_t cycle);
    Burst* readable(uint64_t cycle);
};

}  // namespace etalstm
