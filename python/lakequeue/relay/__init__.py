"""Relays: they turn a claimed attempt into a run (see base)."""
