// Runs the fibers of a cluster until all are done, something fails, or nobody can go on.
#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "machine.h"

namespace emu {

Thread* self;
Extent grid_extent, block_extent, cluster_extent;
int shared_bytes;
Schedule schedule;
long progress;
std::mt19937 random_bits;

namespace {

constexpr size_t kStack = 128 * 1024;
constexpr size_t kStaticShared = 16 * 1024;
constexpr int kIdleTurns = 400;

void (*kernel)(void**);
void** arguments;
void* scheduler_stack;
std::string failure;
std::vector<Thread> threads;
std::vector<Block> blocks;
NamedBarrier cluster_barrier;
sigjmp_buf copy_failed;  // where a copy that fails outside any thread returns to

}  // namespace

extern "C" void emu_switch(void** save, void* to);
// Saves the registers that the System V x86-64 ABI lets a callee keep, then swaps stacks.
asm(R"(
.text
.globl emu_switch
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

void yield(const char* waiting, long detail) {
  self->waiting = waiting;
  self->detail = detail;
  emu_switch(&self->stack_pointer, scheduler_stack);
}

void fail(const char* format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (failure.empty()) {
    failure = text;
    if (self) {
      const Extent& id = self->block->id;
      snprintf(text, sizeof text, " [thread %d of block %d,%d,%d]", self->index, id.x, id.y, id.z);
      failure += text;
    }
  }
  if (!self) siglongjmp(copy_failed, 1);
  for (;;) yield("failed", 0);
}

namespace {

void thread_main() {
  kernel(arguments);
  self->done = true;
  ++progress;
  for (;;) emu_switch(&self->stack_pointer, scheduler_stack);
}

// An address no tensor holds: the pages around each tensor are closed.
void on_bad_access(int, siginfo_t* info, void*) {
  fail("access outside every tensor, at %p", info->si_addr);
}

class AccessGuard {
 public:
  AccessGuard() {
    struct sigaction action = {};
    action.sa_sigaction = on_bad_access;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~AccessGuard() { sigaction(SIGSEGV, &before_, nullptr); }

 private:
  struct sigaction before_;
};

void prepare(Thread& thread) {
  char* stack = thread.stack;
  Block* block = thread.block;
  int index = thread.index;
  thread = Thread();
  thread.stack = stack;
  thread.block = block;
  thread.index = index;
  auto* top = reinterpret_cast<uint64_t*>(stack + kStack - 64);
  *--top = 0;
  *--top = reinterpret_cast<uint64_t>(&thread_main);
  for (int i = 0; i < 6; ++i) *--top = 0;
  thread.stack_pointer = top;
}

void prepare(Block& block, int rank, Extent id, int size) {
  char* shared = block.shared;
  block = Block();
  block.shared = shared;
  block.rank = rank;
  block.id = id;
  block.warps.resize((size + kWarp - 1) / kWarp);
  block.products.resize((size + kWarpgroup - 1) / kWarpgroup);
  memset(shared, 0xff, shared_bytes + kStaticShared);  // NaN in every float type
}

void report_deadlock() {
  std::string text = "deadlock:", last;
  for (const Thread& thread : threads) {
    if (thread.done) continue;
    char state[160];
    snprintf(state, sizeof state, " %s (%ld)", thread.waiting, thread.detail);
    if (last == state) continue;
    last = state;
    snprintf(state, sizeof state, " thread %d of block %d,%d,%d at", thread.index,
             thread.block->id.x, thread.block->id.y, thread.block->id.z);
    text += state + last + ";";
  }
  failure = text.substr(0, 1500);
}

// Lets every thread of a warp run until it waits; false when all were done.
bool run_warp(size_t warp) {
  bool running = false;
  bool falling = schedule.random_order && (random_bits() & 1);
  for (int i = 0; i < kWarp; ++i) {
    size_t at = warp * kWarp + (falling ? kWarp - 1 - i : i);
    if (at >= threads.size() || threads[at].done) continue;
    running = true;
    self = &threads[at];
    emu_switch(&scheduler_stack, self->stack_pointer);
    self = nullptr;
  }
  return running;
}

bool warp_is_running(size_t warp) {
  for (size_t at = warp * kWarp; at < (warp + 1) * kWarp && at < threads.size(); ++at)
    if (!threads[at].done) return true;
  return false;
}

[[gnu::noinline]] void land_or_fail() {
  if (sigsetjmp(copy_failed, 0) == 0) land_transfers();
}

void run_cluster() {
  size_t warps = (threads.size() + kWarp - 1) / kWarp;
  std::vector<size_t> order(warps);
  std::vector<unsigned> slow(warps, 0);
  for (size_t i = 0; i < warps; ++i) {
    order[i] = i;
    if (schedule.random_order) slow[i] = i % 4 ? slow[i - 1] : random_bits() % 4;
  }
  for (int idle = 0; failure.empty();) {
    long before = progress;
    bool running = false;
    if (schedule.random_order) std::shuffle(order.begin(), order.end(), random_bits);
    for (size_t warp : order) {
      if (slow[warp] && random_bits() % (slow[warp] + 1))
        running |= warp_is_running(warp);
      else
        running |= run_warp(warp);
    }
    land_or_fail();
    if (!running && !transfers_pending()) return;
    idle = progress == before && !transfers_pending() ? idle + 1 : 0;
    if (idle > kIdleTurns) report_deadlock();
  }
}

Extent position(int at, Extent extent) {
  return {at % extent.x, at / extent.x % extent.y, at / extent.x / extent.y};
}

void run_grid() {
  Extent clusters = {grid_extent.x / cluster_extent.x, grid_extent.y / cluster_extent.y,
                     grid_extent.z / cluster_extent.z};
  std::vector<int> order(clusters.x * clusters.y * clusters.z);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (schedule.random_order) std::shuffle(order.begin(), order.end(), random_bits);
  for (int at : order) {
    Extent cluster = position(at, clusters);
    for (size_t rank = 0; rank < blocks.size(); ++rank) {
      Extent in = position(rank, cluster_extent);
      Extent id = {cluster.x * cluster_extent.x + in.x, cluster.y * cluster_extent.y + in.y,
                   cluster.z * cluster_extent.z + in.z};
      prepare(blocks[rank], rank, id, block_extent.x);
    }
    for (Thread& thread : threads) prepare(thread);
    cluster_barrier = NamedBarrier();
    clear_barriers();
    clear_transfers();
    run_cluster();
    if (!failure.empty()) return;
  }
}

}  // namespace

// Every thread that declares the array of one place in the source gets the same memory.
namespace {
std::vector<size_t> site_offsets;
size_t static_bytes;
}  // namespace

void clear_static_shared() {
  site_offsets.clear();
  static_bytes = 0;
}

void* static_shared(int site, size_t bytes) {
  if (site_offsets.size() <= static_cast<size_t>(site)) site_offsets.resize(site + 1, SIZE_MAX);
  size_t& offset = site_offsets[site];
  if (offset == SIZE_MAX) {
    offset = static_bytes;
    static_bytes += (bytes + 15) / 16 * 16;
    if (static_bytes > kStaticShared) fail("more than %zu bytes of static shared memory", kStaticShared);
  }
  return self->block->shared + shared_bytes + offset;
}

int64_t shared_offset(const void* pointer, size_t bytes, const char* what) {
  int64_t offset = static_cast<const char*>(pointer) - self->block->shared;
  if (offset < 0 || offset + static_cast<int64_t>(bytes) > shared_bytes)
    fail("%s outside shared memory", what);
  return offset;
}

char* at_rank(const void* pointer, int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= blocks.size()) fail("no block %d in the cluster", rank);
  return blocks[rank].shared + (static_cast<const char*>(pointer) - self->block->shared);
}

// Threads that have returned no longer count.
void cluster_sync() {
  long generation = cluster_barrier.generation;
  ++cluster_barrier.arrived;
  ++progress;
  auto met = [&] {
    if (cluster_barrier.generation != generation) return true;
    int running = 0;
    for (const Thread& thread : threads) running += !thread.done;
    if (cluster_barrier.arrived < running) return false;
    cluster_barrier.arrived = 0;
    ++cluster_barrier.generation;
    return true;
  };
  wait_until(met, "cluster barrier");
}

}  // namespace emu

using namespace emu;

// A misaligned access through a vector type; generated code punning its own locals is let pass,
// since those live in registers on the device.
extern "C" void __ubsan_handle_type_mismatch_v1(void*, void* pointer) {
  char* address = static_cast<char*>(pointer);
  if (!self || (address >= self->stack && address < self->stack + kStack)) return;
  fail("misaligned access at %p", pointer);
}

// Runs a kernel over its grid. Returns nonzero and sets the message when it failed.
extern "C" int emu_run(void (*entry)(void**), void** values, const int* extents, int dynamic_shared,
                       const Schedule* how, const char** message) {
  static std::string text;
  kernel = entry;
  arguments = values;
  grid_extent = {extents[0], extents[1], extents[2]};
  block_extent = {extents[3], 1, 1};
  cluster_extent = {extents[4], extents[5], extents[6]};
  shared_bytes = dynamic_shared;
  schedule = *how;
  random_bits.seed(schedule.seed);
  failure.clear();
  self = nullptr;
  clear_static_shared();
  AccessGuard guard;
  blocks.assign(cluster_extent.x * cluster_extent.y * cluster_extent.z, Block());
  size_t bytes = (shared_bytes + kStaticShared + 1023) / 1024 * 1024;
  for (Block& block : blocks) block.shared = static_cast<char*>(aligned_alloc(1024, bytes));
  threads.assign(blocks.size() * block_extent.x, Thread());
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].stack = static_cast<char*>(aligned_alloc(64, kStack));
    threads[i].block = &blocks[i / block_extent.x];
    threads[i].index = static_cast<int>(i % block_extent.x);
  }
  run_grid();
  for (Thread& thread : threads) free(thread.stack);
  for (Block& block : blocks) free(block.shared);
  text = failure;
  *message = text.c_str();
  return !failure.empty();
}
