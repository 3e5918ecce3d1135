"""The rules by which the simulator reads a page: labels, numbers, dates, layout. No learning."""

from lakequeue.simulator.reading.answer import read_document

__all__ = ["read_document"]
