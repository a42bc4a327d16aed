"""Tests mirror the tree; `project` holds those about the project itself, `bench` measurements that are no tests."""
