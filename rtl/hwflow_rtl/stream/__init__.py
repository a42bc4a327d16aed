"""Streams between units: connections, queues (FIFOs), forks, gearboxes, and the cycles in which beats move."""
