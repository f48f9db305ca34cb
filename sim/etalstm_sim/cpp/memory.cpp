#include "memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace etalstm {

namespace {
constexpr unsigned MAX_BEATS = 16;  // AXI3's limit, which HBM controllers keep
constexpr unsigned EARLY_BURSTS = 4;
constexpr double MAX_TOKENS = 4.0;
constexpr Order ORDERS[] = {
    Order::ADDRESS_FIRST, Order::ANY, Order::SHOWN_FIRST, Order::BEGUN_FIRST, Order::DATA_FIRST};

// Every user of random numbers at a port has a stream of its own.
enum Stream : uint64_t { ANSWERS, BURST_ORDERS, AR_PACE, R_PACE, AW_PACE, W_PACE, B_PACE, STREAMS };

uint64_t stream(unsigned port, Stream user) { return (port + 1) * uint64_t(STREAMS) + user; }

// One delay in so many is long, and one mood.
constexpr unsigned DELAYS_PER_LONG = 16, MOODS_PER_SHUT = 16;
constexpr unsigned SHORT_DELAY = 8, LONG_DELAY = 512, MOOD_CYCLES = 64;
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

Pace::Pace(uint64_t seed, uint64_t stream, double stall) : random_(seed, stream, stall), stalls_(stall > 0) {}

bool Pace::holds(bool waiting) {
    if (!stalls_) return false;
    if (cycles_left_ == 0) {
        const unsigned drawn = random_.next() % MOODS_PER_SHUT;
        mood_ = drawn == 0 ? Mood::SHUT : drawn < 4 ? Mood::OPEN : drawn < 8 ? Mood::LATE : Mood::STEADY;
        cycles_left_ = 1 + random_.next() % MOOD_CYCLES;
    }
    --cycles_left_;
    switch (mood_) {
        case Mood::OPEN: return false;
        case Mood::LATE: return !waiting;
        case Mood::SHUT: return true;
        default: return random_.happens();
    }
}

Response Memory::response(uint64_t address) const {
    for (const Fault& fault : faults)
        if (address < fault.end && address + beat_bytes > fault.begin) return fault.response;
    return address < size && size - address >= beat_bytes ? Response::OKAY : Response::DECODE_ERROR;
}

Port::Port(Memory& memory, unsigned number, uint32_t ids, uint32_t promises)
    : memory_(memory),
      checker_(memory.breach, "port" + std::to_string(number),
               {memory.beat_bytes, MAX_BEATS, ids, memory.options.reads, memory.options.writes, promises}),
      random_(memory.options.seed, stream(number, ANSWERS), 0.5),
      orders_(memory.options.seed, stream(number, BURST_ORDERS), 0),
      read_pace_(memory.options.seed, stream(number, AR_PACE), memory.options.stall),
      answer_pace_(memory.options.seed, stream(number, R_PACE), memory.options.stall),
      write_pace_(memory.options.seed, stream(number, AW_PACE), memory.options.stall),
      data_pace_(memory.options.seed, stream(number, W_PACE), memory.options.stall),
      response_pace_(memory.options.seed, stream(number, B_PACE), memory.options.stall), beat_(memory.beat_bytes) {
    driven.data = beat_.data();
    draw_order();
}

void Port::reset() {
    for (Bursts* bursts : {&reads_, &writes_}) {
        for (auto& burst : *bursts) free_.push_back(std::move(burst));
        bursts->clear();
    }
    current_ = answered_ = nullptr;
    early_.clear();
    data_cycle_ = 0;
    repeats_ = false;
    driven = Driven{};
    driven.data = beat_.data();
}

void Port::upset(Glitch glitch, uint64_t count, unsigned bit) {
    glitch_ = glitch, answers_left_ = count, glitch_bit_ = bit, upset_ = false;
}

// Count an answer of the kind that a glitch is for; tell whether it is the one.
bool Port::happens(Glitch glitch) {
    if (glitch_ != glitch || --answers_left_ > 0) return false;
    glitch_ = Glitch::NONE;
    return upset_ = true;
}

bool Port::affordable() const { return memory_.options.bandwidth <= 0 || tokens_ >= 1; }

// Cycles by which a burst's response is later than the memory's latency, or its data later than its address.
unsigned Port::delay() {
    if (memory_.options.stall <= 0) return 0;
    const unsigned most = random_.next() % DELAYS_PER_LONG == 0 ? LONG_DELAY : SHORT_DELAY;
    return random_.next() % most;
}

std::unique_ptr<Port::Burst> Port::accept(const Address& address) {
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
    burst->address = address.address;
    burst->delay = memory_.options.latency + delay();
    burst->ready_cycle = cycle_ + burst->delay;
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

void Port::step(const Shown& shown, bool reset, uint64_t cycle) {
    if (memory_.options.checked) checker_.step(shown, driven, reset, cycle);
    if (reset) return;
    if (memory_.options.bandwidth > 0) tokens_ = std::min(tokens_ + memory_.options.bandwidth, MAX_TOKENS);
    cycle_ = cycle;
    step_read(shown);
    step_write(shown);
}

void Port::step_read(const Shown& shown) {
    if (driven.rvalid && shown.rready) {
        driven.rvalid = false;
        ++read_beats;
        if (!repeats_) pass_beat();
        repeats_ = false;
    }
    if (driven.arready && shown.read.valid) {
        reads_.push_back(accept(shown.read));
        Burst& burst = *reads_.back();
        for (unsigned n = 0; n < burst.beats; ++n) {
            uint8_t* to = &burst.data[n * memory_.beat_bytes];
            if (burst.responses[n] == Response::OKAY)
                std::memcpy(to, memory_.bytes + burst.address + n * uint64_t(memory_.beat_bytes), memory_.beat_bytes);
            else
                std::memset(to, 0, memory_.beat_bytes);
        }
    }
    if (!driven.rvalid) show_read();
    const bool waiting = shown.read.valid && !driven.arready;
    driven.arready = reads_.size() < memory_.options.outstanding && !read_pace_.holds(waiting);
}

// The burst to answer next: the oldest, or with `reorder` a random one among the oldest of each id.
Port::Burst* Port::answerable(const Bursts& bursts) {
    Burst* chosen = nullptr;
    unsigned candidates = 0;
    for (size_t n = 0; n < bursts.size(); ++n) {
        Burst* burst = bursts[n].get();
        const bool ready = burst->ready_cycle <= cycle_ + 1 && burst->worst != Response::NEVER;
        if (!memory_.options.reorder) return ready ? burst : nullptr;
        const bool oldest = std::none_of(
            bursts.begin(), bursts.begin() + n, [&](const auto& before) { return before->id == burst->id; });
        if (ready && oldest && random_.next() % ++candidates == 0) chosen = burst;
    }
    return chosen;
}

// Go on to the next beat of read data.
void Port::pass_beat() {
    const bool ended = ++current_->done == current_->beats;
    if (ended) release(reads_, current_);
    if (ended || memory_.options.reorder) current_ = nullptr;
}

void Port::show_read() {
    if (!current_) current_ = answerable(reads_);
    if (!current_ || answer_pace_.holds(true) || !affordable()) return;
    tokens_ -= 1;
    if (happens(Glitch::LOST_DATA)) return pass_beat();
    const unsigned n = current_->done;
    driven.rvalid = true;
    driven.rlast = n + 1 == current_->beats;
    driven.rid = current_->id;
    driven.rresp = static_cast<uint8_t>(current_->responses[n]);
    std::memcpy(beat_.data(), &current_->data[n * memory_.beat_bytes], memory_.beat_bytes);
    repeats_ = happens(Glitch::DOUBLED_DATA);
    if (happens(Glitch::TURNED_DATA)) beat_[glitch_bit_ / 8 % memory_.beat_bytes] ^= 1 << glitch_bit_ % 8;
}

void Port::step_write(const Shown& shown) {
    if (driven.bvalid && shown.bready) {
        driven.bvalid = false;
        if (!happens(Glitch::DOUBLED_RESPONSE)) release(writes_, answered_);
    }
    if (driven.wready && shown.wvalid) take_data(shown);
    if (driven.awready && shown.write.valid) take_address(shown);
    if (!driven.bvalid) show_response();
    const bool data_waiting = shown.wvalid && !driven.wready, waiting = shown.write.valid && !driven.awready;
    const bool wanted = wants_data();
    const bool takes_data = cycle_ >= data_cycle_ && (wanted || takes_early_data());
    driven.wready = takes_data && affordable() && !data_pace_.holds(data_waiting);
    driven.awready = takes_address(data_waiting && !wanted) && !write_pace_.holds(waiting);
}

// Whether a burst whose address was accepted lacks data.
bool Port::wants_data() const { return !writes_.empty() && writes_.back()->done < writes_.back()->beats; }

void Port::draw_order() {
    if (memory_.options.stall > 0) order_ = ORDERS[orders_.next() % std::size(ORDERS)];
}

// Whether the next address may be accepted; `data_shown`: its first beat is shown.
bool Port::takes_address(bool data_shown) const {
    if (writes_.size() >= memory_.options.outstanding) return false;
    if (!early_.empty() && order_ == Order::SHOWN_FIRST) return true;
    switch (order_) {
        case Order::SHOWN_FIRST: return data_shown;
        case Order::BEGUN_FIRST: return !early_.empty();
        case Order::DATA_FIRST:
            return early_.size() >= MAX_BEATS ||
                   std::any_of(early_.begin(), early_.end(), [](const Beat& beat) { return beat.last; });
        default: return true;
    }
}

// Whether data may be accepted before their address: those of a burst that has begun, or of another one.
bool Port::takes_early_data() const {
    if (!early_.empty() && !early_.back().last) return early_.size() < EARLY_BURSTS * MAX_BEATS;
    if (order_ == Order::ADDRESS_FIRST || order_ == Order::SHOWN_FIRST) return false;
    return std::count_if(early_.begin(), early_.end(), [](const Beat& beat) { return beat.last; }) < EARLY_BURSTS;
}

// The first of the early data are the burst's.
void Port::take_address(const Shown& shown) {
    writes_.push_back(accept(shown.write));
    Burst& burst = *writes_.back();
    const size_t count = std::min<size_t>(early_.size(), burst.beats);
    for (size_t n = 0; n < count; ++n) append(early_[n]);
    early_.erase(early_.begin(), early_.begin() + count);
    if (order_ == Order::ADDRESS_FIRST) data_cycle_ = cycle_ + delay();
    draw_order();
}

void Port::take_data(const Shown& shown) {
    ++write_beats;
    tokens_ -= 1;
    Beat beat;
    beat.last = shown.wlast;
    beat.strobe = shown.strobe;
    std::memcpy(beat.data.data(), shown.data, memory_.beat_bytes);
    if (wants_data())
        append(beat);
    else
        early_.push_back(beat);
}

// Give a beat to the oldest burst that lacks data.
void Port::append(const Beat& beat) {
    auto entry = std::find_if(writes_.begin(), writes_.end(), [](const auto& each) { return each->done < each->beats; });
    Burst& burst = **entry;
    std::memcpy(&burst.data[burst.done * memory_.beat_bytes], beat.data.data(), memory_.beat_bytes);
    burst.strobes[burst.done++] = beat.strobe;
    burst.ready_cycle = cycle_ + burst.delay;
}

void Port::show_response() {
    Burst* burst = answerable(writes_);
    if (!burst || burst->done < burst->beats || response_pace_.holds(true)) return;
    for (unsigned n = 0; n < burst->beats; ++n) {
        if (burst->responses[n] != Response::OKAY) continue;
        uint8_t* to = memory_.bytes + burst->address + n * uint64_t(memory_.beat_bytes);
        const uint8_t* from = &burst->data[n * memory_.beat_bytes];
        for (unsigned byte = 0; byte < memory_.beat_bytes; ++byte)
            if (!memory_.options.strobes || burst->strobes[n] >> byte & 1) to[byte] = from[byte];
    }
    if (happens(Glitch::LOST_RESPONSE)) return release(writes_, burst);
    answered_ = burst;
    driven.bvalid = true;
    driven.bid = burst->id;
    driven.bresp = static_cast<uint8_t>(burst->worst);
}

}  // namespace etalstm
