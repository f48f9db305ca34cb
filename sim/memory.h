// AXI4 memory for a Verilated manager: one byte array behind any number of ports.
//
// It is as unkind as the protocol allows, so that what works here works on a board. Reads see the memory at the moment
// their address is accepted. Writes reach it only with their response. Bursts of different ids may overtake each other.
// With stalls, each write burst has its address and data accepted in one of the orders of `Order`, drawn by the seed.
// What a manager shows and is not taken must stay as it is; the first breach is kept, with port, channel and cycle.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace etalstm {

constexpr unsigned MAX_BEAT_BYTES = 64;

struct Options {
    uint32_t latency;      // cycles from an address, or the last data of a write, to the response; at least 1
    uint32_t outstanding;  // bursts in flight per port and direction
    double bandwidth;      // beats per cycle of a port, both directions together; 0: no limit
    double stall;          // probability that a port delays a handshake by a cycle, drawn for each channel and cycle;
                           // without stalls every write burst is ADDRESS_FIRST
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

// When a write burst's address and data are accepted; a manager may make neither wait for the other.
enum class Order {
    ADDRESS_FIRST,  // data after the address
    ANY,            // each when it comes
    SHOWN_FIRST,    // the address when data are shown, which are taken after it
    BEGUN_FIRST,    // the address after the first beat
    DATA_FIRST,     // the address after the last beat
};

// A beat of write data.
struct Beat {
    bool valid = false, last = false;
    uint64_t strobe = 0;
    std::array<uint8_t, MAX_BEAT_BYTES> data{};

    bool operator==(const Beat& other) const;
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
    Random random_, orders_;
    double tokens_ = 0;
    Bursts reads_, writes_, free_;
    Burst* current_ = nullptr;
    std::vector<uint8_t> beat_;
    Address held_read_{}, held_write_{};
    Beat held_data_;
    uint64_t cycle_ = 0;
    Order order_ = Order::ADDRESS_FIRST;  // of the burst whose address is accepted next
    std::vector<Beat> early_;             // beats of that burst

    std::unique_ptr<Burst> accept(const Address& address, uint64_t cycle);
    void release(Bursts& from, Burst* burst);
    template <class Payload> void check(const char* channel, const Payload& now, Payload& held, bool ready);
    void violate(const std::string& what);
    bool affordable() const;
    void step_read(const Shown& shown, uint64_t cycle);
    void show_read(uint64_t cycle);
    void step_write(const Shown& shown, uint64_t cycle);
    void take_address(const Shown& shown);
    void take_data(const Beat& beat);
    void append(const Beat& beat);
    bool takes_address(bool data_shown) const;
    bool takes_early_data() const;
    void draw_order();
    bool wants_data() const;
    void show_response(uint64_t cycle);
    Burst* readable(uint64_t cycle);
};

}  // namespace etalstm
