"""Workload rows: `rows` finds what a row stands for without torch, `tensors` makes the tensors."""
