// Operations that the lanes of a warp perform together.
#include <utility>

#include "machine.h"

namespace emu {

namespace {

// Waits for all lanes; the last one to come does what is to be done for all.
template <class Together>
void meet(const char* what, Together together) {
  Warp& warp = self->warp();
  long generation = warp.generation;
  ++progress;
  if (++warp.arrived == kWarp) {
    together(warp);
    warp.arrived = 0;
    ++warp.generation;
  } else {
    wait_until([&] { return warp.generation != generation; }, what, warp.arrived);
  }
}

}  // namespace

void warp_sync() {
  meet("warp barrier", [](Warp&) {});
}

uint64_t shuffle(uint64_t value, int source_lane) {
  Warp& warp = self->warp();
  warp.given[self->lane()] = value;
  meet("shuffle", [](Warp& all) {
    for (int i = 0; i < kWarp; ++i) all.taken[i] = all.given[i];
  });
  return warp.taken[source_lane & (kWarp - 1)];
}

uint32_t ballot(bool value) {
  Warp& warp = self->warp();
  warp.given[self->lane()] = value;
  meet("ballot", [](Warp& all) {
    uint64_t bits = 0;
    for (int i = 0; i < kWarp; ++i) bits |= all.given[i] << i;
    all.taken[0] = bits;
  });
  return static_cast<uint32_t>(warp.taken[0]);
}

// The same lane is elected every time, which one is up to the machine.
bool elect() {
  warp_sync();
  int elected = schedule.random_order ? static_cast<int>(schedule.seed % kWarp) : 0;
  return self->lane() == elected;
}

// ldmatrix and stmatrix: 8×8 matrices of 16-bit elements whose rows the lanes point at.
void matrix_move(bool store, bool transpose, int matrices, const void* row, uint32_t* registers) {
  Warp& warp = self->warp();
  warp.pointer[self->lane()] = row;
  warp.registers[self->lane()] = registers;
  meet("ldmatrix", [&](Warp& all) {
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int lane = 0; lane < kWarp; ++lane) {
        for (int half = 0; half < 2; ++half) {
          int r = lane / 4, c = lane % 4 * 2 + half;
          if (transpose) std::swap(r, c);
          const void* start = all.pointer[8 * matrix + r];
          if (shared_offset(start, 16, "matrix row") % 16) fail("misaligned matrix row");
          auto* element = static_cast<uint16_t*>(const_cast<void*>(start)) + c;
          auto* held = reinterpret_cast<uint16_t*>(all.registers[lane] + matrix) + half;
          *(store ? element : held) = *(store ? held : element);
        }
      }
    }
  });
  meet("ldmatrix", [](Warp&) {});  // the pointers stay valid until all have read them
}

void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, Operand kind) {
  Warp& warp = self->warp();
  int lane = self->lane();
  warp.pointer[lane] = a;
  warp.registers[lane] = const_cast<uint32_t*>(b);
  warp.given[lane] = reinterpret_cast<uint64_t>(d);
  meet("mma", [&](Warp& all) {
    float left[16][16], right[16][8];
    for (int t = 0; t < kWarp; ++t) {
      auto* ra = static_cast<const uint16_t*>(all.pointer[t]);
      auto* rb = reinterpret_cast<const uint16_t*>(all.registers[t]);
      for (int i = 0; i < 8; ++i)
        left[t / 4 + 8 * (i / 2 % 2)][t % 4 * 2 + i % 2 + 8 * (i / 4)] = operand_at(ra + i, kind);
      for (int i = 0; i < 4; ++i)
        right[t % 4 * 2 + i % 2 + 8 * (i / 2)][t / 4] = operand_at(rb + i, kind);
    }
    for (int t = 0; t < kWarp; ++t) {
      auto* sums = reinterpret_cast<float*>(all.given[t]);
      for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k)
          sums[i] += left[t / 4 + 8 * (i / 2)][k] * right[k][t % 4 * 2 + i % 2];
    }
  });
  meet("mma", [](Warp&) {});
}

}  // namespace emu
