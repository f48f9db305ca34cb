// AXI memory for a Verilated manager: one byte array behind any number of ports.
//
// It is as unkind as the protocol allows, so that what works here works on a board. Reads see the memory at the moment
// their address is accepted. Writes reach it only with their response. With `reorder`, bursts of different ids overtake
// each other, and read data of different ids are interleaved. With stalls, all of this is drawn by the seed:
//   - each channel has a pace of its own: steady, without any stall, READY only after VALID, or shut for a long time,
//   - each burst has a delay of its own before its response,
//   - each write burst has its address and data accepted in one of the orders of `Order`.
// A checker at each port keeps the first breach of the protocol, the manager's or the memory's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol.h"

namespace etalstm {

struct Options {
    uint32_t latency;      // cycles from an address, or the last data of a write, to the response; at least 1
    uint32_t outstanding;  // bursts in flight per port and direction
    double bandwidth;      // beats per cycle of a port, both directions together; 0: no limit
    double stall;          // probability that a steady channel delays a handshake by a cycle, drawn for each cycle;
                           // without stalls every write burst is ADDRESS_FIRST and no burst has a delay
    uint64_t seed;
    uint32_t reorder;        // answer bursts of different ids in random order, reads beat by beat
    uint32_t reads, writes;  // most bursts of a port in flight that the manager promises; 0: it promises nothing
    uint32_t checked;        // whether the checkers look: not while answers go wrong on purpose
    uint32_t strobes;        // write the bytes that have a strobe; 0: whole beats, as memory does whose mask pins
                             // carry check bits
};

enum class Response : uint8_t { OKAY = 0, SUBORDINATE_ERROR = 2, DECODE_ERROR = 3, NEVER = 4 };

struct Fault {
    uint64_t begin, end;
    Response response;
};

// What goes wrong once with an answer on its way to the manager. Options::checked must be 0 then.
enum class Glitch : uint32_t {
    NONE,
    LOST_DATA,        // a beat of read data does not come
    DOUBLED_DATA,     // a beat of read data comes twice
    TURNED_DATA,      // a bit of a beat of read data turns over
    LOST_RESPONSE,    // the response of a write does not come
    DOUBLED_RESPONSE  // the response of a write comes twice
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
    Breach breach{};  // the first one of any port

    Response response(uint64_t address) const;
};

// How one channel of a port holds back handshakes: in one mood for some cycles, then in another.
class Pace {
public:
    Pace(uint64_t seed, uint64_t stream, double stall);

    // Whether the channel holds back in the next cycle. `waiting`: the other side has shown VALID in this one.
    bool holds(bool waiting);

private:
    enum class Mood {
        STEADY,  // holds back by chance
        OPEN,    // never holds back: READY stands before VALID
        LATE,    // READY comes only after VALID
        SHUT,    // holds back throughout
    };

    Random random_;
    bool stalls_;
    Mood mood_ = Mood::STEADY;
    unsigned cycles_left_ = 0;
};

// When a write burst's address and data are accepted; a manager may make neither wait for the other.
enum class Order {
    ADDRESS_FIRST,  // data after the address, at once or long after it
    ANY,            // each when it comes
    SHOWN_FIRST,    // the address when data are shown, which are taken after it
    BEGUN_FIRST,    // the address after the first beat
    DATA_FIRST,     // the address after the last beat
};

// A beat of write data.
struct Beat {
    bool last = false;
    uint64_t strobe = 0;
    std::array<uint8_t, MAX_BEAT_BYTES> data{};
};

class Port {
public:
    // `ids`: the manager's are below this; `promises`: what it promises, a sum of `Promise`.
    Port(Memory& memory, unsigned number, uint32_t ids, uint32_t promises);

    Driven driven{};
    uint64_t read_beats = 0, write_beats = 0;

    // Check what is shown in `cycle`, take its handshakes, and decide what to show in the next one.
    void step(const Shown& shown, bool reset, uint64_t cycle);

    // Forget what is in flight and show nothing.
    void reset();

    // Let something go wrong with the `count`th answer of its kind from now on; `bit`: the one that turns over.
    void upset(Glitch glitch, uint64_t count, unsigned bit);

    // Tell whether that has happened since.
    bool was_upset() const { return upset_; }

private:
    struct Burst {
        uint64_t address, ready_cycle;
        uint32_t id;
        unsigned beats, done, delay;
        Response worst;
        std::vector<uint8_t> data;
        std::vector<uint64_t> strobes;
        std::vector<Response> responses;
    };
    using Bursts = std::vector<std::unique_ptr<Burst>>;

    Memory& memory_;
    Checker checker_;
    Random random_, orders_;
    Pace read_pace_, answer_pace_, write_pace_, data_pace_, response_pace_;
    double tokens_ = 0;
    Bursts reads_, writes_, free_;
    Burst *current_ = nullptr, *answered_ = nullptr;  // the read whose data are shown, the write whose response is
    std::vector<uint8_t> beat_;
    uint64_t cycle_ = 0, data_cycle_ = 0;  // no write data are accepted before the latter
    Order order_ = Order::ADDRESS_FIRST;  // of the burst whose address is accepted next
    std::vector<Beat> early_;             // data whose address was not accepted yet, of one burst or more
    Glitch glitch_ = Glitch::NONE;        // what is still to happen
    uint64_t answers_left_ = 0;           // until then
    unsigned glitch_bit_ = 0;
    bool upset_ = false, repeats_ = false;  // it has happened; what is shown will be shown again

    std::unique_ptr<Burst> accept(const Address& address);
    unsigned delay();
    void release(Bursts& from, Burst* burst);
    bool affordable() const;
    bool happens(Glitch glitch);
    void pass_beat();
    void step_read(const Shown& shown);
    void show_read();
    void step_write(const Shown& shown);
    void take_address(const Shown& shown);
    void take_data(const Shown& shown);
    void append(const Beat& beat);
    bool takes_address(bool data_shown) const;
    bool takes_early_data() const;
    void draw_order();
    bool wants_data() const;
    void show_response();
    Burst* answerable(const Bursts& bursts);
};

}  // namespace etalstm
