"""What the emulator raises."""


class EmulationError(AssertionError):
    """A kernel did something that the device forbids, or waits for ever."""
