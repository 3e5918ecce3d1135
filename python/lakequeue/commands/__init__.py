"""One module for each `lakequeue NAME`, with a click command called `command`."""
