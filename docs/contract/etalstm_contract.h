/* What the η-LSTM accelerator and its host agree on. C99 or later, and C++.
 *
 * Written by `eta-lstm hw contract` from etalstm_hw.contract; do not edit.
 */
#ifndef ETALSTM_CONTRACT_H
#define ETALSTM_CONTRACT_H

#include <stdint.h>

/* Constants */
#define ETALSTM_INSTRUCTION_BITS 0x100u /* least significant bit first in memory */
#define ETALSTM_CHECK_OFFSET 240u /* Bits 255:240 of an instruction are its check: the CRC-16/IBM-3740 of bytes 0 to 29 (polynomial 0x1021, from 0xFFFF, each byte's most significant bit first, nothing inverted; of "123456789" it is 0x29B1), xor the number of the instruction in its program modulo 2^16. An instruction with another check is refused with BAD_CHECK. first bit of the check */
#define ETALSTM_CHECK_BITS 16u
#define ETALSTM_OPCODE_BITS 4u
#define ETALSTM_WAIT_BITS 8u /* how many instructions back a wait can look */
#define ETALSTM_COMPLETED_BITS 32u /* how many instructions an engine has completed */
#define ETALSTM_TARGET_BITS 20u /* of such a count, as waits are compared with it: modulo 2^20 */
#define ETALSTM_ADDRESS_BITS 28u /* in beats, relative to a channel's window */
#define ETALSTM_REGISTER_BITS 4u /* number of an address register */
#define ETALSTM_ADDRESS_REGISTERS 16u
#define ETALSTM_LOOP_DEPTH 4u /* loops inside each other */
#define ETALSTM_LOOP_BITS 24u /* instructions of a loop's body */
#define ETALSTM_TURN_BITS 32u /* turns of a loop */
#define ETALSTM_LANE_ADDRESS_BITS 13u
#define ETALSTM_COUNT_BITS 12u
#define ETALSTM_KIND_BITS 2u
#define ETALSTM_CHANNEL_BITS 8u
#define ETALSTM_OWN_WINDOW 255u /* as a TRANSPOSE's target: the window of the channel that executes */
#define ETALSTM_GROUP_BITS 4u /* a group of channels; as a field, number of the group + 1, or 0 */
#define ETALSTM_TILE_BITS 12u /* number of a vector of a channel's units or inputs */
#define ETALSTM_LOG_BITS 1u /* P and δ have logs of their own */
#define ETALSTM_STREAM_BITS 28u /* first and last beat of a log */
#define ETALSTM_HEADER_BITS 41u
#define ETALSTM_ADVANCES 6u /* additions of an ADVANCE */
#define ETALSTM_STREAM_BLOCK 32u /* A compressed stream: elements in order (vector by vector, lane by lane) in blocks of STREAM_BLOCK. A block is a mask word (bit n: element n is kept), then the kept words in order; with bf16 two kept elements share a word, the first in the low half, and a block's last word is filled up with 0. The last block may have fewer elements, the mask bits of those that are missing are 0. The stream starts at a beat and is filled up to a whole beat with 0. Its index beat holds, as 32-bit words: the beat where it starts, relative to the channel's window; its length in beats; a check; the number of kept elements. The check is the xor of five words: the start, the number of elements rotated left by 5 bits, the beats by 11, the number of kept elements by 19, and by 27 the beat where the index itself lies. */
#define ETALSTM_MOST_GATES 4u /* of a block that is broadcast, and of a block of a map of rows */
#define ETALSTM_MAGIC 0x4554414cu /* "ETAL" */
#define ETALSTM_VERSION 17u
#define ETALSTM_REGISTER_SPACE_BYTES 0x400u
#define ETALSTM_PAGE_BYTES 0x1000u /* windows and programs begin at multiples of it, and windows have a multiple of it as their size */
#define ETALSTM_SLOTS 32u
#define ETALSTM_CONTROL_START 1u /* written to CONTROL: start the program */
#define ETALSTM_CONTROL_ABORT 2u /* written to CONTROL: stop it */
#define ETALSTM_PARAMETERS 16u
#define ETALSTM_PARAMETER_ONE 0u /* as an operand 1.0, whatever the register keeps */
#define ETALSTM_PARAMETER_ZERO 1u /* as an operand +0.0, likewise */
#define ETALSTM_PARAMETER_MINUS_ZERO 2u /* as an operand -0.0, likewise: x + -0.0 is x for every x */
#define ETALSTM_PARAMETER_SCALE 3u /* what gradients are multiplied by: clipping */
#define ETALSTM_PARAMETER_WEIGHT_DECAY 4u
#define ETALSTM_PARAMETER_MOMENTUM 5u
#define ETALSTM_PARAMETER_MINUS_LEARNING_RATE 6u
#define ETALSTM_PARAMETER_INPUT_THRESHOLDS 3u /* in a forward pass, the first of five: thresholds of what is broadcast */
#define ETALSTM_MOST_INPUT_THRESHOLDS 5u
#define ETALSTM_PARAMETER_THRESHOLDS 8u /* the first of six: thresholds of P_i, P_f, P_g, P_o, P_s, P_r */
#define ETALSTM_PARAMETER_DELTA_THRESHOLD 14u /* of the gradients of gates */
#define ETALSTM_PARAMETER_NEEDED_SCALE 15u /* what gradients of gates are multiplied by: those below their threshold become ±0 */
#define ETALSTM_PARAMETER_INPUT_SCALES 14u /* in a forward pass, the first of two: what changes of x and h are multiplied by, likewise */
#define ETALSTM_MOST_INPUT_SCALES 2u
#define ETALSTM_BOARD_SPACE_BYTES 0x2000u /* of both kinds of registers together */
#define ETALSTM_BOARD_RESET 1u /* lets the memory finish what is under way, then resets the machine; its memory keeps its bytes */
#define ETALSTM_BIT_ERRORS_SHIFT 16u /* of the number of words with more wrong bits than can be corrected, 15 bits */
#define ETALSTM_BIT_ERRORS_KNOWN 0x80000000u /* without it the controllers could not be asked */

