#include "protocol.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace etalstm {

namespace {
constexpr unsigned PAGE_BYTES = 4096;
constexpr uint8_t EXCLUSIVE_OKAY = 1;

std::string number(uint64_t value) { return std::to_string(value); }

std::string hexadecimal(uint64_t value) {
    constexpr char DIGITS[] = "0123456789abcdef";
    std::string text;
    do {
        text.insert(text.begin(), DIGITS[value & 15]);
    } while (value >>= 4);
    return "0x" + text;
}

}  // namespace

std::string Breach::fields() const {
    if (!found()) return "";
    return number(cycle) + "\t" + port + "\t" + channel + "\t" + rule + "\t" + what;
}

const char* Checker::WaitingAddress::change(const Address& now, unsigned) const {
    if (now.address != payload.address) return "ADDR";
    if (now.length != payload.length) return "LEN";
    if (now.size != payload.size) return "SIZE";
    if (now.burst != payload.burst) return "BURST";
    return now.id != payload.id ? "ID" : nullptr;
}

const char* Checker::WaitingBeat::change(const Beat& now, unsigned beat_bytes) const {
    if (now.data && std::memcmp(now.data, data.data(), beat_bytes)) return "DATA";
    if (now.strobe != payload.strobe) return "STRB";
    if (now.last != payload.last) return "LAST";
    if (now.id != payload.id) return "ID";
    return now.response != payload.response ? "RESP" : nullptr;
}

void Checker::WaitingBeat::keep(const Beat& now, unsigned beat_bytes) {
    payload = now;
    if (now.data) std::memcpy(data.data(), now.data, beat_bytes);
}

Checker::Checker(Breach& breach, std::string port, const Rules& rules)
    : breach_(breach), port_(std::move(port)), rules_(rules),
      all_strobes_(rules.beat_bytes < 64 ? (1ull << rules.beat_bytes) - 1 : ~0ull) {}

void Checker::broke(const char* channel, Rule rule, const std::string& what) {
    if (breach_.found()) return;
    breach_ = {cycle_, port_, channel, NAMES_OF_RULES[static_cast<int>(rule)], what};
}

void Checker::forget() {
    read_.waits = write_.waits = data_.waits = answer_.waits = response_.waits = false;
    reads_.clear();
    writes_.clear();
    early_.clear();
    filled_ = 0;
}

// Responses come first: they may only answer what was accepted in earlier cycles.
void Checker::step(const Shown& shown, const Driven& driven, bool reset, uint64_t cycle) {
    cycle_ = cycle;
    if (was_reset_) check_reset(shown, driven);
    was_reset_ = reset;
    if (reset) return forget();
    watch(read_, "AR", shown.read, shown.read.valid, driven.arready);
    watch(write_, "AW", shown.write, shown.write.valid, driven.awready);
    watch(data_, "W", Beat{shown.data, shown.strobe, 0, 0, shown.wlast}, shown.wvalid, driven.wready);
    watch(answer_, "R", Beat{driven.data, 0, driven.rid, driven.rresp, driven.rlast}, driven.rvalid, shown.rready);
    watch(response_, "B", Beat{nullptr, 0, driven.bid, driven.bresp, false}, driven.bvalid, shown.bready);
    if (driven.rvalid) check_answer(driven, shown.rready);
    if (driven.bvalid) check_response(driven, shown.bready);
    if (shown.read.valid && driven.arready) take_read(shown.read);
    if (shown.wvalid) check_order(shown);
    if (shown.write.valid && driven.awready) take_write(shown.write);
    if (shown.wvalid && driven.wready) take_data(shown);
}

void Checker::check_reset(const Shown& shown, const Driven& driven) {
    const std::pair<const char*, bool> channels[] = {
        {"AR", shown.read.valid}, {"AW", shown.write.valid}, {"W", shown.wvalid},
        {"R", driven.rvalid}, {"B", driven.bvalid}};
    for (const auto& [channel, valid] : channels)
        if (valid) broke(channel, Rule::RESET, std::string(channel) + "VALID in reset or in the cycle after it");
}

