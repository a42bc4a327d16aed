"""The board's end of the host link (docs/host-link.md): packets and queues, for a byte in each cycle or in twelve."""