/* Registers */
#define ETALSTM_REG_MAGIC 0u /* the constant MAGIC */
#define ETALSTM_REG_VERSION 4u /* the constant VERSION */
#define ETALSTM_REG_PRESET 8u /* hash of the configuration */
#define ETALSTM_REG_SHAPE 12u /* channels in bits 15:0, lanes in bits 23:16, PEs of integers of a lane in bits 31:24 */
#define ETALSTM_REG_CONTROL 16u /* write START or ABORT */
#define ETALSTM_REG_STATUS 20u /* a Status; RUNNING until the machine has come to rest */
#define ETALSTM_REG_ERROR_ENGINE 24u /* the engine that stopped the program */
#define ETALSTM_REG_ERROR_INSTRUCTION 28u /* instructions that it had completed; the sequencer: number of the refused one */
#define ETALSTM_REG_PROGRAM_LOW 32u /* Byte address of the program, a multiple of 4096. With any other, or where an instruction lies beyond the machine's addresses, the program ends there with READ_ERROR and nothing is read. */
#define ETALSTM_REG_PROGRAM_HIGH 36u /* its upper half */
#define ETALSTM_REG_PROGRAM_LENGTH 40u /* instructions */
#define ETALSTM_REG_WATCHDOG 44u /* cycles without progress of an engine until STUCK; 0: never */
#define ETALSTM_REG_WINDOW_LOW 48u /* byte address of channel 0's window, a multiple of 4096 */
#define ETALSTM_REG_WINDOW_HIGH 52u /* its upper half */
#define ETALSTM_REG_WINDOW_STRIDE 56u /* from one channel's window to the next, in units of 4096 bytes */
#define ETALSTM_REG_REFUSED 60u /* how often START was written while a program ran (such a write does nothing else) */
#define ETALSTM_REG_PARAMETER 64u /* 16 words, the values of Source.PARAMETER; see PARAMETERS */
#define ETALSTM_REG_BUILD 128u /* what the bitstream was built from, see :func:`etalstm_boards.build.build_id`; 0 in simulation */
#define ETALSTM_REG_SHARES 132u /* 0: any operation may use any cycle of the PEs; otherwise fixed shares, see SHARES */
#define ETALSTM_REG_SEND_ZEROS 136u /* 1: a scalar that is zero takes the cycles of any other, and is no term of a sum; 0: skipped */
#define ETALSTM_REG_WINDOW_SIZE 140u /* Of each window, in units of 4096 bytes. If a window reaches beyond the machine's addresses, or WINDOW_LOW is no multiple of 4096, the size counts as 0: every access is refused with BAD_ADDRESS. */
#define ETALSTM_REG_GROUPS 144u /* how many equal groups of channels, each with a broadcaster; 0: one. START with another: BAD_FIELD */
#define ETALSTM_REG_COUNTER 0x100u /* 64-bit words, low half first, in the order of Counter; cleared by START. Reading a low half latches the high half: a read of any high half gives what was latched last. */

