#include "memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace etalstm {

namespace {
constexpr unsigned MAX_BEATS = 16;  // AXI3's limit, which HBM controllers keep
constexpr unsigned PAGE_BYTES = 4096;
constexpr double MAX_TOKENS = 4.0;
constexpr uint32_t INCREMENTING = 1;
constexpr char WRONG_LAST[] = "WLAST on the wrong beat of a burst";
constexpr uint64_t ORDER_STREAMS = 1 << 16;  // numbers of the random streams that draw orders: beyond any port's own
constexpr Order ORDERS[] = {
    Order::ADDRESS_FIRST, Order::ANY, Order::SHOWN_FIRST, Order::BEGUN_FIRST, Order::DATA_FIRST};

Beat beat_of(const Shown& shown, unsigned beat_bytes) {
    Beat beat;
    if (!shown.wvalid) return beat;
    beat.valid = true;
    beat.last = shown.wlast;
    beat.strobe = shown.strobe;
    std::memcpy(beat.data.data(), shown.data, beat_bytes);
    return beat;
}
}  // namespace

Random::Random(uint64_t seed, uint64_t stream, double probability)
    : state_(seed * 0x9e3779b97f4a7c15u + (stream + 1) * 0xbf58476d1ce4e5b9u),
      threshold_(static_cast<uint64_t>(std::min(std::max(probability, 0.0), 1.0) * 4294967296.0)) {
    for (int n = 0; n < 4; ++n) next();
}

uint64_t Random::next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

Response Memory::response(uint64_t address) const {
    for (const Fault& fault : faults)
        if (address < fault.end && address + beat_bytes > fault.begin) return fault.response;
    return address < size && size - address >= beat_bytes ? Response::OKAY : Response::DECODE_ERROR;
}

bool Address::operator==(const Address& other) const {
    return valid == other.valid && address == other.address && length == other.length && size == other.size &&
           burst == other.burst && id == other.id;
}

bool Beat::operator==(const Beat& other) const {
    return valid == other.valid && last == other.last && strobe == other.strobe && data == other.data;
}

Port::Port(Memory& memory, unsigned number)
    : memory_(memory), number_(number), random_(memory.options.seed, number, memory.options.stall),
      orders_(memory.options.seed, ORDER_STREAMS + number, memory.options.stall), beat_(memory.beat_bytes) {
    driven.data = beat_.data();
    draw_order();
}

void Port::reset() {
    for (Bursts* bursts : {&reads_, &writes_}) {
        for (auto& burst : *bursts) free_.push_back(std::move(burst));
        bursts->clear();
    }
    current_ = nullptr;
    held_read_ = held_write_ = Address{};
    held_data_ = Beat{};
    early_.clear();
    driven = Driven{};
    driven.data = beat_.data();
}

void Port::violate(const std::string& what) {
    if (!memory_.violation.empty()) return;
    memory_.violation = "in cycle " + std::to_string(cycle_) + ": port" + std::to_string(number_) + ": " + what;
}

bool Port::affordable() const { return memory_.options.bandwidth <= 0 || tokens_ >= 1; }

// What was shown and not taken must not change or vanish.
template <class Payload>
void Port::check(const char* channel, const Payload& now, Payload& held, bool ready) {
    if (held.valid && !now.valid) violate(std::string(channel) + " vanished before it was accepted");
    if (held.valid && now.valid && !(now == held)) violate(std::string(channel) + " changed before it was accepted");
    if (now.valid) held = now;
    held.valid = now.valid && !ready;
}

