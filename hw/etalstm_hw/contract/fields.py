"""The fields of instructions."""

from etalstm_hw.contract.opcodes import Opcode

INSTRUCTION_BITS = 256  # least significant bit first in memory
# Bits 255:240 of an instruction are its check: the CRC-16/IBM-3740 of bytes 0 to 29 (polynomial 0x1021, from 0xFFFF,
# each byte's most significant bit first, nothing inverted; of "123456789" it is 0x29B1), xor the number of the
# instruction in its program modulo 2^16. An instruction with another check is refused with BAD_CHECK.
CHECK_OFFSET = 240  # first bit of the check
CHECK_BITS = INSTRUCTION_BITS - CHECK_OFFSET
OPCODE_BITS = 4
WAIT_BITS = 8  # how many instructions back a wait can look
COMPLETED_BITS = 32  # how many instructions an engine has completed
TARGET_BITS = 20  # of such a count, as waits are compared with it: modulo 2^20
ADDRESS_BITS = 28  # in beats, relative to a channel's window
REGISTER_BITS = 4  # number of an address register
ADDRESS_REGISTERS = 1 << REGISTER_BITS
LOOP_DEPTH = 4  # loops inside each other
LOOP_BITS = 24  # instructions of a loop's body
TURN_BITS = 32  # turns of a loop
LANE_ADDRESS_BITS = 13
COUNT_BITS = 12
KIND_BITS = 2
CHANNEL_BITS = 8
OWN_WINDOW = (1 << CHANNEL_BITS) - 1  # as a TRANSPOSE's target: the window of the channel that executes
GROUP_BITS = 4  # a group of channels; as a field, number of the group + 1, or 0
TILE_BITS = 12  # number of a vector of a channel's units or inputs
LOG_BITS = 1  # P and δ have logs of their own
STREAM_BITS = ADDRESS_BITS  # first and last beat of a log

# Every instruction starts with these. Waits are relative: an engine holds an instruction back until the n-th last
# instruction that was dispatched to the named engine before this one is completed (1: the very last; 0: no wait). Where
# fewer than n were dispatched there is nothing to wait for. Each turn of a loop dispatches its body anew; LOAD_ROWS
# counts as one LOAD; LOOP, ADVANCE and HALT go to no engine and do not count. Programs may dispatch any number of
# instructions. Channels look at their own engines; with `everyone` set, and always in CAST, SEND and LOAD_ROWS,
# wait_store means "completed by every channel". A CAST or a SEND has no other waits (BAD_FIELD).
# `register` names an address register. Its value is added, modulo 2^ADDRESS_BITS, to the field `address` of the
# opcodes that have one; the others do not look at it. Register 0 is always 0; a program starts with all registers 0.
HEADER = {
    "opcode": OPCODE_BITS,  # an Opcode
    "wait_load": WAIT_BITS,  # how far back the LOAD is that must be completed
    "wait_mac": WAIT_BITS,  # ... MAC
    "wait_vector": WAIT_BITS,  # ... VECTOR
    "wait_store": WAIT_BITS,  # ... STORE
    "everyone": 1,  # wait_store is about every channel's
    "register": REGISTER_BITS,  # address register
}
HEADER_BITS = sum(HEADER.values())

# Lane addresses of LOAD, STORE and VECTOR run through two nested loops:
# address + outer·outer_stride + inner·inner_stride, inner fastest, modulo 2^LANE_ADDRESS_BITS. Counts are at least 1.
_LOOP = {
    "outer": COUNT_BITS,  # runs of the inner loop
    "inner": COUNT_BITS,  # vectors of each
}
_TRANSFER = {
    "address": ADDRESS_BITS,  # first beat in the channel's window; vectors are contiguous there
    "kind": KIND_BITS,  # a Traffic
    "memory": 2,  # a Memory
    "lane_address": LANE_ADDRESS_BITS,  # of the first vector in that memory
    **_LOOP,
    "outer_stride": LANE_ADDRESS_BITS,  # of lane_address
    "inner_stride": LANE_ADDRESS_BITS,
}

