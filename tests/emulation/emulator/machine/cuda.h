// Stand-ins for the CUDA language: qualifiers, vector types, 16-bit floats, built-in variables.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "machine.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __restrict__
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define threadIdx (emu::ThreadIndex())
#define blockIdx (emu::self->block->id)
#define gridDim (emu::grid_extent)
#define blockDim (emu::block_extent)

namespace emu {
struct ThreadIndex {
  int x = self->index, y = 0, z = 0;
};
}  // namespace emu

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using CUtensorMap = emu::TensorMap;

// Vector types are aligned as on the device: a misaligned access is reported.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Vector;
template <class T>
struct Vector<T, 1> {
  T x;
};
template <class T>
struct alignas(sizeof(T) * 2) Vector<T, 2> {
  T x, y;
};
template <class T>
struct Vector<T, 3> {
  T x, y, z;
};
template <class T>
struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Vector<T, 4> {
  T x, y, z, w;
};

#define EMU_VECTORS(name, type)                                                        \
  using name##1 = Vector<type, 1>;                                                     \
  using name##2 = Vector<type, 2>;                                                     \
  using name##3 = Vector<type, 3>;                                                     \
  using name##4 = Vector<type, 4>;                                                     \
  inline name##1 make_##name##1(type x) { return {x}; }                                \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                     \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }          \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EMU_VECTORS(char, signed char)
EMU_VECTORS(uchar, unsigned char)
EMU_VECTORS(short, short)
EMU_VECTORS(ushort, unsigned short)
EMU_VECTORS(int, int)
EMU_VECTORS(uint, unsigned int)
EMU_VECTORS(longlong, long long)
EMU_VECTORS(ulonglong, unsigned long long)
EMU_VECTORS(float, float)
EMU_VECTORS(double, double)
#undef EMU_VECTORS

// 16-bit floats convert to and from float32, rounding to nearest even; arithmetic is float32's.
struct half_t {
  _Float16 value;
  half_t() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  half_t(T from) : value(static_cast<_Float16>(from)) {}
  operator float() const { return static_cast<float>(value); }
};

struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  bfloat16_t(T from) {
    float wide = static_cast<float>(from);
    uint32_t word;
    memcpy(&word, &wide, 4);
    bits = wide != wide ? 0x7fff : (word + 0x7fff + (word >> 16 & 1)) >> 16;
  }
  operator float() const {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float wide;
    memcpy(&wide, &word, 4);
    return wide;
  }
};

// Codes of 8 bits: conversion rounds to nearest even and cuts off at the largest.
struct fp8_e4_t {
  uint8_t bits;
  fp8_e4_t() = default;
  explicit fp8_e4_t(float from) : bits(emu::to_e4m3(from)) {}
};
using fp8_e4_8_t = Vector<uint, 2>;
using fp8_e4_4_t = Vector<uint, 1>;

using half = half_t;
using __half = half_t;
using __nv_bfloat16 = bfloat16_t;
using half2 = Vector<half_t, 2>;
using __half2 = half2;
using __nv_bfloat162 = Vector<bfloat16_t, 2>;
inline half2 make_half2(half_t x, half_t y) { return {x, y}; }
inline half2 __float22half2_rn(float2 from) { return {half_t(from.x), half_t(from.y)}; }
inline half2 __float2half2_rn(float from) { return {half_t(from), half_t(from)}; }
inline half_t fma(half_t a, half_t b, half_t c) {  // exact in float64 but for its one rounding
  return half_t(double(a) * double(b) + double(c));
}
inline half2 __hfma2(half2 a, half2 b, half2 c) { return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y)}; }
inline half2 __hmul2(half2 a, half2 b) {
  return {half_t(double(a.x) * double(b.x)), half_t(double(a.y) * double(b.y))};
}
inline half2 __hsub2(half2 a, half2 b) {
  return {half_t(double(a.x) - double(b.x)), half_t(double(a.y) - double(b.y))};
}
inline float2 __half22float2(half2 from) { return {from.x, from.y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 from) {
  return {bfloat16_t(from.x), bfloat16_t(from.y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 from) { return {from.x, from.y}; }

template <class T>
unsigned pack_halves(T low, T high) {
  T both[2] = {low, high};
  unsigned word;
  memcpy(&word, both, 4);
  return word;
}
inline unsigned __pack_half2(half_t low, half_t high) { return pack_halves(low, high); }
inline unsigned __pack_half2(bfloat16_t low, bfloat16_t high) { return pack_halves(low, high); }
inline unsigned __pack_nv_bfloat162(bfloat16_t low, bfloat16_t high) {
  return pack_halves(low, high);
}

// Arithmetic.
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline int max(int a, int b) { return a < b ? b : a; }
inline int min(int a, int b) { return b < a ? b : a; }
inline uint max(uint a, uint b) { return a < b ? b : a; }
inline uint min(uint a, uint b) { return b < a ? b : a; }
inline int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }
inline int64_t min(int64_t a, int64_t b) { return b < a ? b : a; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __int_as_float(int bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline int __float_as_int(float value) {
  int bits;
  memcpy(&bits, &value, 4);
  return bits;
}
template <class T>
T __ldg(const T* pointer) {
  return *pointer;
}
template <class T>
T __ldcs(const T* pointer) {
  return *pointer;
}

// Synchronisation and warps.
constexpr unsigned kAllLanes = 0xffffffff;

inline void __syncthreads() { emu::named_barrier_sync(0, emu::block_extent.x); }
inline void __syncwarp(unsigned = kAllLanes) { emu::warp_sync(); }
inline void __threadfence() {}
inline void __threadfence_block() {}

// Moves any value of at most eight bytes from the lane that `source` names.
template <class T>
T shuffled(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8);
  if (mask != kAllLanes) emu::fail("shuffle among part of a warp");
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  word = emu::shuffle(word, source);
  memcpy(&value, &word, sizeof value);
  return value;
}

// A lane that reads beyond its segment of `width` lanes keeps its own value.
inline int lane_within(int lane, int source, int width) {
  return source / width == lane / width && source >= 0 ? source : lane;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = emu::kWarp) {
  int lane = emu::self->lane();
  return shuffled(mask, value, lane / width * width + (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = emu::kWarp) {
  int lane = emu::self->lane();
  return shuffled(mask, value, lane_within(lane, lane ^ bits, width));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int delta, int width = emu::kWarp) {
  int lane = emu::self->lane();
  return shuffled(mask, value, lane_within(lane, lane - delta, width));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int delta, int width = emu::kWarp) {
  int lane = emu::self->lane();
  return shuffled(mask, value, lane_within(lane, lane + delta, width));
}
inline unsigned __ballot_sync(unsigned, bool value) { return emu::ballot(value); }
inline bool __any_sync(unsigned, bool value) { return emu::ballot(value) != 0; }
inline bool __all_sync(unsigned, bool value) { return emu::ballot(value) == kAllLanes; }

inline void* __cluster_map_shared_rank(const void* pointer, unsigned rank) {
  return emu::at_rank(pointer, rank);
}

// Threads are switched only where they wait, so a plain read and write is atomic.
template <class T, class V>
T atomicAdd(T* address, V value) {
  T before = *address;
  *address = static_cast<T>(before + static_cast<T>(value));
  ++emu::progress;
  return before;
}
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
