"""`torch.profiler`: where the time of a program goes, kernel by kernel.

In come the programs that run while a profile is open; out go events: each kernel under the
names of the operations in it, each flush, each range that the user named. It must never change
what is computed.
"""

from rushlight.profiler.activity import (
    DeviceType,
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    schedule,
    supported_activities,
)
from rushlight.profiler.profile import profile, tensorboard_trace_handler
from rushlight.profiler.recording import record_function

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