/* Counters: the register of the low half of the first */
#define ETALSTM_COUNTER_CYCLES 0x100u /* clock cycles between start and end */
#define ETALSTM_COUNTER_CYCLE_KINDS 0x108u /* one for each Cycle, summed over channels */
#define ETALSTM_COUNTER_MAC_PHASE 0x160u /* channel-cycles from a MAC instruction's start to its last MAC */
#define ETALSTM_COUNTER_ACTIVATION 0x168u /* activation-unit operations issued (one lane's value each) */
#define ETALSTM_COUNTER_SCALARS_SEEN 0x170u /* scalars that the broadcaster had to send */
#define ETALSTM_COUNTER_SCALARS_SKIPPED 0x178u /* those of them that were zero, and not sent */
#define ETALSTM_COUNTER_ROWS_SEEN 0x180u /* rows of LOAD_ROWS, of one channel */
#define ETALSTM_COUNTER_ROWS_SKIPPED 0x188u /* those of them that the map leaves out */
#define ETALSTM_COUNTER_READ_BEATS 0x190u /* one for each Traffic, LOAD and CAST, summed over channels; and maps, with DELTAS */
#define ETALSTM_COUNTER_WRITE_BEATS 0x1b0u /* likewise, STORE and TRANSPOSE */
#define ETALSTM_COUNTER_PROGRAM_BEATS 0x1d0u /* beats of instructions that were fetched */

/* Engine: The units that take instructions, each in order from a queue of its own. */
#define ETALSTM_ENGINE_LOAD 0u /* memory to lane memories, one per channel */
#define ETALSTM_ENGINE_MAC 1u /* multiply-accumulate of broadcast scalars, one per channel */
#define ETALSTM_ENGINE_VECTOR 2u /* element-wise work, one per channel */
#define ETALSTM_ENGINE_STORE 3u /* lane memories to memory, one per channel */
#define ETALSTM_ENGINE_CAST 4u /* memory to the broadcast stream, one per group of channels */

/* Opcode: What an instruction does. Everything else is refused with :attr:`Status.BAD_OPCODE`. */
#define ETALSTM_OPCODE_HALT 0u
#define ETALSTM_OPCODE_LOAD 1u
#define ETALSTM_OPCODE_MAC 2u
#define ETALSTM_OPCODE_VECTOR 3u
#define ETALSTM_OPCODE_STORE 4u
#define ETALSTM_OPCODE_TRANSPOSE 5u
#define ETALSTM_OPCODE_CAST 6u
#define ETALSTM_OPCODE_LOAD_ROWS 7u
#define ETALSTM_OPCODE_LOOP 8u
#define ETALSTM_OPCODE_ADVANCE 9u
#define ETALSTM_OPCODE_SEND 10u
#define ETALSTM_OPCODE_PRODUCT 11u

/* Memory: The memories of a lane, as LOAD and STORE name them. */
#define ETALSTM_MEMORY_WEIGHTS 0u /* written by LOAD, read by MAC and PRODUCT */
#define ETALSTM_MEMORY_SCRATCH 1u /* written by LOAD and VECTOR, read by VECTOR and STORE */
#define ETALSTM_MEMORY_BIAS 2u /* written by LOAD, read by MAC when a sum starts; machines whose products are integers have none */
#define ETALSTM_MEMORY_SUMS 3u /* partial sums: written by MAC or PRODUCT, read by these and by VECTOR; those of MAC by STORE, too */

