"""How device functions make halves of the 4-bit codes of a packed weight.

A code whose bits are alone in a half is that half 2^24 below itself. One multiply-add lifts two of
them and takes their zero point off, exactly; what comes out is divided by `OVER`, so that no factor
is beyond halves, and sums are multiplied by it.
"""

RUN = 128
"""Columns whose products are added up before they are scaled."""
WORD = 8
"""Codes of 32 bits."""
OVER = 512.0
"""What decoded codes are divided by."""

DECODE = r"""
#include <cuda_fp16.h>
static __device__ __forceinline__ __half2 tileops_halves(int bits) {
  return *reinterpret_cast<__half2*>(&bits);
}
// Minus a zero point over 512, twice.
static __device__ __forceinline__ int tileops_zeros(unsigned char zero) {
  __half2 both = __float2half2_rn(static_cast<float>(zero) * -0x1p-9f);
  return *reinterpret_cast<int*>(&both);
}
// The codes of bits 0 to 3 of both halves, of bits 4 to 7 from place 1, less their zero point.
template <int Place>
static __device__ __forceinline__ int tileops_decode(int word, int zeros) {
  constexpr int kMask = Place ? 0x00f000f0 : 0x000f000f;
  constexpr int kFactor = Place ? 0x68006800 : 0x78007800;  // 2^11, 2^15
  __half2 centred =
      __hfma2(tileops_halves(word & kMask), tileops_halves(kFactor), tileops_halves(zeros));
  return *reinterpret_cast<int*>(&centred);
}
"""
