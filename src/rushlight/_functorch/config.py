"""`torch._functorch.config`: settings that programs change, with the defaults they read."""

from rushlight.settings import accept_settings

activation_memory_budget = 1.0
donated_buffer = False

accept_settings(__name__)
