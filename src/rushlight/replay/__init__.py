"""Skipping a function's Python: a call that did what the last one did is run again as a whole.

`guards` is the Python state that a call read, `capture` watches one call, `call` is a call that
can be repeated, `function` decides which calls are. `compiler.compile` is how users get there.
"""
