// The machine on which emulated kernels run: blocks of one cluster, each thread a fiber.
//
// Fibers are switched only where a thread waits, so every other statement is atomic. A schedule
// decides in which order warps run, when asynchronous copies land and whether wgmma reads its
// operands when it is issued or as late as its wait; correct kernels give the same result under
// all of them. Not modelled: time, caches, proxy fences, register liveness.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace emu {

constexpr int kWarp = 32;
constexpr int kWarpgroup = 128;
constexpr int kNamedBarriers = 16;

struct Extent {
  int x = 1, y = 1, z = 1;
};

struct Schedule {
  int late_products;  // wgmma reads its operands at its wait, not at its issue
  int late_copies;    // asynchronous copies take a random number of turns
  int random_order;   // warps and blocks in random order, some warpgroups slow
  unsigned seed;
};

// An asynchronous copy that has been issued.
struct Transfer {
  int delay;
  std::function<void()> land;
  bool done = false;
};
using Transfers = std::vector<std::shared_ptr<Transfer>>;

// Copies that a thread commits in groups and waits for by count.
struct TransferGroups {
  Transfers open;
  std::vector<Transfers> committed;
};

struct NamedBarrier {
  int arrived = 0, expected = 0;
  long generation = 0;
};

// A point that all lanes of a warp reach together.
struct Warp {
  int arrived = 0;
  long generation = 0;
  uint64_t given[kWarp], taken[kWarp];
  const void* pointer[kWarp];
  uint32_t* registers[kWarp];
};

enum class Operand { kHalf, kBFloat, kE4M3 };
constexpr int operand_bytes(Operand kind) { return kind == Operand::kE4M3 ? 1 : 2; }

// One wgmma instruction, complete when all threads of its warpgroup have issued it.
struct Product {
  bool a_in_registers, transpose_a, transpose_b, accumulate;
  Operand kind;
  uint64_t a_descriptor, b_descriptor;
  int columns;
  int issued = 0;
  bool done = false;
  const uint32_t* a[kWarpgroup];
  float* c[kWarpgroup];
};

struct Block {
  Extent id;
  int rank = 0;             // in the cluster
  char* shared = nullptr;   // dynamic shared memory, then that of fixed size
  NamedBarrier named[kNamedBarriers];
  std::vector<Warp> warps;
  std::vector<std::deque<Product>> products;  // of each warpgroup, in issue order
};

struct Thread {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  bool done = false;
  const char* waiting = "start";
  long detail = 0;
  Block* block = nullptr;
  int index = 0;  // in the block
  size_t products = 0;
  std::vector<size_t> product_groups;
  TransferGroups stores, loads;

  int lane() const { return index % kWarp; }
  Warp& warp() const { return block->warps[index / kWarp]; }
};

extern Thread* self;       // the running thread
extern Extent grid_extent, block_extent, cluster_extent;
extern int shared_bytes;   // dynamic shared memory of a block
extern Schedule schedule;
extern long progress;      // counts everything that may let a waiting thread go on
extern std::mt19937 random_bits;

// Ends the run with a message that names thread and block. Does not return to a thread.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Gives the processor away until the scheduler comes round again.
[[gnu::noinline]] void yield(const char* waiting, long detail);

template <class Condition>
void wait_until(Condition condition, const char* waiting, long detail = 0) {
  while (!condition()) yield(waiting, detail);
  ++progress;
}

// Shared memory: the array declared at a given place of the source, and the same address elsewhere.
void* static_shared(int site, size_t bytes);
int64_t shared_offset(const void* pointer, size_t bytes, const char* what);
char* at_rank(const void* pointer, int rank);
void clear_static_shared();

// Barriers.
void named_barrier_arrive(int id, int threads);
void named_barrier_sync(int id, int threads);
void cluster_sync();
void barrier_init(void* barrier, int arrivals);
void barrier_arrive(void* barrier);
void barrier_expect(void* barrier, int64_t bytes);
void barrier_complete(void* barrier, int64_t bytes);
void barrier_wait(void* barrier, unsigned parity);
void barrier_check(void* barrier);  // fails unless it was initialised
void clear_barriers();

// Warps: collective operations; each is reached by all 32 lanes.
void warp_sync();
uint64_t shuffle(uint64_t value, int source_lane);
uint32_t ballot(bool value);
bool elect();
void matrix_move(bool store, bool transpose, int matrices, const void* row, uint32_t* registers);
void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, Operand kind);

// Asynchronous copies.
struct TensorMap {
  uint64_t magic;
  int rank, element_bytes;
  char* base;
  int64_t extent[5], stride[5];  // elements; bytes, from the second axis on
  int box[5], swizzle, padding[3];
};
constexpr uint64_t kTensorMap = 0x7e3a;
uint64_t swizzled(uint64_t offset, int mode);
void tensor_load(const TensorMap& map, void* barrier, void* to, const int* at, int n, unsigned mask);
void tensor_store(const TensorMap& map, const void* from, const int* at, int n, bool add);
void bulk_load(void* to, const void* from, void* barrier, uint32_t bytes);
void bulk_store(void* to, const void* from, uint32_t bytes);
void store_commit();
void store_wait(int pending);
void async_load(void* to, const void* from, int bytes);
void async_load_commit();
void async_load_wait(int pending);
void land_transfers();
bool transfers_pending();
void clear_transfers();

// Tensor cores.
uint8_t to_e4m3(float value);
float operand_at(const void* address, Operand kind);
void product(const Product& issued, const uint32_t* a, float* c);
void product_commit();
void product_wait(int pending);

}  // namespace emu
