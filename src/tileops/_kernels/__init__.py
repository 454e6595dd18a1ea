"""What kernels of several families share in torch: alignment, scratch memory, random numbers.

Imported by the families' `kernels` modules only. What programs share lies in `_programs`.
"""
