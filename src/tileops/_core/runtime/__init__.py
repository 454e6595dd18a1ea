"""What generated checks call while they run, and the plan and the record that they serve.

Knows tensors, devices and symbolic sizes; knows no op, no kernel and no family.
"""