/* Source: Where a VECTOR operand comes from. Operand b is never a partial sum. */
#define ETALSTM_SOURCE_SCRATCH 0u /* the scratch memory, at the operand's address */
#define ETALSTM_SOURCE_SUMS 1u /* the partial sums, at the operand's address */
#define ETALSTM_SOURCE_PARAMETER 2u /* a register that the host has set, the same for every element */

/* VectorOp: What VECTOR does with each pair of elements. */
#define ETALSTM_VECTOR_OP_MULTIPLY 0u /* a · b */
#define ETALSTM_VECTOR_OP_ADD 1u /* a + b */
#define ETALSTM_VECTOR_OP_SUBTRACT 2u /* a - b */
#define ETALSTM_VECTOR_OP_SIGMOID 3u /* σ(a) */
#define ETALSTM_VECTOR_OP_TANH 4u /* tanh(a) */
#define ETALSTM_VECTOR_OP_SELECT 5u /* -0 + b where a is not ±0, else the destination keeps its value */
#define ETALSTM_VECTOR_OP_SELECT_ZERO 6u /* -0 + b where a is ±0, else the destination keeps its value */
#define ETALSTM_VECTOR_OP_PACK 7u /* bfloat16(a) in the low half, bfloat16(b) in the high half: two weights of a narrow CAST */
#define ETALSTM_VECTOR_OP_ADD_POSITIVE 8u /* a + b where the sign of a is + and a is not 0, else the destination keeps its value */
#define ETALSTM_VECTOR_OP_ADD_SCALED 9u /* (a · parameter `bits`) + b, both rounded; neither a nor b is a parameter */
#define ETALSTM_VECTOR_OP_ADD_SQUARE 10u /* (a · a) + b, both rounded */
#define ETALSTM_VECTOR_OP_CONVERT 11u /* Only of machines whose products are integers. Integers in words have 32 bits, with their sign; a partial sum has SUM_BITS. An exponent is the integer in the ten lower bits of b, with its sign. BYTES and those of digits make words of four bytes: that of element n of the inner loop is byte n modulo 4, the bytes above it are 0, those below it are of the elements before it in this loop. A word is written, at its last element's d, with byte 3 and with the last element of the inner loop. What NOTED_DIGITS notes is noted by lane; what tells it forgets it. the integer a as float32, rounded once, times 2^b; +0 if that is below 2^-126 */
#define ETALSTM_VECTOR_OP_QUANTISE 12u /* the float32 a times 2^b, rounded to an integer, and clamped to what `bits` can hold */
#define ETALSTM_VECTOR_OP_BYTES 13u /* the integer of QUANTISE, of 8 bits, as a byte */
#define ETALSTM_VECTOR_OP_LOWER_DIGITS 14u /* its lower digit as a byte; 0 where |a| is below PARAMETER_DELTA_THRESHOLD */
#define ETALSTM_VECTOR_OP_UPPER_DIGITS 15u /* its upper digit, likewise */
#define ETALSTM_VECTOR_OP_SCALE 16u /* the float32 a times 2^b; +0 if that is below 2^-126 */
#define ETALSTM_VECTOR_OP_EXPONENT 17u /* the least integer n, from -126 on, with |a| < 2^n */
#define ETALSTM_VECTOR_OP_LARGEST 18u /* the larger of |a| and |b| */
#define ETALSTM_VECTOR_OP_ADD_INTEGERS 19u /* the integer a + b */
#define ETALSTM_VECTOR_OP_SUBTRACT_INTEGERS 20u /* the integer a - b */
#define ETALSTM_VECTOR_OP_NOTED_EXPONENT 21u /* the largest EXPONENT of all a that were noted, plus its b */
#define ETALSTM_VECTOR_OP_NOTED_CLAMPED 22u /* how many of the integers that were noted are clamped */
#define ETALSTM_VECTOR_OP_CONVERT_BYTE 23u /* what CONVERT makes of the byte of a, with its sign, that BYTES would make of this element */
#define ETALSTM_VECTOR_OP_NOTED_DIGITS 24u /* as LOWER_DIGITS; notes a, b, and the integer as it is above and below the threshold */
#define ETALSTM_VECTOR_OP_NOTED_SUM 25u /* the integer a + the sum of the integers that were noted, which wraps around */

