"""TileLang programs of the attention family, a module for each kind.

Not for choosing among them, which the kernels do.
"""