std::unique_ptr<Port::Burst> Port::accept(const Address& address, uint64_t cycle) {
    std::unique_ptr<Burst> burst;
    if (free_.empty()) {
        burst = std::make_unique<Burst>();
        burst->data.resize(MAX_BEATS * memory_.beat_bytes);
        burst->strobes.resize(MAX_BEATS);
        burst->responses.resize(MAX_BEATS);
    } else {
        burst = std::move(free_.back());
        free_.pop_back();
    }
    const uint64_t bytes = (address.length + 1) * uint64_t(memory_.beat_bytes);
    const std::string where = " at address " + std::to_string(address.address);
    if (address.length >= MAX_BEATS) violate("a burst of " + std::to_string(address.length + 1) + " beats" + where);
    if (1u << address.size != memory_.beat_bytes) violate("a burst of another beat size than the port's" + where);
    if (address.burst != INCREMENTING) violate("a burst that does not increment" + where);
    if (address.address % memory_.beat_bytes) violate("a burst that is not aligned to its beats" + where);
    if (address.address % PAGE_BYTES + bytes > PAGE_BYTES) violate("a burst across a 4 KiB border" + where);
    burst->address = address.address;
    burst->ready_cycle = cycle + memory_.options.latency;
    burst->id = address.id;
    burst->beats = std::min(address.length + 1, MAX_BEATS);
    burst->done = 0;
    burst->worst = Response::OKAY;
    for (unsigned n = 0; n < burst->beats; ++n) {
        burst->responses[n] = memory_.response(address.address + n * uint64_t(memory_.beat_bytes));
        burst->worst = std::max(burst->worst, burst->responses[n]);
    }
    return burst;
}

void Port::release(Bursts& from, Burst* burst) {
    auto entry = std::find_if(from.begin(), from.end(), [&](const auto& each) { return each.get() == burst; });
    free_.push_back(std::move(*entry));
    from.erase(entry);
}

void Port::step(const Shown& shown, uint64_t cycle) {
    if (memory_.options.bandwidth > 0) tokens_ = std::min(tokens_ + memory_.options.bandwidth, MAX_TOKENS);
    cycle_ = cycle;
    step_read(shown, cycle);
    step_write(shown, cycle);
}

void Port::step_read(const Shown& shown, uint64_t cycle) {
    check("AR, a read address,", shown.read, held_read_, driven.arready);
    if (driven.rvalid && shown.rready) {
        driven.rvalid = false;
        ++read_beats;
        if (++current_->done == current_->beats) {
            release(reads_, current_);
            current_ = nullptr;
        }
    }
    if (driven.arready && shown.read.valid) {
        reads_.push_back(accept(shown.read, cycle));
        Burst& burst = *reads_.back();
        for (unsigned n = 0; n < burst.beats; ++n) {
            uint8_t* to = &burst.data[n * memory_.beat_bytes];
            if (burst.responses[n] == Response::OKAY)
                std::memcpy(to, memory_.bytes + burst.address + n * uint64_t(memory_.beat_bytes), memory_.beat_bytes);
            else
                std::memset(to, 0, memory_.beat_bytes);
        }
    }
    if (!driven.rvalid) show_read(cycle);
    driven.arready = reads_.size() < memory_.options.outstanding && !random_.happens();
}

// The burst to answer next: the oldest, or with `reorder` a random one among the oldest of each id.
Port::Burst* Port::readable(uint64_t cycle) {
    Burst* chosen = nullptr;
    unsigned candidates = 0;
    for (size_t n = 0; n < reads_.size(); ++n) {
        Burst* burst = reads_[n].get();
        const bool ready = burst->ready_cycle <= cycle + 1 && burst->worst != Response::NEVER;
        if (!memory_.options.reorder) return ready ? burst : nullptr;
        const bool oldest = std::none_of(
            reads_.begin(), reads_.begin() + n, [&](const auto& before) { return before->id == burst->id; });
        if (ready && oldest && random_.next() % ++candidates == 0) chosen = burst;
    }
    return chosen;
}

void Port::show_read(uint64_t cycle) {
    if (!current_) current_ = readable(cycle);
    if (!current_ || random_.happens() || !affordable()) return;
    tokens_ -= 1;
    const unsigned n = current_->done;
    driven.rvalid = true;
    driven.rlast = n + 1 == current_->beats;
    driven.rid = current_->id;
    driven.rresp = static_cast<uint8_t>(current_->responses[n]);
    std::memcpy(beat_.data(), &current_->data[n * memory_.beat_bytes], memory_.beat_bytes);
}