/* Start: What a MAC sum starts from. */
#define ETALSTM_START_NOTHING 0u /* its first term; an empty sum is +0 */
#define ETALSTM_START_BIAS 1u /* bias[tile] */

/* Traffic: What a transfer carries, so that bytes are counted by kind. */
#define ETALSTM_TRAFFIC_WEIGHTS 0u /* both copies, biases, their gradients and velocities */
#define ETALSTM_TRAFFIC_ACTIVATIONS 1u /* x, h, and the gradients that arrive at and leave a layer */
#define ETALSTM_TRAFFIC_INTERMEDIATES 2u /* what a cell keeps for its backward pass */
#define ETALSTM_TRAFFIC_DELTAS 3u /* gradients of the gates */

/* Status: Why the machine stopped (or that it runs). Where it is not DONE, each word that a STORE or a TRANSPOSE of the program writes is undefined: the old one, the new one or any other. A write that was broken off has no byte enabled any more, and memory whose mask pins carry check bits writes it all the same. */
#define ETALSTM_STATUS_IDLE 0u /* nothing has run since reset */
#define ETALSTM_STATUS_RUNNING 1u /* between a start and the end of all that it caused */
#define ETALSTM_STATUS_DONE 2u /* the program has reached its HALT */
#define ETALSTM_STATUS_BAD_OPCODE 3u /* an instruction with an unknown opcode */
#define ETALSTM_STATUS_BAD_FIELD 4u /* a field has a value that it cannot have: a count of 0, or fields that contradict each other */
#define ETALSTM_STATUS_BAD_ADDRESS 5u /* an address outside its window */
#define ETALSTM_STATUS_READ_ERROR 6u /* a read was answered with SLVERR or DECERR */
#define ETALSTM_STATUS_WRITE_ERROR 7u /* a write was */
#define ETALSTM_STATUS_TRUNCATED 8u /* the program ended without HALT */
#define ETALSTM_STATUS_STUCK 9u /* no engine moved for `watchdog` cycles: they wait for each other, or a memory does not answer */
#define ETALSTM_STATUS_ABORTED 10u /* stopped by the host */
#define ETALSTM_STATUS_OVERFLOW 11u /* a compressed stream outgrew its log */
#define ETALSTM_STATUS_BAD_STREAM 12u /* an index beat or a mask that no compressed STORE writes */
#define ETALSTM_STATUS_BAD_CHECK 13u /* an instruction whose check does not fit it, or its place in the program */

/* Cycle: What a channel's PEs did in a cycle: each cycle of each channel counts once, so the sum is channels × cycles. */
#define ETALSTM_CYCLE_MAC 0u /* a MAC was issued */
#define ETALSTM_CYCLE_ELEMENTWISE 1u /* an element-wise operation was issued to the PEs */
#define ETALSTM_CYCLE_SUMS_PORT 2u /* MAC held back: the read port of the partial sums served an activation or a store */
#define ETALSTM_CYCLE_HAZARD 3u /* MAC held back: its partial sum is still in the adder */
#define ETALSTM_CYCLE_BROADCAST_EMPTY 4u /* MAC held back: no scalar has arrived */
#define ETALSTM_CYCLE_WAIT_LOAD 5u /* the next MAC instruction waits for weights */
#define ETALSTM_CYCLE_WAIT_VECTOR 6u /* ... for element-wise work */
#define ETALSTM_CYCLE_WAIT_STORE 7u /* ... for results to be written */
#define ETALSTM_CYCLE_NO_MAC 8u /* no MAC instruction is queued, element-wise work or transfers run */
#define ETALSTM_CYCLE_IDLE 9u /* no engine of the channel has work */
#define ETALSTM_CYCLE_SHARE 10u /* something was ready, the cycle belonged to work of another kind: lost to fixed SHARES */

/* BoardRegister: AXI4-Lite registers that a board has besides the machine's, byte offsets, 32 bits each. They answer whenever the host's link is up. Without ``BoardStatus.UP`` every other register reads 0. */
#define ETALSTM_BOARD_REGISTER_STATUS 0x1000u /* see :class:`BoardStatus` */
#define ETALSTM_BOARD_REGISTER_CONTROL 0x1004u /* write BOARD_RESET */
#define ETALSTM_BOARD_REGISTER_TEMPERATURE 0x1008u /* of the memory stacks in degrees Celsius: the first in bits 6:0, the second in bits 14:8 */
#define ETALSTM_BOARD_REGISTER_BIT_ERRORS 0x100cu /* that the memory controllers have found: corrected ones in bits 15:0; see BIT_ERRORS_SHIFT */

