"""Runs the CUDA that TileLang generates for Hopper on the CPU, under several schedules.

`Emulator(lower(program), folder)` compiles the generated source with g++ against stand-ins for the
device's functions and runs it with one fiber per thread. It reports deadlocks, barriers that
are used against their contract, operands outside shared memory, misaligned vector accesses and
accesses outside every tensor; wgmma, tensor maps, mbarriers and swizzles behave as the hardware's.
It says nothing about speed, and does not model proxy fences, memory order or register pressure.
"""

from emulation.emulator.emulate import SCHEDULES, Emulator, Schedule
from emulation.emulator.errors import EmulationError
from emulation.emulator.lowering import Lowered, lower

__all__ = ["SCHEDULES", "EmulationError", "Emulator", "Lowered", "Schedule", "lower"]
