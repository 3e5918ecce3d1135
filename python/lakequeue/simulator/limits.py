"""Sliding windows, exact to the request: no minute ever holds more than the limit."""

from __future__ import annotations

from collections import deque

MINUTE = 60.0
HELD_SECONDS = 1.0


class SlidingWindow:
    """At most `limit` units in any `seconds` seconds. Not locked: its owner does that.

    Units may be held for something under way, whose size is known only at its end: from then on
    it counts with what it really took.
    """

    def __init__(self, limit: int, seconds: float = MINUTE) -> None:
        self.limit = limit
        self.seconds = seconds
        self.used = 0
        self.held = 0
        self.largest = 0
        self._entries: deque[tuple[float, int]] = deque()

    def wait_for(self, units: int, now: float) -> float:
        """Seconds until `units` fit; 0 when they fit now. More than the limit never fits.

        Nobody knows when what is held ends: where that is what is waited for, it is a second.
        """
        if units > self.limit:
            raise ValueError(f"{units} units never fit into a window of {self.limit}")
        self._forget(now)
        excess = self.used + self.held + units - self.limit
        for at, entry in self._entries:
            if excess <= 0:
                break
            excess -= entry
            if excess <= 0:
                return max(0.001, at + self.seconds - now)
        return HELD_SECONDS if excess > 0 else 0.0

    def add(self, units: int, now: float) -> None:
        """Count units as used at this moment."""
        self._forget(now)
        self._entries.append((now, units))
        self.used += units
        self.largest = max(self.largest, self.used + self.held)

    def hold(self, units: int, now: float) -> None:
        """Count units for something that begins now, until `release`."""
        self._forget(now)
        self.held += units
        self.largest = max(self.largest, self.used + self.held)

    def release(self, units: int, used: int, now: float) -> None:
        """What held units has ended and used so many."""
        self.held -= units
        self.add(used, now)

    def usage(self, now: float) -> int:
        """Units inside the window that ends now, held ones included."""
        self._forget(now)
        return self.used + self.held

    def _forget(self, now: float) -> None:
        while self._entries and self._entries[0][0] <= now - self.seconds:
            self.used -= self._entries.popleft()[1]