template <class Waiting, class Payload>
void Checker::watch(Waiting& waiting, const char* channel, const Payload& now, bool valid, bool ready) {
    const bool waits = valid && !ready;
    if (waiting.waits) {
        const std::string name(channel);
        const char* changed = valid ? waiting.change(now, rules_.beat_bytes) : nullptr;
        if (!valid) broke(channel, Rule::HELD, name + "VALID fell before " + name + "READY came");
        if (changed) broke(channel, Rule::STABLE, name + changed + " changed before " + name + "READY came");
    } else if (waits) {
        waiting.keep(now, rules_.beat_bytes);
    }
    waiting.waits = waits;
}

void Checker::check_code(const char* channel, uint8_t response) {
    if (response == EXCLUSIVE_OKAY) broke(channel, Rule::RESPONSE, "EXOKAY, and nobody asks for exclusive accesses");
}

// A beat of read data belongs to the oldest read with its id.
void Checker::check_answer(const Driven& driven, bool taken) {
    check_code("R", driven.rresp);
    if (reads_.empty()) return broke("R", Rule::UNASKED, "read data without a read");
    auto read = std::find_if(reads_.begin(), reads_.end(), [&](const Read& each) { return each.id == driven.rid; });
    if (read == reads_.end()) return broke("R", Rule::ID, "no read has the id " + number(driven.rid));
    if (driven.rlast != (read->beats_left == 1)) {
        const std::string left = number(read->beats_left - 1);
        broke("R", Rule::LAST, "RLAST is " + number(driven.rlast) + ", and " + left + " beats are still to come");
    }
    if (taken && --read->beats_left == 0) reads_.erase(read);
}

// A response belongs to the oldest write with its id.
void Checker::check_response(const Driven& driven, bool taken) {
    check_code("B", driven.bresp);
    if (writes_.empty()) return broke("B", Rule::UNASKED, "a response without a write");
    auto write = std::find_if(
        writes_.begin(), writes_.end(), [&](const Write& each) { return each.address.id == driven.bid; });
    if (write == writes_.end()) return broke("B", Rule::ID, "no write has the id " + number(driven.bid));
    if (write->done < write->beats) return broke("B", Rule::UNASKED, "a response before the write's last data");
    if (!taken) return;
    writes_.erase(write);
    --filled_;
}

void Checker::check_address(const char* channel, const Address& address) {
    const unsigned bytes = 1u << (address.size & 7), beats = address.length + 1;
    const uint64_t begin = address.address / bytes * bytes, total = uint64_t(bytes) * beats;
    const auto at = [&] { return " at address " + hexadecimal(address.address); };
    if (beats > rules_.burst_beats) broke(channel, Rule::LENGTH, "a burst of " + number(beats) + " beats" + at());
    if (address.burst != INCREMENTING) broke(channel, Rule::BURST, "a burst of type " + number(address.burst) + at());
    if (bytes > rules_.beat_bytes || (rules_.promises & WHOLE_BEATS && bytes != rules_.beat_bytes))
        broke(channel, Rule::SIZE, "a beat of " + number(bytes) + " bytes" + at());
    if (rules_.promises & ALIGNED_BURSTS && address.address != begin)
        broke(channel, Rule::ALIGNED, "a burst that is not aligned to its beats" + at());
    if (begin % PAGE_BYTES + total > PAGE_BYTES)
        broke(channel, Rule::BOUNDARY, "a burst across a 4 KiB boundary" + at());
    if (address.id >= rules_.ids) broke(channel, Rule::ID, "id " + number(address.id) + at());
}

void Checker::take_read(const Address& address) {
    check_address("AR", address);
    reads_.push_back({address.id, address.length + 1});
    if (rules_.reads && reads_.size() > rules_.reads)
        broke("AR", Rule::OUTSTANDING, number(reads_.size()) + " reads in flight");
}

