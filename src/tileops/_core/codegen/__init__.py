"""Plans printed as Python source, one readable unit per op class, and compiled.

Solves nothing and reads no YAML: every decision is in the plan. Free of torch; the units import
what they call from `runtime.names`.
"""