void Port::step_write(const Shown& shown, uint64_t cycle) {
    const Beat beat = beat_of(shown, memory_.beat_bytes);
    check("AW, a write address,", shown.write, held_write_, driven.awready);
    check("W, write data,", beat, held_data_, driven.wready);
    if (driven.bvalid && shown.bready) {
        driven.bvalid = false;
        release(writes_, writes_.front().get());
    }
    if (driven.wready && shown.wvalid) take_data(beat);
    if (driven.awready && shown.write.valid) take_address(shown);
    if (!driven.bvalid) show_response(cycle);
    const bool untaken = shown.wvalid && !driven.wready;
    const bool wanted = wants_data();
    driven.wready = (wanted || takes_early_data()) && affordable() && !random_.happens();
    driven.awready = takes_address(untaken && !wanted) && !random_.happens();
}

// Whether a burst whose address was accepted lacks data.
bool Port::wants_data() const { return !writes_.empty() && writes_.back()->done < writes_.back()->beats; }

void Port::draw_order() {
    if (memory_.options.stall > 0) order_ = ORDERS[orders_.next() % std::size(ORDERS)];
}

// Whether the next address may be accepted; `data_shown`: its first beat is shown.
bool Port::takes_address(bool data_shown) const {
    if (writes_.size() >= memory_.options.outstanding) return false;
    switch (order_) {
        case Order::SHOWN_FIRST: return data_shown;
        case Order::BEGUN_FIRST: return !early_.empty();
        case Order::DATA_FIRST: return !early_.empty() && (early_.back().last || early_.size() == MAX_BEATS);
        default: return true;
    }
}

// Whether data may be accepted before their address: those of one burst.
bool Port::takes_early_data() const {
    if (order_ == Order::ADDRESS_FIRST || order_ == Order::SHOWN_FIRST) return false;
    return early_.empty() || (!early_.back().last && early_.size() < MAX_BEATS);
}

void Port::take_address(const Shown& shown) {
    writes_.push_back(accept(shown.write, cycle_));
    for (const Beat& beat : early_) append(beat);
    early_.clear();
    draw_order();
}

void Port::take_data(const Beat& beat) {
    ++write_beats;
    tokens_ -= 1;
    if (wants_data())
        append(beat);
    else
        early_.push_back(beat);
}

// Gives a beat to the oldest burst that lacks data. A burst whose early data are too many has none left to give it to.
void Port::append(const Beat& beat) {
    auto entry = std::find_if(writes_.begin(), writes_.end(), [](const auto& b) { return b->done < b->beats; });
    if (entry == writes_.end()) return violate(WRONG_LAST);
    Burst& burst = **entry;
    std::memcpy(&burst.data[burst.done * memory_.beat_bytes], beat.data.data(), memory_.beat_bytes);
    burst.strobes[burst.done] = beat.strobe;
    if (beat.last != (++burst.done == burst.beats)) violate(WRONG_LAST);
    burst.ready_cycle = cycle_ + memory_.options.latency;
}

void Port::show_response(uint64_t cycle) {
    if (writes_.empty()) return;
    Burst& burst = *writes_.front();
    if (burst.done < burst.beats || burst.ready_cycle > cycle + 1 || burst.worst == Response::NEVER) return;
    if (random_.happens()) return;
    for (unsigned n = 0; n < burst.beats; ++n) {
        if (burst.responses[n] != Response::OKAY) continue;
        uint8_t* to = memory_.bytes + burst.address + n * uint64_t(memory_.beat_bytes);
        const uint8_t* from = &burst.data[n * memory_.beat_bytes];
        for (unsigned byte = 0; byte < memory_.beat_bytes; ++byte)
            if (burst.strobes[n] >> byte & 1) to[byte] = from[byte];
    }
    driven.bvalid = true;
    driven.bid = burst.id;
    driven.bresp = static_cast<uint8_t>(burst.worst);
}

}  // namespace etalstm
