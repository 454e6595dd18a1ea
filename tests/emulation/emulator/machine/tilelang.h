// Stand-ins for the device functions of TileLang that generated kernels call.
#pragma once

#include "cuda.h"

struct Barrier {
  uint64_t state;
  void init(uint32_t arrivals) { emu::barrier_init(this, arrivals); }
  void arrive() { emu::barrier_arrive(this); }
  void arrive(int rank, uint32_t does = 1) {
    if (does) emu::barrier_arrive(emu::at_rank(this, rank));
  }
  void wait(uint32_t parity) { emu::barrier_wait(this, parity); }
  void expect_transaction(uint32_t bytes) { emu::barrier_expect(this, bytes); }
  void arrive_and_expect_tx(uint32_t bytes) {
    emu::barrier_expect(this, bytes);
    emu::barrier_arrive(this);
  }
};

namespace tl {

enum class DataType { kFloat16, kBFloat16, kFloat32, kFloat8_e4m3 };
enum class CacheHintSm90 : uint64_t { EVICT_NORMAL, EVICT_FIRST, EVICT_LAST };

// One thread of every `threads` threads; of the block when that is 0.
template <int threads>
bool tl_shuffle_elect() {
  bool elected = emu::elect();
  int warp = emu::self->index / emu::kWarp;
  if (threads == 0) return elected && warp == 0;
  return elected && warp % ((threads + emu::kWarp - 1) / emu::kWarp) == 0;
}

// What costs or orders time only.
inline void prefetch_tma_descriptor(const CUtensorMap&) {}
inline void fence_barrier_init() {}
inline void fence_proxy_async() {}
inline void warpgroup_arrive() {}
inline void warpgroup_fence_operand(const void*, int) {}
template <int registers>
void warpgroup_reg_alloc() {}
template <int registers>
void warpgroup_reg_dealloc() {}
inline void pdl_trigger() {}
inline void pdl_sync() {}

// Memory accesses of a stated width.
inline uint32_t load_global_32(const void* p) { return *static_cast<const uint32_t*>(p); }
inline uint2 load_global_64(const void* p) { return *static_cast<const uint2*>(p); }
inline uint4 load_global_128(const void* p) { return *static_cast<const uint4*>(p); }
inline void store_global_32(void* p, uint32_t value) { *static_cast<uint32_t*>(p) = value; }
inline void store_global_64(void* p, uint2 value) { *static_cast<uint2*>(p) = value; }
inline void store_global_128(void* p, uint4 value) { *static_cast<uint4*>(p) = value; }

// Tensor and bulk copies.
template <CacheHintSm90 hint = CacheHintSm90::EVICT_NORMAL, class... At>
void tma_load(const CUtensorMap& map, Barrier& barrier, const void* to, At... at) {
  int position[] = {static_cast<int>(at)...};
  unsigned own = 1u << emu::self->block->rank;
  emu::tensor_load(map, &barrier, const_cast<void*>(to), position, sizeof...(At), own);
}
template <CacheHintSm90 hint = CacheHintSm90::EVICT_NORMAL, class... At>
void tma_load_multicast(const CUtensorMap& map, Barrier& barrier, const void* to, uint16_t mask,
                        At... at) {
  int position[] = {static_cast<int>(at)...};
  emu::tensor_load(map, &barrier, const_cast<void*>(to), position, sizeof...(At), mask);
}
inline void tma_load(void* to, const void* from, Barrier& barrier, uint32_t bytes) {
  emu::bulk_load(to, from, &barrier, bytes);
}
template <CacheHintSm90 hint = CacheHintSm90::EVICT_NORMAL, class... At>
void tma_store(const CUtensorMap& map, const void* from, At... at) {
  int position[] = {static_cast<int>(at)...};
  emu::tensor_store(map, from, position, sizeof...(At), false);
}
template <class... At>
void tma_store_add(const CUtensorMap& map, const void* from, At... at) {
  int position[] = {static_cast<int>(at)...};
  emu::tensor_store(map, from, position, sizeof...(At), true);
}
inline void tma_store(void* to, const void* from, uint32_t bytes) {
  emu::bulk_store(to, from, bytes);
}
inline void tma_store_arrive() { emu::store_commit(); }
template <int pending, bool read = true>
void tma_store_wait() {
  emu::store_wait(pending);
}
template <int bytes>
void cp_async_gs(const void* to, const void* from) {
  emu::async_load(const_cast<void*>(to), from, bytes);
}
template <int bytes>
void cp_async_gs_conditional(const void* to, const void* from, bool does) {
  static const char zeros[16] = {};
  emu::async_load(const_cast<void*>(to), does ? from : zeros, bytes);
}
inline void cp_async_commit() { emu::async_load_commit(); }
template <int pending>
void cp_async_wait() {
  emu::async_load_wait(pending);
}

// Tensor cores.
union GmmaDescriptor {
  uint64_t bits = 0;
  uint32_t word[2];
  operator uint64_t() const { return bits; }
  GmmaDescriptor operator+(int64_t units) const {
    GmmaDescriptor moved = *this;
    moved.word[0] += static_cast<uint32_t>(units);
    return moved;
  }
};
template <int layout, int leading, int stride, class T>
void initialize_wgmma_descriptor(GmmaDescriptor& descriptor, T* start) {
  uint64_t at = emu::shared_offset(start, 16, "wgmma descriptor");
  descriptor.bits = (at >> 4 & 0x3fff) | static_cast<uint64_t>(leading & 0x3fff) << 16 |
                    static_cast<uint64_t>(stride & 0x3fff) << 32 |
                    static_cast<uint64_t>(layout) << 62;
}
template <class T>
void increase_descriptor_offset(GmmaDescriptor& descriptor, T bytes) {
  descriptor.word[0] += static_cast<uint32_t>(bytes >> 4);
}
template <DataType type, int depth>
constexpr emu::Operand operand() {
  constexpr auto kind = type == DataType::kFloat8_e4m3 ? emu::Operand::kE4M3
                        : type == DataType::kBFloat16  ? emu::Operand::kBFloat
                                                       : emu::Operand::kHalf;
  static_assert(type != DataType::kFloat32 && depth * emu::operand_bytes(kind) == 32);
  return kind;
}
template <DataType A, DataType B, DataType C, int M, int N, int K, bool ta, bool tb, int, int>
void wgmma_ss(uint64_t a, uint64_t b, uint32_t* c, bool accumulate) {
  static_assert(M == 64 && A == B && C == DataType::kFloat32);
  emu::product({false, ta, tb, accumulate, operand<A, K>(), a, b, N}, nullptr,
               reinterpret_cast<float*>(c));
}
template <DataType A, DataType B, DataType C, int M, int N, int K, bool ta, bool tb, int, int>
void wgmma_rs(const uint32_t* a, uint64_t b, uint32_t* c, bool accumulate) {
  static_assert(M == 64 && A == B && C == DataType::kFloat32);
  emu::product({true, false, tb, accumulate, operand<A, K>(), 0, b, N}, a,
               reinterpret_cast<float*>(c));
}
inline void warpgroup_commit_batch() { emu::product_commit(); }
template <int pending>
void warpgroup_wait() {
  emu::product_wait(pending);
}
template <int pending>
void wait_wgmma() {
  emu::product_wait(pending);
}
template <DataType A, DataType B, DataType C, int M, int N, int K, bool, bool>
void mma_sync(float* c, const uint32_t* a, const uint32_t* b) {
  static_assert(M == 16 && N == 8 && K == 16 && A == B && C == DataType::kFloat32);
  emu::mma_m16n8k16(c, a, b, operand<A, K>());
}

// Matrices between shared memory and registers.
template <int matrices>
void move_from(const void* row, void* registers, bool transpose) {
  emu::matrix_move(false, transpose, matrices, row, static_cast<uint32_t*>(registers));
}
inline void ptx_ldmatrix_x1(const void* row, void* to) { move_from<1>(row, to, false); }
inline void ptx_ldmatrix_x2(const void* row, void* to) { move_from<2>(row, to, false); }
inline void ptx_ldmatrix_x4(const void* row, void* to) { move_from<4>(row, to, false); }
inline void ptx_ldmatrix_x2_trans(const void* row, void* to) { move_from<2>(row, to, true); }
inline void ptx_ldmatrix_x4_trans(const void* row, void* to) { move_from<4>(row, to, true); }
template <class... Words>
void ptx_stmatrix(const void* row, Words... words) {
  uint32_t registers[] = {words...};
  emu::matrix_move(true, false, sizeof...(Words), row, registers);
}
inline void ptx_stmatrix_m8n8_x2(const void* row, uint a, uint b) { ptx_stmatrix(row, a, b); }
inline void ptx_stmatrix_m8n8_x4(const void* row, uint a, uint b, uint c, uint d) {
  ptx_stmatrix(row, a, b, c, d);
}
inline void ptx_stmatrix_m8n8_x4_trans(const void* row, uint a, uint b, uint c, uint d) {
  uint32_t registers[] = {a, b, c, d};
  emu::matrix_move(true, true, 4, row, registers);
}

// Barriers of part of a block, and of a cluster.
inline void __sync_thread_partial(int id = 0, int threads = 0) {
  emu::named_barrier_sync(id, threads);
}
inline void __named_barrier_arrive(int id, int threads) {
  emu::named_barrier_arrive(id, threads);
}
inline void cluster_sync() { emu::cluster_sync(); }
inline int block_rank_in_cluster() { return emu::self->block->rank; }
inline void mbarrier_arrive(Barrier& barrier, int rank, uint32_t does) {
  barrier.arrive(rank, does);
}

// Reductions.
struct SumOp {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOp {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
  float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct MinOp {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
  float operator()(float a, float b) const { return fminf(a, b); }
};

template <class T>
T shfl_sync(unsigned mask, T value, int source) {
  return __shfl_sync(mask, value, source);
}
template <class T>
T shfl_xor_sync(unsigned mask, T value, int bits) {
  return __shfl_xor_sync(mask, value, bits);
}
template <class T>
T shfl_up_sync(unsigned mask, T value, int delta) {
  return __shfl_up_sync(mask, value, delta);
}
template <class T>
T shfl_down_sync(unsigned mask, T value, int delta) {
  return __shfl_down_sync(mask, value, delta);
}
template <class T, class Op>
T warp_reduce(T value, Op op) {
  for (int bits = emu::kWarp / 2; bits; bits /= 2)
    value = op(value, __shfl_xor_sync(kAllLanes, value, bits));
  return value;
}
template <class T>
T warp_reduce_sum(T value) {
  return warp_reduce(value, SumOp());
}
template <class T>
T warp_reduce_max(T value) {
  return warp_reduce(value, MaxOp());
}
template <class T>
T warp_reduce_min(T value) {
  return warp_reduce(value, MinOp());
}

struct SyncThreadsBarrier {
  template <int = 0>
  static void sync() {
    __syncthreads();
  }
};
template <int threads>
struct NamedBarrier {
  template <int id = 1>
  static void sync() {
    emu::named_barrier_sync(id, threads);
  }
};

// Combines the values of threads whose indices differ in the bits from `scale` to `threads`.
template <class Op, int threads, int scale, int first = 0, class Meet = SyncThreadsBarrier,
          int batch = 1, int stride = 0>
struct AllReduce {
  template <class T>
  static T run(T value, T* scratch = nullptr) {
    run_batch(&value, scratch);
    return value;
  }
  template <class T>
  static void run_batch(T* values, T* scratch = nullptr) {
    for (int bits = threads / 2; bits >= scale; bits /= 2) {
      int own = emu::self->index - first;
      if (bits >= emu::kWarp) {
        Meet::template sync<1>();
        for (int i = 0; i < batch; ++i) scratch[own + i * stride] = values[i];
        Meet::template sync<2>();
        for (int i = 0; i < batch; ++i)
          values[i] = Op()(values[i], scratch[(own ^ bits) + i * stride]);
      } else {
        for (int i = 0; i < batch; ++i)
          values[i] = Op()(values[i], __shfl_xor_sync(kAllLanes, values[i], bits));
      }
    }
  }
};

}  // namespace tl

// Atomics. The memory order changes nothing here.
template <class T, class V>
void AtomicAdd(T* address, V value, int = 0) {
  atomicAdd(address, value);
}
template <class T, class V>
T AtomicAddRet(T* address, V value, int = 0) {
  return atomicAdd(address, value);
}
template <class T, class V>
void AtomicMax(T* address, V value, int = 0) {
  if (*address < static_cast<T>(value)) *address = static_cast<T>(value);
  ++emu::progress;
}
template <class T>
T AtomicLoad(const T* address, int) {
  emu::yield("atomic load", 0);
  ++emu::progress;
  return *address;
}
template <class T, class V>
void AtomicStore(T* address, V value, int) {
  *address = static_cast<T>(value);
  ++emu::progress;
}
