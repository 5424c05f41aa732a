"""Programs to read from top to bottom; each is run as `python -m examples.NAME [--quick]`."""
