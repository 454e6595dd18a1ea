// wgmma: 64 rows times N columns, 32 bytes deep, float32 accumulators in registers.
//
// Descriptors, swizzles and the register layout are those of the hardware. Under a schedule with
// late products, operands are read as late as the wait allows.
#include <cmath>
#include <cstring>

#include "machine.h"

namespace emu {

namespace {

// Four bits of exponent, biased by 7, and three of mantissa; all ones is NaN, and nothing infinite.
float e4m3(uint8_t bits) {
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  float magnitude = exponent == 15 && mantissa == 7 ? NAN
                    : exponent                      ? ldexpf(8 + mantissa, exponent - 10)
                                                    : ldexpf(mantissa, -9);
  return bits & 0x80 ? -magnitude : magnitude;
}

}  // namespace

uint8_t to_e4m3(float value) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  int exponent;
  frexpf(fminf(fabsf(value), 448), &exponent);
  exponent = exponent - 1 < -6 ? -6 : exponent - 1;
  int units = static_cast<int>(nearbyintf(ldexpf(fminf(fabsf(value), 448), 3 - exponent)));
  return sign | (units < 8 ? units : (exponent + 7) * 8 + units - 8);  // 16 units carry over
}

float operand_at(const void* address, Operand kind) {
  if (kind == Operand::kE4M3) return e4m3(*static_cast<const uint8_t*>(address));
  uint16_t bits;
  memcpy(&bits, address, 2);
  if (kind == Operand::kBFloat) {
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
  }
  _Float16 value;
  memcpy(&value, &bits, 2);
  return static_cast<float>(value);
}

namespace {

constexpr int kRows = 64, kDepthBytes = 32, kMaxColumns = 256;
constexpr int kUnit = 16;  // bytes that lie together in every layout

struct Descriptor {
  uint64_t start, leading, stride;
  int swizzle;  // as in a tensor map
  int size;     // bytes of an element
  int width;    // elements of a swizzled row

  Descriptor(uint64_t bits, int size) : size(size) {
    static const int modes[] = {0, 3, 2, 1};
    start = (bits & 0x3fff) << 4;
    leading = ((bits >> 16) & 0x3fff) << 4;
    stride = ((bits >> 32) & 0x3fff) << 4;
    swizzle = modes[bits >> 62];
    width = (kUnit << swizzle) / size;
  }

  // Address of element (i, k), i along the outer extent of the product.
  const char* element(bool outer_first, int i, int k) const {
    uint64_t at = start;
    if (!outer_first) {
      at += i / 8 * stride;
      int unit = kUnit / size;
      at += swizzle ? (i % 8 * width + k) * size
                    : k / unit * leading + i % 8 * kUnit + k % unit * size;
    } else if (size != 2) {
      fail("wgmma of a transposed operand that is not 16 bits wide");
    } else if (swizzle) {
      at += i / width * leading + i % width * 2 + k % 8 * width * 2 + k / 8 * stride;
    } else {
      at += i / 8 * stride + k / 8 * leading + k % 8 * 16 + i % 8 * 2;
    }
    at = swizzled(at, swizzle);
    if (at + size > static_cast<uint64_t>(shared_bytes)) fail("wgmma operand outside shared memory");
    return self->block->shared + at;
  }
};

float a_element(const Product& p, const Descriptor& a, int row, int k) {
  if (!p.a_in_registers) return operand_at(a.element(p.transpose_a, row, k), p.kind);
  if (a.size != 2) fail("wgmma of registers that are not 16 bits wide");
  int thread = row / 16 * 32 + row % 8 * 4 + k % 8 / 2;
  auto* word = p.a[thread] + row % 16 / 8 + k / 8 * 2;
  return operand_at(reinterpret_cast<const char*>(word) + k % 2 * 2, p.kind);
}

void execute(Product& p) {
  static float left[kRows][kDepthBytes], right[kDepthBytes][kMaxColumns];
  static float sums[kRows][kMaxColumns];
  int size = operand_bytes(p.kind), depth = kDepthBytes / size;
  Descriptor a(p.a_descriptor, size), b(p.b_descriptor, size);
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < depth; ++k) left[row][k] = a_element(p, a, row, k);
  for (int k = 0; k < depth; ++k)
    for (int column = 0; column < p.columns; ++column)
      right[k][column] = operand_at(b.element(p.transpose_b, column, k), p.kind);
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < p.columns; ++column) sums[row][column] = 0;
    for (int k = 0; k < depth; ++k)
      for (int column = 0; column < p.columns; ++column)
        sums[row][column] += left[row][k] * right[k][column];
  }
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    int row = thread / 32 * 16 + thread % 32 / 4;
    for (int i = 0; i < p.columns / 2; ++i) {
      float sum = sums[row + i / 2 % 2 * 8][i / 4 * 8 + thread % 4 * 2 + i % 2];
      float& c = p.c[thread][i];
      c = p.accumulate ? c + sum : sum;
    }
  }
  p.done = true;
  ++progress;
}

bool same(const Product& x, const Product& y) {
  return x.a_in_registers == y.a_in_registers && x.columns == y.columns &&
         x.a_descriptor == y.a_descriptor && x.b_descriptor == y.b_descriptor &&
         x.accumulate == y.accumulate;
}

}  // namespace

void product(const Product& issued, const uint32_t* a, float* c) {
  auto& queue = self->block->products[self->index / kWarpgroup];
  size_t at = self->products++;
  if (queue.size() == at) queue.push_back(issued);
  Product& p = queue[at];
  if (!same(p, issued)) fail("wgmma operands differ within a warpgroup");
  p.a[self->index % kWarpgroup] = a;
  p.c[self->index % kWarpgroup] = c;
  ++progress;
  if (++p.issued == kWarpgroup && !schedule.late_products) execute(p);
}

void product_commit() { self->product_groups.push_back(self->products); }

void product_wait(int pending) {
  auto& groups = self->product_groups;
  if (groups.size() <= static_cast<size_t>(pending)) return;
  size_t through = groups[groups.size() - pending - 1];
  auto& queue = self->block->products[self->index / kWarpgroup];
  for (size_t i = 0; i < through; ++i) {
    if (queue[i].done) continue;
    wait_until([&] { return queue[i].issued == kWarpgroup; }, "wgmma of the others", i);
    if (!queue[i].done) execute(queue[i]);
  }
}

}  // namespace emu
