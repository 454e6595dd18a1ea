"""Workload rows run and measured: every op, of the tree or of a pack, by its spec alone.

`calls` makes a row's call on a device and judges it by the op's reference, `clock` times it,
`profiles` knows what a device can do, `measuring` makes the record of a row, `sweep` goes through
many rows within a budget. Numbers first: what is wrong is never timed. Not for comparing libraries.
"""
