/* Sums of products of int16, in int32 or int64: exact, so every processor gives the same integers.
 *
 * The numbers of a sum lie in pairs. A panel has 16 columns of a matrix: for each pair of rows, the two numbers of each
 * column. `limit` is the number of pairs whose products an int32 surely holds.
 */
#include <stdint.h>

#define COLUMNS 16
#define LINE 32   /* numbers of a line of a cache */
#define BLOCK 256 /* pairs of a panel that stay in the first cache */

#ifdef __SSE2__
#include <immintrin.h>
#endif

#ifdef __AVX2__
typedef struct { __m256i low, high; } sums;
static inline sums zero(void) { sums s = {_mm256_setzero_si256(), _mm256_setzero_si256()}; return s; }
static inline __m256i dot(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(sum, a, b);
#elif defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}
/* A panel's numbers of one pair of rows, in registers: from memory the compiler would read them anew for each row. */
typedef sums column_numbers;
static inline column_numbers numbers_of(const int16_t *panel) {
    const __m256i *at = (const __m256i *)panel;
    column_numbers of = {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
    __asm__("" : "+x"(of.low), "+x"(of.high));
    return of;
}
static inline sums add_pair(sums s, int32_t pair, column_numbers of) {
    __m256i both = _mm256_set1_epi32(pair);
    s.low = dot(s.low, both, of.low);
    s.high = dot(s.high, both, of.high);
    return s;
}
static inline void store(sums s, int32_t *out) {
    _mm256_storeu_si256((__m256i *)out, s.low);
    _mm256_storeu_si256((__m256i *)(out + 8), s.high);
}
/* Two rows of a matrix that is not in panels; columns come in the order 0-3 8-11 4-7 12-15. */
static inline sums add_rows(sums s, int32_t pair, const int16_t *first, const int16_t *second) {
    __m256i both = _mm256_set1_epi32(pair);
    __m256i a = _mm256_loadu_si256((const __m256i *)first), b = _mm256_loadu_si256((const __m256i *)second);
    s.low = dot(s.low, both, _mm256_unpacklo_epi16(a, b));
    s.high = dot(s.high, both, _mm256_unpackhi_epi16(a, b));
    return s;
}
static inline void store_rows(sums s, int32_t *out) {
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(s.low, s.high, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 8), _mm256_permute2x128_si256(s.low, s.high, 0x31));
}
#else
typedef struct { int32_t of[COLUMNS]; } sums;
static inline sums zero(void) { sums s = {{0}}; return s; }
typedef const int16_t *column_numbers;
static inline column_numbers numbers_of(const int16_t *panel) { return panel; }
static inline sums add_pair(sums s, int32_t pair, column_numbers of) {
    int32_t a = (int16_t)pair, b = pair >> 16;
    for (int n = 0; n < COLUMNS; n++) s.of[n] += a * of[2 * n] + b * of[2 * n + 1];
    return s;
}
static inline void store(sums s, int32_t *out) {
    for (int n = 0; n < COLUMNS; n++) out[n] = s.of[n];
}
static inline sums add_rows(sums s, int32_t pair, const int16_t *first, const int16_t *second) {
    int32_t a = (int16_t)pair, b = pair >> 16;
    for (int n = 0; n < COLUMNS; n++) s.of[n] += a * first[n] + b * second[n];
    return s;
}
static inline void store_rows(sums s, int32_t *out) { store(s, out); }
#endif

#ifdef __SSE2__
/* Turn 8 rows of 8 numbers. */
static inline void turn_block(const int16_t *from, long stride, int16_t *to, long width) {
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = _mm_loadu_si128((const __m128i *)(from + i * stride));
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
        b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm_unpacklo_epi32(b[i + j], b[i + 2 + j]);
            a[i + 2 * j + 1] = _mm_unpackhi_epi32(b[i + j], b[i + 2 + j]);
        }
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(to + 2 * i * width), _mm_unpacklo_epi64(a[i], a[i + 4]));
        _mm_storeu_si128((__m128i *)(to + (2 * i + 1) * width), _mm_unpackhi_epi64(a[i], a[i + 4]));
    }
}
#else
static inline void turn_block(const int16_t *from, long stride, int16_t *to, long width) {
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) to[j * width + i] = from[i * stride + j];
}
#endif

/* Copy a matrix, of rows that begin `stride` numbers behind one another, as one of `columns` rows. */
void turn(const int16_t *from, long stride, long rows, long columns, int16_t *to, long width) {
    long of_blocks = rows & ~7, filled = columns & ~7;
    for (long first = 0; first < of_blocks; first += LINE)
        for (long n = 0; n < filled; n += 8)
            for (long m = first; m < of_blocks && m < first + LINE; m += 8)
                turn_block(from + m * stride + n, stride, to + n * width + m, width);
    for (long n = 0; n < columns; n++)
        for (long m = n < filled ? of_blocks : 0; m < rows; m++) to[n * width + m] = from[m * stride + n];
}

/* Fill panels from so many columns of a matrix of `terms` rows, an even number. */
void fill_panels(const int16_t *rows, long stride, long terms, long columns, int16_t *panels) {
    for (long n = 0; n < columns; n += COLUMNS)
        for (long k = 0; k < terms; k += 2)
            for (long i = 0; i < COLUMNS; i++) {
                *panels++ = rows[k * stride + n + i];
                *panels++ = rows[(k + 1) * stride + n + i];
            }
}

