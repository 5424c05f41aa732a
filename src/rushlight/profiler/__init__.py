"""`torch.profiler`: where the time of a program goes, kernel by kernel.

In come the programs that run while a profile is open; out go events: each kernel under the
names of the operations in it, each flush, each range that the user named. It must never change
what is computed.
"""

from rushlight.profiler.activity import (
    ProfilerAction,
    ProfilerActivity,
    schedule,
    supported_activities,
)
from rushlight.profiler.profile import profile, tensorboard_trace_handler
from rushlight.profiler.recording import record_function

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