/* BoardStatus: Bits of ``BoardRegister.STATUS``. */
#define ETALSTM_BOARD_STATUS_LOCKED 1u /* the clocks run */
#define ETALSTM_BOARD_STATUS_CALIBRATED 2u /* the memory is ready */
#define ETALSTM_BOARD_STATUS_TRIPPED 4u /* the memory was too hot and is stopped, until the board is reset */
#define ETALSTM_BOARD_STATUS_UP 8u /* the machine is out of reset */

/* Fields of HEADER: offset and width in bits. */
#define ETALSTM_HEADER_OPCODE 0u, 4u
#define ETALSTM_HEADER_WAIT_LOAD 4u, 8u
#define ETALSTM_HEADER_WAIT_MAC 12u, 8u
#define ETALSTM_HEADER_WAIT_VECTOR 20u, 8u
#define ETALSTM_HEADER_WAIT_STORE 28u, 8u
#define ETALSTM_HEADER_EVERYONE 36u, 1u
#define ETALSTM_HEADER_REGISTER 37u, 4u

/* Fields of LOAD: offset and width in bits. */
#define ETALSTM_LOAD_ADDRESS 41u, 28u
#define ETALSTM_LOAD_KIND 69u, 2u
#define ETALSTM_LOAD_MEMORY 71u, 2u
#define ETALSTM_LOAD_LANE_ADDRESS 73u, 13u
#define ETALSTM_LOAD_OUTER 86u, 12u
#define ETALSTM_LOAD_INNER 98u, 12u
#define ETALSTM_LOAD_OUTER_STRIDE 110u, 13u
#define ETALSTM_LOAD_INNER_STRIDE 123u, 13u
#define ETALSTM_LOAD_MORE 136u, 1u
#define ETALSTM_LOAD_COMPRESSED 137u, 1u
#define ETALSTM_LOAD_BF16 138u, 1u
#define ETALSTM_LOAD_GROUP 139u, 4u
#define ETALSTM_LOAD_GROUP_STRIDE 143u, 28u

/* Fields of MAC: offset and width in bits. */
#define ETALSTM_MAC_WEIGHTS 41u, 13u
#define ETALSTM_MAC_SUMS 54u, 13u
#define ETALSTM_MAC_BIAS 67u, 13u
#define ETALSTM_MAC_TILES 80u, 12u
#define ETALSTM_MAC_START 92u, 1u
#define ETALSTM_MAC_BACKWARD 93u, 1u

/* Fields of VECTOR: offset and width in bits. */
#define ETALSTM_VECTOR_OP 41u, 5u
#define ETALSTM_VECTOR_A_SOURCE 46u, 2u
#define ETALSTM_VECTOR_B_SOURCE 48u, 2u
#define ETALSTM_VECTOR_A 50u, 13u
#define ETALSTM_VECTOR_B 63u, 13u
#define ETALSTM_VECTOR_D 76u, 13u
#define ETALSTM_VECTOR_OUTER 89u, 12u
#define ETALSTM_VECTOR_INNER 101u, 12u
#define ETALSTM_VECTOR_A_OUTER 113u, 12u
#define ETALSTM_VECTOR_A_INNER 125u, 12u
#define ETALSTM_VECTOR_B_OUTER 137u, 12u
#define ETALSTM_VECTOR_B_INNER 149u, 12u
#define ETALSTM_VECTOR_D_OUTER 161u, 12u
#define ETALSTM_VECTOR_D_INNER 173u, 12u
#define ETALSTM_VECTOR_SERIAL 185u, 1u
#define ETALSTM_VECTOR_BITS 186u, 4u