void Checker::take_write(const Address& address) {
    check_address("AW", address);
    writes_.push_back({address, address.length + 1, 0});
    if (rules_.writes && writes_.size() > rules_.writes)
        broke("AW", Rule::OUTSTANDING, number(writes_.size()) + " writes in flight");
    if (early_.empty()) return;
    const Early early = std::move(early_.front());
    early_.erase(early_.begin());
    for (size_t n = 0; n < early.strobes.size(); ++n)
        fill(writes_.back(), early.strobes[n], early.closed && n + 1 == early.strobes.size());
}

// Data may be shown with their address, or after it; `next_but_one`: the address shown belongs to earlier data.
void Checker::check_order(const Shown& shown) {
    if (!(rules_.promises & ADDRESS_FIRST) || filled_ < writes_.size()) return;
    const bool next_but_one = !early_.empty() && early_.front().closed;
    if (!shown.write.valid || next_but_one) broke("W", Rule::ORDER, "write data before their address");
}

void Checker::take_data(const Shown& shown) {
    if (filled_ < writes_.size()) return fill(writes_[filled_], shown.strobe, shown.wlast);
    if (early_.empty() || early_.back().closed) early_.emplace_back();
    Early& early = early_.back();
    early.strobes.push_back(shown.strobe);
    early.closed = shown.wlast;
    if (early.strobes.size() == rules_.burst_beats && !shown.wlast) {
        broke("W", Rule::LAST, "no WLAST in as many beats as a burst may have");
        early.closed = true;
    }
}

// Give a burst its next beat.
void Checker::fill(Write& write, uint64_t strobe, bool last) {
    const uint64_t set = strobe & all_strobes_, allowed = lanes(write);
    const bool whole = set == 0 || set == all_strobes_;
    if (set & ~allowed || (rules_.promises & WHOLE_STROBES && !whole))
        broke("W", Rule::STROBE, "strobes " + hexadecimal(set) + ", the beat's bytes are " + hexadecimal(allowed));
    const bool full = ++write.done >= write.beats;
    if (last != full) {
        const std::string beat = " with beat " + number(write.done) + " of " + number(write.beats);
        broke("W", Rule::LAST, "WLAST is " + number(last) + beat);
    }
    if (write.done == write.beats) ++filled_;
}

// The bytes of the port that a write's next beat has.
uint64_t Checker::lanes(const Write& write) const {
    const unsigned bytes = 1u << (write.address.size & 7);
    if (bytes >= rules_.beat_bytes && write.address.address % rules_.beat_bytes == 0) return all_strobes_;
    const uint64_t begin = write.address.address / bytes * bytes + uint64_t(write.done) * bytes;
    const uint64_t first = write.done ? begin : write.address.address;
    const unsigned low = first % rules_.beat_bytes, high = begin % rules_.beat_bytes + bytes;
    return all_strobes_ & (~0ull << low) & (high < 64 ? (1ull << high) - 1 : ~0ull);
}

}  // namespace etalstm

// The checker of one port for ctypes.
using namespace etalstm;

namespace {
struct Watched {
    Breach breach;
    Checker checker;
    std::string text;

    Watched(const char* port, const Rules& rules) : checker(breach, port, rules) {}
};
}  // namespace

extern "C" {

Watched* checker_create(const char* port, const Rules* rules) { return new Watched(port, *rules); }

void checker_destroy(Watched* watched) { delete watched; }

// Gives the first breach as `Breach::fields`; empty while there is none.
const char* checker_step(Watched* watched, const Shown* shown, const Driven* driven, int reset, uint64_t cycle) {
    watched->checker.step(*shown, *driven, reset, cycle);
    watched->text = watched->breach.fields();
    return watched->text.c_str();
}

unsigned rules_count() { return std::size(NAMES_OF_RULES); }

const char* rules_name(unsigned rule) { return NAMES_OF_RULES[rule]; }
}
