// Named barriers of a block, and mbarriers with transaction counts.
#include <map>

#include "machine.h"

namespace emu {

namespace {

struct MemoryBarrier {
  int arrivals, pending;
  int64_t bytes = 0;
  unsigned phase = 0;
};

std::map<void*, MemoryBarrier> memory_barriers;

MemoryBarrier& find(void* barrier) {
  auto at = memory_barriers.find(barrier);
  if (at == memory_barriers.end()) fail("mbarrier used before it was initialised");
  return at->second;
}

void settle(MemoryBarrier& barrier) {
  ++progress;
  if (barrier.pending || barrier.bytes) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.arrivals;
}

}  // namespace

void named_barrier_arrive(int id, int threads) {
  if (id < 0 || id >= kNamedBarriers) fail("no named barrier %d", id);
  NamedBarrier& barrier = self->block->named[id];
  if (barrier.arrived && barrier.expected != threads)
    fail("named barrier %d expects %d threads and %d", id, barrier.expected, threads);
  barrier.expected = threads;
  ++progress;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
}

void named_barrier_sync(int id, int threads) {
  if (id < 0 || id >= kNamedBarriers) fail("no named barrier %d", id);
  NamedBarrier& barrier = self->block->named[id];
  long generation = barrier.generation;
  named_barrier_arrive(id, threads);
  wait_until([&] { return barrier.generation != generation; }, "named barrier", id);
}

void clear_barriers() { memory_barriers.clear(); }

void barrier_init(void* barrier, int arrivals) {
  memory_barriers[barrier] = {arrivals, arrivals};
  ++progress;
}

void barrier_check(void* barrier) { find(barrier); }

void barrier_arrive(void* barrier) {
  MemoryBarrier& found = find(barrier);
  if (--found.pending < 0) fail("more arrivals at an mbarrier than it expects");
  settle(found);
}

void barrier_expect(void* barrier, int64_t bytes) {
  find(barrier).bytes += bytes;
  ++progress;
}

void barrier_complete(void* barrier, int64_t bytes) {
  MemoryBarrier& found = find(barrier);
  found.bytes -= bytes;
  settle(found);
}

void barrier_wait(void* barrier, unsigned parity) {
  if (parity > 1) fail("mbarrier waited for with parity %u", parity);
  MemoryBarrier& found = find(barrier);
  wait_until([&] { return found.phase != parity; }, "mbarrier, parity", parity);
}

}  // namespace emu