/* Fields of STORE: offset and width in bits. */
#define ETALSTM_STORE_ADDRESS 41u, 28u
#define ETALSTM_STORE_KIND 69u, 2u
#define ETALSTM_STORE_MEMORY 71u, 2u
#define ETALSTM_STORE_LANE_ADDRESS 73u, 13u
#define ETALSTM_STORE_OUTER 86u, 12u
#define ETALSTM_STORE_INNER 98u, 12u
#define ETALSTM_STORE_OUTER_STRIDE 110u, 13u
#define ETALSTM_STORE_INNER_STRIDE 123u, 13u
#define ETALSTM_STORE_COMPRESSED 136u, 1u
#define ETALSTM_STORE_BF16 137u, 1u
#define ETALSTM_STORE_THRESHOLD 138u, 4u
#define ETALSTM_STORE_LOG 142u, 1u
#define ETALSTM_STORE_FIRST 143u, 1u
#define ETALSTM_STORE_START 144u, 28u
#define ETALSTM_STORE_END 172u, 28u

/* Fields of TRANSPOSE: offset and width in bits. */
#define ETALSTM_TRANSPOSE_ADDRESS 41u, 28u
#define ETALSTM_TRANSPOSE_KIND 69u, 2u
#define ETALSTM_TRANSPOSE_TARGET 71u, 8u
#define ETALSTM_TRANSPOSE_LANE_ADDRESS 79u, 13u
#define ETALSTM_TRANSPOSE_OUTER 92u, 8u
#define ETALSTM_TRANSPOSE_OUTER_STRIDE 100u, 13u
#define ETALSTM_TRANSPOSE_INNER_STRIDE 113u, 13u
#define ETALSTM_TRANSPOSE_ROWS 126u, 8u
#define ETALSTM_TRANSPOSE_LANES 134u, 8u
#define ETALSTM_TRANSPOSE_OUTER_BEATS 142u, 20u
#define ETALSTM_TRANSPOSE_LANE_BEATS 162u, 20u
#define ETALSTM_TRANSPOSE_CHANNEL_BEATS 182u, 24u

/* Fields of CAST: offset and width in bits. */
#define ETALSTM_CAST_ADDRESS 41u, 28u
#define ETALSTM_CAST_KIND 69u, 2u
#define ETALSTM_CAST_COMPRESSED 71u, 1u
#define ETALSTM_CAST_CHANNEL 72u, 8u
#define ETALSTM_CAST_TILE 80u, 12u
#define ETALSTM_CAST_TILES_PER_CHANNEL 92u, 12u
#define ETALSTM_CAST_BLOCKS 104u, 12u
#define ETALSTM_CAST_GATES 116u, 3u
#define ETALSTM_CAST_BATCH 119u, 12u
#define ETALSTM_CAST_LANE 131u, 6u
#define ETALSTM_CAST_LANES 137u, 6u
#define ETALSTM_CAST_LAST_LANES 143u, 6u
#define ETALSTM_CAST_TILES 149u, 12u
#define ETALSTM_CAST_FIRST_SUM 161u, 12u
#define ETALSTM_CAST_BATCH_OUTER 173u, 1u
#define ETALSTM_CAST_START 174u, 1u
#define ETALSTM_CAST_FINISH 175u, 1u
#define ETALSTM_CAST_NARROW 176u, 1u

/* Fields of LOAD_ROWS: offset and width in bits. */
#define ETALSTM_LOAD_ROWS_ADDRESS 41u, 28u
#define ETALSTM_LOAD_ROWS_KIND 69u, 2u
#define ETALSTM_LOAD_ROWS_MEMORY 71u, 2u
#define ETALSTM_LOAD_ROWS_LANE_ADDRESS 73u, 13u
#define ETALSTM_LOAD_ROWS_OUTER 86u, 12u
#define ETALSTM_LOAD_ROWS_INNER 98u, 12u
#define ETALSTM_LOAD_ROWS_OUTER_STRIDE 110u, 13u
#define ETALSTM_LOAD_ROWS_INNER_STRIDE 123u, 13u
#define ETALSTM_LOAD_ROWS_MAP 136u, 28u
#define ETALSTM_LOAD_ROWS_CHANNEL 164u, 8u
#define ETALSTM_LOAD_ROWS_TILE 172u, 12u
#define ETALSTM_LOAD_ROWS_TILES_PER_CHANNEL 184u, 12u
#define ETALSTM_LOAD_ROWS_LANES 196u, 6u
#define ETALSTM_LOAD_ROWS_LAST_LANES 202u, 6u
#define ETALSTM_LOAD_ROWS_SINGLE 208u, 1u

