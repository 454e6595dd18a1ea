"""TileLang code that several families share: programs before compilation, row and register macros.

Imported only by the families' `programs` modules, hence only when a kernel makes its program:
TileLang is not loaded before.
"""
