"""Streams between units: links, queues, forks, gearboxes, and when beats move."""
