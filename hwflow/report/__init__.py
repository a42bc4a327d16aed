"""What people see: the console, tables."""