FIELDS = {
    # Ends the program when every engine has done all of its work.
    Opcode.HALT: {},
    # Repeats the next `length` instructions `turns` times. Loops may contain loops, LOOP_DEPTH at most inside each
    # other; a body ends inside its enclosing body, or together with it. The sequencer executes LOOP and ADVANCE: of the
    # header it looks at the opcode only.
    # BAD_FIELD: a count of 0; too many loops inside each other; a body that ends outside the program or its loop; a
    # HALT in a body, which is the instruction that is refused.
    Opcode.LOOP: {
        "turns": TURN_BITS,
        "length": LOOP_BITS,
    },
    # Adds `amount0` to address register `register0`, modulo 2^ADDRESS_BITS, and so on in order. The instructions after
    # it see the sums. Register 0 keeps its 0.
    Opcode.ADVANCE: {
        "register0": REGISTER_BITS,  # of the first addition
        "amount0": ADDRESS_BITS,  # ... what is added
        "register1": REGISTER_BITS,  # of the second addition
        "amount1": ADDRESS_BITS,  # ... what is added
        "register2": REGISTER_BITS,  # of the third addition
        "amount2": ADDRESS_BITS,  # ... what is added
        "register3": REGISTER_BITS,  # of the fourth addition
        "amount3": ADDRESS_BITS,  # ... what is added
        "register4": REGISTER_BITS,  # of the fifth addition
        "amount4": ADDRESS_BITS,  # ... what is added
        "register5": REGISTER_BITS,  # of the sixth addition
        "amount5": ADDRESS_BITS,  # ... what is added
    },
    # Copies outer·inner vectors of the channel's window, one after the other, to lane memory `memory`.
    # With `compressed`, LOAD reads a stream that a compressed STORE wrote: `address` is that of its index beat.
    # With `group` = k > 0 the window is that of another channel: the one at the same position in group k - 1.
    # The number of the executing channel's own group, times `group_stride`, is added to `address`.
    # BAD_FIELD: a group that does not exist; a memory that LOAD does not write, see Memory.
    Opcode.LOAD: {
        **_TRANSFER,
        "more": 1,  # completed, and counted, with the next LOAD, which there must be
        "compressed": 1,
        "bf16": 1,  # of the stream's words
        "group": GROUP_BITS,  # 0: the channel's own window
        "group_stride": ADDRESS_BITS,  # beats
    },
    # A LOAD of `outer` rows of `inner` vectors each that leaves out rows which no scalar of a CAST needs. The sequencer
    # turns it into LOADs of the other rows, at least one. Where a row is left out, the lane memory keeps what it had.
    # Rows belong to blocks in the order of a CAST by rows: the first block is tile `tile` of channel
    # `channel`, then come the next tiles, after tile `tiles_per_channel - 1` tile 0 of the next channel. A block has
    # the rows of `lanes` lanes, or of `last_lanes` in a channel's last tile: of each lane four, one for each gate, or
    # with `single` one. `channel` is a position in a group: every group has a map of each block, and a row is left out
    # if it is not needed by any of them. The map of a block has a vector for each row of a lane, four or with `single`
    # one. They begin at beat map + tile·(beats of these vectors) of the channel's window. A row is not needed if its
    # lane's word is ±0. The map is read when the waits are over.
    # BAD_FIELD: a count of 0; lanes that a vector does not have; `outer` rows are not those of whole blocks.
    Opcode.LOAD_ROWS: {
        **_TRANSFER,
        "map": ADDRESS_BITS,
        "channel": CHANNEL_BITS,
        "tile": TILE_BITS,
        "tiles_per_channel": TILE_BITS,
        "lanes": 6,
        "last_lanes": 6,
        "single": 1,  # a lane has one row
    },
    # Copies outer·inner vectors of lane memory `memory` to the channel's window, one after the other.
    # With `compressed`, STORE appends a stream to the channel's log `log` and writes its index beat (see STREAM_INDEX)
    # to `address`. With `first` the log begins anew at beat `start`; before a program's first one it is at beat 0. It
    # may grow up to beat `end` (exclusive), beyond that the program stops with OVERFLOW and nothing outside is written.
    # Elements x with |x| < parameter `threshold`, and zeros, are not kept. With `bf16` kept words are rounded to
    # bfloat16 and packed by two.
    # BAD_FIELD: a memory that STORE does not read, see Memory.
    Opcode.STORE: {
        **_TRANSFER,
        "compressed": 1,
        "bf16": 1,
        "threshold": 4,  # number of a parameter
        "log": LOG_BITS,
        "first": 1,
        "start": STREAM_BITS,
        "end": STREAM_BITS,
    },
    # For each scalar of the paired CAST, one MAC per tile: sums[sums + inner·tiles + tile] += weights[weights +
    # outer·tiles + tile] · value. The offsets outer·tiles and inner·tiles arrive with the scalar. With `start` a sum
    # starts from bias[bias + tile] (see Start).
    # If the CAST is `narrow`, each word of the weight memory holds the weights of two tiles in bfloat16, as PACK makes
    # it. A scalar then has ⌈tiles/2⌉ vectors, and its offset is outer·⌈tiles/2⌉. Tile t is a half of the vector ⌊t/2⌋
    # further on, the low half if t is even. The weight is the float32 whose upper 16 bits are that half.
    # BAD_FIELD: `tiles` is 0 or differs from that of the paired CAST. BAD_ADDRESS: a weight, sum or bias outside its
    # memory, however large the offset.
    Opcode.MAC: {
        "weights": LANE_ADDRESS_BITS,  # of the first weight
        "sums": LANE_ADDRESS_BITS,  # of the first sum
        "bias": LANE_ADDRESS_BITS,
        "tiles": COUNT_BITS,
        "start": 1,
        "backward": 1,  # of the backward pass, Wᵀδ or dW: which of the SHARES it may use
    },
    # For every element of the two loops d = op(a, b) in all lanes; each of the three addresses has strides of its own.
    # BAD_FIELD: an operation that the machine does not have, a source that there is not or that an operand cannot have,
    # `bits` that no integer has. BAD_ADDRESS: an operand or a result outside its memory. The source and addresses of b
    # are not looked at where an operation has no b, nor `bits` where it needs none; those of a always are.
    Opcode.VECTOR: {
        "op": 5,  # a VectorOp
        "a_source": 2,  # a Source
        "b_source": 2,
        "a": LANE_ADDRESS_BITS,  # for PARAMETER: its number
        "b": LANE_ADDRESS_BITS,
        "d": LANE_ADDRESS_BITS,  # in the scratch memory
        **_LOOP,
        "a_outer": COUNT_BITS,  # strides of a
        "a_inner": COUNT_BITS,
        "b_outer": COUNT_BITS,  # ... b
        "b_inner": COUNT_BITS,
        "d_outer": COUNT_BITS,  # ... d
        "d_inner": COUNT_BITS,
        "serial": 1,  # each run of the inner loop waits until the results of the run before are written
        "bits": 4,  # of the operations that quantise: of the integers, 8 to 15; of ADD_SCALED the parameter's number
    },
    # Transposes squares of vectors. Square q (of `outer`) reads vectors lane_address + q·outer_stride + i·inner_stride
    # for i < rows from the scratch memory. For each lane l < lanes it writes the words of that lane, word i that of
    # vector i, as consecutive beats, the last one filled up with zeros. They begin at beat address + q·outer_beats +
    # l·lane_beats + n·channel_beats (n: the position in its group of the channel that executes) of the window of the
    # channel at position `target` of the same group, or with OWN_WINDOW of its own.
    # BAD_FIELD: a count of 0; more rows, or more lanes, than a vector has words.
    Opcode.TRANSPOSE: {
        "address": ADDRESS_BITS,
        "kind": KIND_BITS,  # a Traffic
        "target": CHANNEL_BITS,
        "lane_address": LANE_ADDRESS_BITS,
        "outer": 8,
        "outer_stride": LANE_ADDRESS_BITS,
        "inner_stride": LANE_ADDRESS_BITS,
        "rows": 8,
        "lanes": 8,
        "outer_beats": 20,
        "lane_beats": 20,
        "channel_beats": 24,
    },
    # Executed by the broadcaster of every group, each for the channels of its group; `channel` is a position in it.
    # Reads `blocks` blocks, starting with tile `tile` of channel `channel`; the next block is the next tile, after tile
    # `tiles_per_channel - 1` tile 0 of the next channel. A block is [gate][batch][lane] words at beat address +
    # tile·(gates·batch·beats per vector) of the channel's window. Lanes `lane` to `lane + lanes - 1` of it are sent; of
    # a channel's last tile `last_lanes` instead of `lanes`.
    # With `compressed` a block is a stream that a compressed STORE without `bf16` wrote, of the same words in the same
    # order; its index beat is at beat address + tile·(beats per vector).
    # Order of scalars, and their offsets:  by rows (batch_outer = 0): for block, lane, gate: for b, with outer = number
    # of (block, lane, gate), inner = first_sum + b;  by batch (batch_outer = 1): for block: for b: for lane, gate, with
    # outer = block·batch + b, inner = first_sum + number of (lane, gate).
    # By batch all blocks are of one size: lanes = last_lanes.
    # `start` begins new sums: none of them has a scalar yet. CASTs without `start` go on with these sums, each from its
    # own `first_sum` on, so that several arrays can share one load of weights. `finish` ends all sums from 0 to the
    # last one that a CAST since `start` has: those that got no scalar are set to their start.
    # BAD_FIELD: a count of 0; more than four gates; a block larger than the broadcaster's buffer; lanes that a vector
    # does not have; a sum beyond those that the broadcaster knows (see `cast_sums`).
    Opcode.CAST: {
        "address": ADDRESS_BITS,
        "kind": KIND_BITS,  # a Traffic
        "compressed": 1,  # the blocks are streams
        "channel": CHANNEL_BITS,
        "tile": TILE_BITS,
        "tiles_per_channel": TILE_BITS,
        "blocks": COUNT_BITS,
        "gates": 3,
        "batch": COUNT_BITS,
        "lane": 6,
        "lanes": 6,
        "last_lanes": 6,
        "tiles": COUNT_BITS,  # of the paired MAC: what the offsets are multiplied by, that of weights unless `narrow`
        "first_sum": COUNT_BITS,  # number of the first sum, the least `inner`
        "batch_outer": 1,
        "start": 1,
        "finish": 1,
        "narrow": 1,  # the paired MAC's weights are bfloat16, two tiles in a vector
    },
    # Only of machines whose products are integers, as PRODUCT. Reads `blocks` blocks as CAST does, by `address`,
    # `channel`, `tile` and `tiles_per_channel`, each a vector of every sequence, of words of four bytes. Together they
    # are an array of `batch` sequences: element (block·4 + byte)·lanes + lane of a sequence is that byte. With `wide` a
    # block is two such planes, and an element is two digits: first come all sequences' vectors of the upper digits,
    # then those of the lower ones; the integer is upper·128 + lower. For each sequence its digits that are not zero are
    # sent, upper ones first. The whole array is sent `repeats` times. Of a machine's streams the first gets the first
    # `own` sequences, the next one those that follow, and so on. A stream for which fewer are left gets sequences of
    # zeros besides, `own` in all. A byte must not be -128.
    # BAD_FIELD: a count of 0; `own` sequences larger than a stream's buffer, or more than a stream has sums of a row
    # for; more sequences than all streams get. Nothing of the array is read then. BAD_ADDRESS: a channel that the group
    # does not have, a block outside its window. The blocks before it are read.
    Opcode.SEND: {
        "address": ADDRESS_BITS,
        "kind": KIND_BITS,  # a Traffic
        "channel": CHANNEL_BITS,
        "tile": TILE_BITS,
        "tiles_per_channel": TILE_BITS,
        "blocks": COUNT_BITS,
        "batch": COUNT_BITS,
        "own": COUNT_BITS,
        "wide": 1,
        "repeats": COUNT_BITS,
    },
    # Multiplies the digits of the paired SEND by weights of 8 bits, and adds the products to sums. A row of weights is
    # 2·PEs weights of each lane, for as many vectors of sums: it is `PEs`/2 vectors of the weight memory, of whose
    # words byte n of vector v is the weight for vector 4·v + n of the sums. Element e of a sequence meets row e of
    # those from `weights` on, the n-th time that the array is sent row n·rows + e. Sums of the first sequence are the
    # 2·PEs vectors from `sums` on; those of the next sequence follow, then those of the next time: `own` in all for
    # each time. Those of stream n of a machine lie as many times n vectors further on as a stream has sums. Sums of
    # sequences that are not there have no defined value. `rows` may be 0.
    # BAD_FIELD: `weights` is no multiple of the vectors of a row, or `sums` of those of a sequence. The SEND is not
    # waited for. BAD_ADDRESS: the row of a digit that is sent outside the weight memory, or a sum outside those of a
    # stream. Rows of digits that are zero are not looked at, but that of element 0 of every sequence is.
    Opcode.PRODUCT: {
        "weights": LANE_ADDRESS_BITS,
        "rows": COUNT_BITS,
        "sums": LANE_ADDRESS_BITS,
        "adds": 1,  # the sums are added to those that are there
        "backward": 1,  # as in MAC
    },
}
ADVANCES = len(FIELDS[Opcode.ADVANCE]) // 2  # additions of an ADVANCE
