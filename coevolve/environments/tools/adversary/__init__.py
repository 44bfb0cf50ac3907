"""The cheap adversary: attempts that do not do what a task asks, and that should not solve it."""
