"""A plain model of the CAST instruction, and random ones to try it on."""

from dataclasses import dataclass

import numpy as np

from etalstm.formats import codec
from etalstm_hw.contract import LANE_ADDRESS_BITS, cast_sums

_BEYOND = 1 << LANE_ADDRESS_BITS  # the largest offset that is sent: no lane memory has this address


@dataclass(frozen=True)
class CastModel:
    """What CAST sends, on windows that follow each other from word 0 of a memory.

    Messages are (value, outer, inner, tiles, narrow, first, empty, null, last), with None for what means nothing.

    Parameters
    ----------
    lanes, beat_words : int
        Words of a vector and of a beat.
    words : int
        The most words of a block.
    stride : int
        Bytes of a window.
    send_zeros : bool
        Zeros are sent too, and are no terms.
    """

    lanes: int
    beat_words: int
    words: int
    stride: int
    send_zeros: bool = False

    def _block(self, cast, number):
        """Byte address and lanes of block `number`."""
        position = cast["tile"] + number
        channel = cast["channel"] + position // cast["tiles_per_channel"]
        tile = position % cast["tiles_per_channel"]
        beats = cast["gates"] * cast["batch"] * self.lanes // self.beat_words
        lanes = cast["last_lanes"] if tile == cast["tiles_per_channel"] - 1 else cast["lanes"]
        return channel * self.stride + (cast["address"] + tile * beats) * self.beat_words * 4, lanes

    def messages(self, cast, memory, begun):
        """The messages of one CAST.

        ``begun`` tells of each sum since the last ``start`` whether it has begun; it is brought up to date.
        """
        messages, outer, tiles, narrow = [], 0, cast["tiles"], cast["narrow"]
        row_vectors = -(-tiles // 2) if narrow else tiles
        first, own = cast["first_sum"], self._sums(cast)

        def offset(index, vectors=tiles):
            return min(index * vectors, _BEYOND)

        if cast["start"]:
            begun.clear()
        for index in range(first + own):
            begun.setdefault(index, False)
        for number in range(cast["blocks"]):
            address, lanes = self._block(cast, number)
            rows = [(lane, gate) for lane in range(cast["lane"], cast["lane"] + lanes) for gate in range(cast["gates"])]
            batch = range(cast["batch"])
            walk = (
                [(r, b) for b in batch for r in rows] if cast["batch_outer"] else [(r, b) for r in rows for b in batch]
            )
            for (lane, gate), b in walk:
                row = rows.index((lane, gate))
                o, index = (outer + b, first + row) if cast["batch_outer"] else (outer + row, first + b)
                word = memory[address // 4 + (gate * cast["batch"] + b) * self.lanes + lane]
                if word & 0x7F800000:
                    places = offset(o, row_vectors), offset(index)
                    messages.append((word, *places, tiles, narrow, not begun[index], 0, 0, 0))
                    begun[index] = True
                elif self.send_zeros:
                    messages.append((None, None, offset(index), tiles, narrow, 0, 1, 0, 0))
            outer += cast["batch"] if cast["batch_outer"] else len(rows)
        if cast["finish"]:
            messages += [(None, None, offset(i), tiles, narrow, 1, 1, 0, 0) for i in sorted(begun) if not begun[i]]
            begun.update(dict.fromkeys(begun, True))
        return messages

    def _sums(self, cast):
        """Inner indices that a CAST has itself; its blocks are of one size."""
        return cast["gates"] * cast["lanes"] if cast["batch_outer"] else cast["batch"]

    def compress(self, casts, memory, first):
        """Write every block of some CASTs as a stream, from beat `first` of the windows on; give CASTs that read them.

        They send what `casts` send.
        """
        size, ends, address = self.lanes // self.beat_words, {}, first
        compressed = []
        for cast in casts:
            channels = range(
                cast["channel"], cast["channel"] + -(-(cast["tile"] + cast["blocks"]) // cast["tiles_per_channel"])
            )
            start = max([address, *(ends.get(channel, 0) for channel in channels)]) + 1
            compressed.append(cast | {"compressed": 1, "address": start})
            for channel in channels:
                ends[channel] = start + cast["tiles_per_channel"] * size
            for number in range(cast["blocks"]):
                place = cast["tile"] + number
                channel, tile = cast["channel"] + place // cast["tiles_per_channel"], place % cast["tiles_per_channel"]
                block, count = self._block(cast, number)[0] // 4, cast["gates"] * cast["batch"] * self.lanes
                values = np.array(memory[block : block + count], np.uint32).view(np.float32)
                words = codec.encode(values, beat_words=self.beat_words)
                beats, beat = len(words) // self.beat_words, start + tile * size
                index = codec.index_words(ends[channel], beats, count, np.count_nonzero(values), beat)
                for place, content in ((beat, index), (ends[channel], words)):
                    at = channel * self.stride // 4 + place * self.beat_words
                    memory[at : at + len(content)] = [int(word) for word in content]
                ends[channel] += beats
                assert ends[channel] * self.beat_words * 4 <= self.stride, "the windows are too small for the streams"
        return compressed

    def random_casts(self, rng, count):
        """CASTs on the first 64 beats and what follows; the first starts new sums, others may go on with them."""
        return [self._random_cast(rng) | ({} if number else {"start": 1}) for number in range(count)]

    def _random_cast(self, rng):
        gates, batch_outer = rng.choice([1, 4]), rng.randrange(2)
        tiles_per_channel = rng.choice([1, 2, 3])
        lanes = rng.randint(1, self.lanes)
        cast = {
            "address": rng.randrange(64),
            "channel": 0,
            "tile": rng.randrange(tiles_per_channel),
            "tiles_per_channel": tiles_per_channel,
            "blocks": rng.randint(1, tiles_per_channel),
            "gates": gates,
            "batch": rng.randint(1, self.words // self.lanes // gates),
            "lane": rng.randint(0, self.lanes - lanes) if batch_outer else 0,
            "lanes": lanes,
            "last_lanes": lanes if batch_outer else rng.randint(1, lanes),
            "tiles": rng.choice([*range(1, 6), 255]),
            "batch_outer": batch_outer,
            "narrow": rng.randrange(2),
            "start": rng.randrange(2),
            "finish": rng.randrange(2),
        }
        return cast | {"first_sum": rng.randint(0, cast_sums(self.lanes, self.words) - self._sums(cast))}

    def check(self, casts, memory, received):
        """Fail unless ``received`` are the messages of all CASTs, and each ends once."""
        begun = {}
        for number, cast in enumerate(casts):
            expected = self.messages(cast, memory, begun)
            ends = [n for n, message in enumerate(received) if message[-1]]
            assert ends, f"CAST {number} {cast}: {len(received)} messages and no last one, expected {len(expected)}"
            actual, received = received[: ends[0] + 1], received[ends[0] + 1 :]
            if actual[-1][-2]:
                assert actual[-1][3] == cast["tiles"], f"CAST {number} {cast}: ends with {actual[-1][3]} tiles"
                actual = actual[:-1]
            else:
                actual[-1] = (*actual[-1][:-1], 0)
            for index, (got, want) in enumerate(zip(actual, expected, strict=False)):
                same = all(e is None or a == e for a, e in zip(got, want, strict=True))
                assert same, f"CAST {number} {cast}: message {index} is {got}, expected {want}"
            count = len(actual)
            assert count == len(expected), f"CAST {number} {cast}: {count} messages, expected {len(expected)}"
        assert not received, f"{len(received)} messages after the last CAST, the first {received[0]}"


def random_memory(rng, words, density):
    """Words, of which about a share of ``density`` is not zero; zeros are of both signs, or subnormal."""
    return [
        rng.getrandbits(31) | 0x00800000 if rng.random() < density else rng.choice([0, 0x80000000, 0x00000123])
        for _ in range(words)
    ]