/* Fields of LOOP: offset and width in bits. */
#define ETALSTM_LOOP_TURNS 41u, 32u
#define ETALSTM_LOOP_LENGTH 73u, 24u

/* Fields of ADVANCE: offset and width in bits. */
#define ETALSTM_ADVANCE_REGISTER0 41u, 4u
#define ETALSTM_ADVANCE_AMOUNT0 45u, 28u
#define ETALSTM_ADVANCE_REGISTER1 73u, 4u
#define ETALSTM_ADVANCE_AMOUNT1 77u, 28u
#define ETALSTM_ADVANCE_REGISTER2 105u, 4u
#define ETALSTM_ADVANCE_AMOUNT2 109u, 28u
#define ETALSTM_ADVANCE_REGISTER3 137u, 4u
#define ETALSTM_ADVANCE_AMOUNT3 141u, 28u
#define ETALSTM_ADVANCE_REGISTER4 169u, 4u
#define ETALSTM_ADVANCE_AMOUNT4 173u, 28u
#define ETALSTM_ADVANCE_REGISTER5 201u, 4u
#define ETALSTM_ADVANCE_AMOUNT5 205u, 28u

/* Fields of SEND: offset and width in bits. */
#define ETALSTM_SEND_ADDRESS 41u, 28u
#define ETALSTM_SEND_KIND 69u, 2u
#define ETALSTM_SEND_CHANNEL 71u, 8u
#define ETALSTM_SEND_TILE 79u, 12u
#define ETALSTM_SEND_TILES_PER_CHANNEL 91u, 12u
#define ETALSTM_SEND_BLOCKS 103u, 12u
#define ETALSTM_SEND_BATCH 115u, 12u
#define ETALSTM_SEND_OWN 127u, 12u
#define ETALSTM_SEND_WIDE 139u, 1u
#define ETALSTM_SEND_REPEATS 140u, 12u

/* Fields of PRODUCT: offset and width in bits. */
#define ETALSTM_PRODUCT_WEIGHTS 41u, 13u
#define ETALSTM_PRODUCT_ROWS 54u, 12u
#define ETALSTM_PRODUCT_SUMS 66u, 13u
#define ETALSTM_PRODUCT_ADDS 79u, 1u
#define ETALSTM_PRODUCT_BACKWARD 80u, 1u

/* An instruction: 256 bits, the least significant word first, as it lies in memory. */
typedef struct {
    uint32_t words[ETALSTM_INSTRUCTION_BITS / 32];
} etalstm_instruction;

/* Set a field of an instruction, bit by bit; bits of `value` beyond `width` are dropped. */
static inline void etalstm_set(etalstm_instruction *instruction, unsigned offset, unsigned width, uint64_t value) {
    for (unsigned n = 0; n < width; ++n) {
        const uint32_t bit = UINT32_C(1) << ((offset + n) % 32);
        uint32_t *word = &instruction->words[(offset + n) / 32];
        *word = (value >> n & 1) ? (*word | bit) : (*word & ~bit);
    }
}

/* Read a field of an instruction. */
static inline uint64_t etalstm_get(const etalstm_instruction *instruction, unsigned offset, unsigned width) {
    uint64_t value = 0;
    for (unsigned n = 0; n < width; ++n)
        value |= (uint64_t)(instruction->words[(offset + n) / 32] >> ((offset + n) % 32) & 1) << n;
    return value;
}

/* Give an instruction its check, which covers its number in the program, too: the last thing before it is written. */
static inline void etalstm_seal(etalstm_instruction *instruction, uint32_t number) {
    uint32_t crc = 0xFFFF;
    for (unsigned byte = 0; byte < ETALSTM_CHECK_OFFSET / 8; ++byte) {
        crc ^= (instruction->words[byte / 4] >> byte % 4 * 8 & 0xFF) << 8;
        for (unsigned bit = 0; bit < 8; ++bit)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xFFFF;
    }
    etalstm_set(instruction, ETALSTM_CHECK_OFFSET, ETALSTM_CHECK_BITS, crc ^ (number & 0xFFFF));
}

#endif
