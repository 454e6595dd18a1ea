// Asynchronous copies: tensor maps, bulk copies, cp.async. Each lands whole, at a later turn.
#include <cstring>

#include "machine.h"

namespace emu {

namespace {

std::deque<std::shared_ptr<Transfer>> in_flight;

std::shared_ptr<Transfer> start(std::function<void()> land) {
  int delay = schedule.late_copies ? static_cast<int>(random_bits() % 40) : 0;
  auto transfer = std::make_shared<Transfer>(Transfer{delay, std::move(land)});
  in_flight.push_back(transfer);
  ++progress;
  return transfer;
}

void commit(TransferGroups& groups) {
  groups.committed.push_back(std::move(groups.open));
  groups.open.clear();
  ++progress;
}

void wait(TransferGroups& groups, int pending, const char* what) {
  size_t all = groups.committed.size();
  size_t through = all > static_cast<size_t>(pending) ? all - pending : 0;
  wait_until(
      [&] {
        for (size_t i = 0; i < through; ++i)
          for (const auto& transfer : groups.committed[i])
            if (!transfer->done) return false;
        return true;
      },
      what, pending);
}

struct Box {
  TensorMap map;
  int at[5];

  int64_t elements() const {
    int64_t count = 1;
    for (int i = 0; i < map.rank; ++i) count *= map.box[i];
    return count;
  }

  // Address of an element of the box in global memory, or null outside the tensor.
  char* global(int64_t element) const {
    int64_t offset = 0;
    for (int i = 0; i < map.rank; ++i) {
      int64_t index = at[i] + element % map.box[i];
      element /= map.box[i];
      if (index < 0 || index >= map.extent[i]) return nullptr;
      offset += index * (i ? map.stride[i] : map.element_bytes);
    }
    return map.base + offset;
  }
};

Box make_box(const TensorMap& map, const int* at, int n) {
  if (map.magic != kTensorMap) fail("not a tensor map");
  if (n != map.rank) fail("%d coordinates for a tensor map of rank %d", n, map.rank);
  Box box{map, {}};
  for (int i = 0; i < n; ++i) box.at[i] = at[i];
  return box;
}

// The tile's offset in shared memory, checked against the alignment its swizzle needs.
int64_t tile_offset(const Box& box, const void* tile) {
  int64_t bytes = box.elements() * box.map.element_bytes;
  int64_t offset = shared_offset(tile, bytes, "tile of a tensor copy");
  if (offset % (128 << box.map.swizzle)) fail("misaligned tile of a tensor copy");
  return offset;
}

}  // namespace

// Modes 1, 2 and 3 permute the 16-byte chunks of rows of 32, 64 and 128 bytes.
uint64_t swizzled(uint64_t offset, int mode) {
  static const uint64_t masks[] = {0, 1, 3, 7};
  return offset ^ (((offset >> 7) & masks[mode]) << 4);
}

void tensor_load(const TensorMap& map, void* barrier, void* to, const int* at, int n,
                 unsigned mask) {
  Box box = make_box(map, at, n);
  int64_t offset = tile_offset(box, to);
  for (int rank = 0; mask >> rank; ++rank) {
    if (!(mask >> rank & 1)) continue;
    char* shared = at_rank(self->block->shared, rank);
    void* landing = at_rank(barrier, rank);
    barrier_check(landing);
    start([=] {
      int size = box.map.element_bytes;
      for (int64_t i = 0; i < box.elements(); ++i) {
        char* place = shared + swizzled(offset + i * size, box.map.swizzle);
        const char* source = box.global(i);
        if (source)
          memcpy(place, source, size);
        else
          memset(place, 0, size);
      }
      barrier_complete(landing, box.elements() * size);
    });
  }
}

void tensor_store(const TensorMap& map, const void* from, const int* at, int n, bool add) {
  Box box = make_box(map, at, n);
  int64_t offset = tile_offset(box, from);
  char* shared = self->block->shared;
  self->stores.open.push_back(start([=] {
    int size = box.map.element_bytes;
    for (int64_t i = 0; i < box.elements(); ++i) {
      const char* source = shared + swizzled(offset + i * size, box.map.swizzle);
      char* place = box.global(i);
      if (!place) continue;
      if (!add) {
        memcpy(place, source, size);
      } else {
        float sum, part;
        memcpy(&sum, place, 4);
        memcpy(&part, source, 4);
        sum += part;
        memcpy(place, &sum, 4);
      }
    }
  }));
  if (add && map.element_bytes != 4) fail("a store that adds takes float32 only");
}

namespace {
void check_bulk(const void* to, const void* from, uint32_t bytes) {
  auto bits = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  if (bits % 16) fail("bulk copy not in units of 16 bytes");
}
}  // namespace

void bulk_load(void* to, const void* from, void* barrier, uint32_t bytes) {
  check_bulk(to, from, bytes);
  barrier_check(barrier);
  start([=] {
    memcpy(to, from, bytes);
    barrier_complete(barrier, bytes);
  });
}

void bulk_store(void* to, const void* from, uint32_t bytes) {
  check_bulk(to, from, bytes);
  self->stores.open.push_back(start([=] { memcpy(to, from, bytes); }));
}

void store_commit() { commit(self->stores); }
void store_wait(int pending) { wait(self->stores, pending, "bulk store, pending"); }

void async_load(void* to, const void* from, int bytes) {
  self->loads.open.push_back(start([=] { memcpy(to, from, bytes); }));
}

void async_load_commit() { commit(self->loads); }
void async_load_wait(int pending) { wait(self->loads, pending, "cp.async, pending"); }

void land_transfers() {
  std::deque<std::shared_ptr<Transfer>> now;
  now.swap(in_flight);
  for (auto& transfer : now) {
    if (transfer->delay-- > 0) {
      in_flight.push_back(transfer);
    } else {
      transfer->land();
      transfer->done = true;
      ++progress;
    }
  }
}

bool transfers_pending() { return !in_flight.empty(); }
void clear_transfers() { in_flight.clear(); }

}  // namespace emu
