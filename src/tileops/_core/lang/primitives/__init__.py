"""The built-in functions of the language: primitives, generators and predicates.

One documented function per member, in modules by subject; members that serve one family live in
a module named like their prefix. `table` ties names to functions and states kinds and domains.
An argument outside its domain raises `ValueError`.
"""