static inline int32_t both_of(int16_t first, int16_t second) {
    return (int32_t)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16);
}

static inline int32_t pair_of(const int16_t *a) { return both_of(a[0], a[1]); }

static inline void add_to(int64_t *wide, int32_t *narrow, const int32_t *sums) {
    if (wide)
        for (int n = 0; n < COLUMNS; n++) wide[n] += sums[n];
    else
        for (int n = 0; n < COLUMNS; n++) narrow[n] += sums[n];
}

#define TILE(ROWS)                                                                                                     \
    static inline void tile##ROWS(const int16_t *a, long stride, const int16_t *panel, long pairs, int64_t *wide,      \
                                  int32_t *narrow, long width) {                                                       \
        sums s[ROWS];                                                                                                  \
        for (int i = 0; i < ROWS; i++) s[i] = zero();                                                                  \
        _Pragma("GCC unroll 2") for (long k = 0; k < pairs; k++) {                                                     \
            column_numbers of = numbers_of(panel + 2 * COLUMNS * k);                                                   \
            for (int i = 0; i < ROWS; i++) s[i] = add_pair(s[i], pair_of(a + i * stride + 2 * k), of);                 \
        }                                                                                                              \
        for (int i = 0; i < ROWS; i++) {                                                                               \
            int32_t found[COLUMNS];                                                                                    \
            store(s[i], found);                                                                                        \
            add_to(wide ? wide + i * width : 0, narrow + i * width, found);                                            \
        }                                                                                                              \
    }
TILE(4) TILE(2) TILE(1)

/* Add the products of `rows` rows of a, of `pairs` pairs each, and of `panels` panels: to wide, or without it to narrow.
 * A row of a begins `stride` numbers behind the one before, a row of sums `width`.
 */
void add_products(const int16_t *a, long stride, long rows, const int16_t *b, long pairs, long panels, long limit,
                  int64_t *wide, int32_t *narrow, long width) {
    long step = limit < BLOCK ? limit : BLOCK;
    for (long first = 0; first < pairs; first += step) {
        long count = pairs - first < step ? pairs - first : step;
        for (long p = 0; p < panels; p++) {
            const int16_t *panel = b + 2 * COLUMNS * (p * pairs + first), *from = a + 2 * first;
            long m = 0;
#define TO wide ? wide + m * width + COLUMNS * p : 0, narrow + m * width + COLUMNS * p, width
            for (; m + 4 <= rows; m += 4) tile4(from + m * stride, stride, panel, count, TO);
            for (; m + 2 <= rows; m += 2) tile2(from + m * stride, stride, panel, count, TO);
            for (; m < rows; m++) tile1(from + m * stride, stride, panel, count, TO);
        }
    }
}

/* List the nonzero numbers of a row; give how many there are. */
static inline long nonzero(const int16_t *row, long terms, int64_t *numbers) {
    long count = 0, k = 0;
#ifdef __AVX2__
    for (; k + 32 <= terms; k += 32) {
        const __m256i *at = (const __m256i *)(row + k), none = _mm256_setzero_si256();
        __m256i low = _mm256_cmpeq_epi16(_mm256_loadu_si256(at), none);
        __m256i high = _mm256_cmpeq_epi16(_mm256_loadu_si256(at + 1), none);
        __m256i zeros = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
        for (uint32_t left = ~(uint32_t)_mm256_movemask_epi8(zeros); left; left &= left - 1)
            numbers[count++] = k + __builtin_ctz(left);
    }
#endif
    for (; k < terms; k++) {
        numbers[count] = k;
        count += row[k] != 0;
    }
    return count;
}

/* The same for an a of which much is zero, and a matrix b of `terms` rows, `columns` numbers each, that is in no panels.
 * `numbers` has room for `terms` numbers, and columns are a multiple of 64.
 */
void add_sparse_products(const int16_t *a, long stride, long rows, const int16_t *b, long terms, long columns,
                         long limit, int64_t *wide, int32_t *narrow, long width, int64_t *numbers) {
    for (long m = 0; m < rows; m++) {
        const int16_t *row = a + m * stride;
        long count = nonzero(row, terms, numbers);
        for (long first = 0; first < count; first += 2 * limit) {
            long end = count - first < 2 * limit ? count : first + 2 * limit;
            for (long n = 0; n < columns; n += 4 * COLUMNS) {
                sums s[4] = {zero(), zero(), zero(), zero()};
                for (long k = first; k < end; k += 2) {
                    long one = numbers[k], other = k + 1 < end ? numbers[k + 1] : one;
                    int32_t both = both_of(row[one], k + 1 < end ? row[other] : 0);
                    const int16_t *left = b + one * columns + n, *right = b + other * columns + n;
                    for (int i = 0; i < 4; i++)
                        s[i] = add_rows(s[i], both, left + COLUMNS * i, right + COLUMNS * i);
                }
                for (int i = 0; i < 4; i++) {
                    int32_t found[COLUMNS];
                    long at = m * width + n + COLUMNS * i;
                    store_rows(s[i], found);
                    add_to(wide ? wide + at : 0, narrow + at, found);
                }
            }
        }
    }
}
