// The rules of AXI, checked cycle by cycle on a port: the only definition of them.
//
// The in-process simulator has a checker at every port; the cocotb benches have the same one through protocol.cpp's C
// interface. A checker only looks: it sees what the manager and the subordinate show in a cycle and keeps the first
// breach. A port of AXI3, AXI4 or AXI4-Lite differs by its `Rules` only; write data have no ids of their own (WID).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace etalstm {

constexpr unsigned MAX_BEAT_BYTES = 64;
constexpr uint32_t INCREMENTING = 1;  // AxBURST

// Every rule. The names are in `NAMES_OF_RULES`.
enum class Rule {
    HELD,         // VALID stays until READY comes
    STABLE,       // what is shown with VALID does not change until READY comes
    RESET,        // no VALID in reset, but for its first cycle, and in the cycle after it
    LENGTH,       // a burst has at most the port's number of beats
    BURST,        // a burst increments its address
    SIZE,         // a beat is not wider than the port; as wide, if promised
    ALIGNED,      // a burst begins at a multiple of a beat, if promised
    BOUNDARY,     // a burst stays between two multiples of 4 KiB
    ID,           // a request's id is one that the port has; a response's is that of a request
    OUTSTANDING,  // not more bursts in flight than promised
    LAST,         // LAST is with a burst's last beat, and only with that one
    STROBE,       // strobes are set for bytes of the beat only; for all or none of the port's, if promised
    ORDER,        // write data are not shown before their address, if promised
    UNASKED,      // no response without a request: its address, and for a write all its data, were accepted before
    RESPONSE,     // a response is OKAY, SLVERR or DECERR: nobody asks for exclusive accesses
};
constexpr const char* NAMES_OF_RULES[] = {
    "held", "stable", "reset", "length", "burst", "size", "aligned", "boundary",
    "id", "outstanding", "last", "strobe", "order", "unasked", "response"};

// What a manager promises beyond the standard; `Rules::promises` is a sum of these.
enum Promise : uint32_t { WHOLE_BEATS = 1, ALIGNED_BURSTS = 2, WHOLE_STROBES = 4, ADDRESS_FIRST = 8 };

struct Rules {
    uint32_t beat_bytes;     // width of the port
    uint32_t burst_beats;    // 16 in AXI3, 256 in AXI4, 1 in AXI4-Lite
    uint32_t ids;            // ids are below this
    uint32_t reads, writes;  // most bursts in flight; 0: nothing is promised
    uint32_t promises;
};

// The first breach of the protocol in a simulation, whatever the port.
struct Breach {
    uint64_t cycle = 0;
    std::string port, channel, rule, what;

    bool found() const { return !rule.empty(); }
    std::string fields() const;  // cycle, port, channel, rule, what: with tabs between them; empty if there is none
};

struct Address {
    bool valid;
    uint64_t address;
    uint32_t length, size, burst, id;
};

// What a manager shows in a cycle. `data` points to `beat_bytes` bytes.
struct Shown {
    Address read, write;
    bool rready, wvalid, wlast, bready;
    uint64_t strobe;
    const uint8_t* data;
};

// What a subordinate shows in a cycle.
struct Driven {
    bool arready, rvalid, rlast, awready, wready, bvalid;
    uint32_t rid, bid;
    uint8_t rresp, bresp;
    const uint8_t* data;
};

class Checker {
public:
    Checker(Breach& breach, std::string port, const Rules& rules);

    // Look at a cycle. `reset`: the port is in reset, and takes nothing.
    void step(const Shown& shown, const Driven& driven, bool reset, uint64_t cycle);

private:
    // What W, R or B show beside VALID; a channel leaves out what it does not have.
    struct Beat {
        const uint8_t* data;
        uint64_t strobe;
        uint32_t id;
        uint8_t response;
        bool last;
    };
    // A payload that was shown and not taken, if `waits`.
    struct WaitingAddress {
        bool waits = false;
        Address payload{};
        const char* change(const Address& now, unsigned beat_bytes) const;
        void keep(const Address& now, unsigned) { payload = now; }
    };
    struct WaitingBeat {
        bool waits = false;
        Beat payload{};
        std::array<uint8_t, MAX_BEAT_BYTES> data{};
        const char* change(const Beat& now, unsigned beat_bytes) const;
        void keep(const Beat& now, unsigned beat_bytes);
    };
    struct Read {
        uint32_t id, beats_left;
    };
    struct Write {
        Address address;
        uint32_t beats, done;
    };
    // Write data that came before their address.
    struct Early {
        std::vector<uint64_t> strobes;
        bool closed = false;
    };

    Breach& breach_;
    std::string port_;
    Rules rules_;
    uint64_t cycle_ = 0, all_strobes_;
    bool was_reset_ = false;
    WaitingAddress read_, write_;
    WaitingBeat data_, answer_, response_;
    std::vector<Read> reads_;    // in flight, in the order of their addresses
    std::vector<Write> writes_;  // likewise; the first `filled_` have all their data
    size_t filled_ = 0;
    std::vector<Early> early_;

    void broke(const char* channel, Rule rule, const std::string& what);
    void forget();
    void check_reset(const Shown& shown, const Driven& driven);
    void check_answer(const Driven& driven, bool taken);
    void check_response(const Driven& driven, bool taken);
    void check_code(const char* channel, uint8_t response);
    void check_address(const char* channel, const Address& address);
    void check_order(const Shown& shown);
    void take_read(const Address& address);
    void take_write(const Address& address);
    void take_data(const Shown& shown);
    void fill(Write& write, uint64_t strobe, bool last);
    uint64_t lanes(const Write& write) const;
    template <class Waiting, class Payload>
    void watch(Waiting& waiting, const char* channel, const Payload& now, bool valid, bool ready);
};

}  // namespace etalstm
