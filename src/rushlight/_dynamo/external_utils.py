"""`torch._dynamo.external_utils`: where older programs ask whether they are being compiled."""

from rushlight.compiler import is_compiling

__all__ = ["is_compiling"]
