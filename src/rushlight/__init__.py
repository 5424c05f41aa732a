"""Rushlight: `import rushlight as torch`."""
