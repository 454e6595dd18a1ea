"""Properties that are computed once."""

from __future__ import annotations

import threading

from tileops._core.lang.cached import cached_property


class Node:
    """Computes its value in a thread's own time."""

    def __init__(self, other: Node | None = None) -> None:
        self.other = other
        self.computed = 0

    @cached_property
    def value(self) -> list[int]:
        """A new list."""
        self.computed += 1
        if self.other is not None:  # As long as another thread computes that of another instance.
            asked = self.other
            thread = threading.Thread(target=lambda: asked.value, daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()
        return [self.computed]


def test_it_is_computed_once_and_documented() -> None:
    node = Node()
    assert node.value is node.value
    assert node.computed == 1
    assert Node.value.__doc__ == "A new list."


def test_instances_do_not_wait_for_each_other() -> None:
    assert Node(Node()).value == [1]


def test_of_threads_that_compute_at_once_the_first_s_value_stays() -> None:
    both = threading.Barrier(2)

    class Meeting:
        @cached_property
        def value(self) -> object:
            both.wait(10)
            return object()

    meeting, found = Meeting(), []
    threads = [threading.Thread(target=lambda: found.append(meeting.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found[0] is found[1] is meeting.value
