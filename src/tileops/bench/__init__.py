"""Workload rows run and measured, for every op of the tree or of a pack, from its spec alone.

`calls` makes a row's call on a device and judges it by the op's reference, `clock` times it,
`profiles` knows what a device can do, `measuring` makes the record of a row, `sweep` goes through
many rows within a budget. A wrong result is never timed. Not for comparing libraries with each
other: they are timed only beside an op.
"""
