"""The native loops that walk a program's launches and that pool threads wait in.

Note: how a region runs. A *region* is one or more launches without a barrier between them, cut
into *units* (ranges of chunks), and the units into one share for each thread. The caller
publishes the region and opens the gate; threads that arrive while the gate is open count
themselves in; each takes units from its own share, so that in launch after launch it meets
memory that its cache holds, and then from the others' until none is left; the caller closes the
gate and waits for those inside. A thread that comes late finds the gate shut and is never
waited for, so a program is not held up by a thread that the system has not scheduled.

A share is walked upwards in one region and downwards in the next: what the last launch touched
last is still in the cache, so the next one meets it first (`x + y` of a million elements gains
a fifth).

The gate is one 64-bit word: bit 0 open, bits 1 to 15 the number of threads inside, the rest a
region number, by which a thread knows that it has already served a region.
"""

from __future__ import annotations

import ctypes
from functools import cache
from string import Template

from rushlight.codegen.module import load_functions
from rushlight.codegen.target import current_target

# Slots of the pool's control block, in 8-byte words. What different threads write lies on
# different cache lines.
LINE_WORDS = 16  # two cache lines, because processors fetch lines in pairs
GATE = 0
REGION_FIRST, REGION_UNITS = 16, 17
BUSY = 32
SLEEPERS = 48
STOP, THREADS, SPINS, LOCK, UNLOCK, WAIT, WAKE_ONE, WAKE_ALL, YIELD, SCRATCHES = range(64, 74)
MUTEX, CONDITION = 80, 96
COUNTERS = 112  # one for each thread's share, LINE_WORDS apart

# Slots of a launch record.
FUNCTION, ARGUMENTS, CHUNKS, GRAIN, FIRST_UNIT, LAST_UNIT, REGION_TOTAL, REGION_WIDTH = range(8)
LAUNCH_WORDS = 8

# Slots of a segment: consecutive launches with the pointers to resolve before them.
LAUNCHES, LAUNCH_COUNT, PATCHES, PATCH_COUNT = range(4)
SEGMENT_WORDS = 4
PATCH_WORDS = 3  # where to write, which buffer, byte offset

_TEXT = Template(r"""
define internal void @work(ptr %pool, i64 %index, ptr %scratch) {
entry:
  %first.at = getelementptr i64, ptr %pool, i64 $REGION_FIRST
  %first = load ptr, ptr %first.at
  %units.at = getelementptr i64, ptr %pool, i64 $REGION_UNITS
  %units = load i64, ptr %units.at
  %threads.at = getelementptr i64, ptr %pool, i64 $THREADS
  %threads = load i64, ptr %threads.at
  %gate = load atomic i64, ptr %pool monotonic, align 8
  %number = lshr i64 %gate, 16
  %downwards = trunc i64 %number to i1
  br label %share
share:
  %tried = phi i64 [0, %entry], [%tried.next, %empty]
  %share.raw = phi i64 [%index, %entry], [%share.next, %empty]
  %beyond = icmp uge i64 %share.raw, %threads
  %turn = select i1 %beyond, i64 0, i64 %share.raw
  %share.next = add i64 %turn, 1
  %start.product = mul i64 %turn, %units
  %start = udiv i64 %start.product, %threads
  %limit.product = mul i64 %share.next, %units
  %limit = udiv i64 %limit.product, %threads
  %top = sub i64 %limit, 1
  %ends = add i64 %start, %top
  %line = mul i64 %turn, $LINE_WORDS
  %word = add i64 %line, $COUNTERS
  %counter = getelementptr i64, ptr %pool, i64 %word
  br label %grab
grab:
  %from = phi ptr [%first, %share], [%launch, %call]
  %taken = atomicrmw add ptr %counter, i64 1 monotonic
  %more = icmp ult i64 %taken, %limit
  %from.top = sub i64 %ends, %taken
  %unit = select i1 %downwards, i64 %from.top, i64 %taken
  br i1 %more, label %find, label %empty
find:
  %launch = phi ptr [%from, %grab], [%next, %other]
  %base.at = getelementptr i64, ptr %launch, i64 $FIRST_UNIT
  %base = load i64, ptr %base.at
  %last.at = getelementptr i64, ptr %launch, i64 $LAST_UNIT
  %last = load i64, ptr %last.at
  %below = icmp ult i64 %unit, %base
  %above = icmp uge i64 %unit, %last
  %elsewhere = or i1 %below, %above
  br i1 %elsewhere, label %other, label %call
other:
  %step = select i1 %below, i64 -$LAUNCH_WORDS, i64 $LAUNCH_WORDS
  %next = getelementptr i64, ptr %launch, i64 %step
  br label %find
call:
  %grain.at = getelementptr i64, ptr %launch, i64 $GRAIN
  %grain = load i64, ptr %grain.at
  %chunks.at = getelementptr i64, ptr %launch, i64 $CHUNKS
  %chunks = load i64, ptr %chunks.at
  %which = sub i64 %unit, %base
  %begin = mul i64 %which, %grain
  %reach = add i64 %begin, %grain
  %end = call i64 @llvm.smin.i64(i64 %reach, i64 %chunks)
  %function = load ptr, ptr %launch
  %arguments.at = getelementptr i64, ptr %launch, i64 $ARGUMENTS
  %arguments = load ptr, ptr %arguments.at
  call void %function(ptr %arguments, i64 %begin, i64 %end, ptr %scratch)
  br label %grab
empty:
  %tried.next = add i64 %tried, 1
  %others = icmp ult i64 %tried.next, %threads
  br i1 %others, label %share, label %out
out:
  ret void
}

define internal void @deal(ptr %pool, i64 %units) {
entry:
  %threads.at = getelementptr i64, ptr %pool, i64 $THREADS
  %threads = load i64, ptr %threads.at
  %counters = getelementptr i64, ptr %pool, i64 $COUNTERS
  br label %share
share:
  %i = phi i64 [0, %entry], [%i.next, %share]
  %line = mul i64 %i, $LINE_WORDS
  %counter = getelementptr i64, ptr %counters, i64 %line
  %product = mul i64 %i, %units
  %start = udiv i64 %product, %threads
  store atomic i64 %start, ptr %counter monotonic, align 8
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %threads
  br i1 %more, label %share, label %out
out:
  ret void
}

define internal void @alone(ptr %first, i64 %width, ptr %scratch) {
entry:
  br label %launch
launch:
  %i = phi i64 [0, %entry], [%i.next, %next]
  %offset = mul i64 %i, $LAUNCH_WORDS
  %at = getelementptr i64, ptr %first, i64 %offset
  %chunks.at = getelementptr i64, ptr %at, i64 $CHUNKS
  %chunks = load i64, ptr %chunks.at
  %any = icmp sgt i64 %chunks, 0
  br i1 %any, label %call, label %next
call:
  %function = load ptr, ptr %at
  %arguments.at = getelementptr i64, ptr %at, i64 $ARGUMENTS
  %arguments = load ptr, ptr %arguments.at
  call void %function(ptr %arguments, i64 0, i64 %chunks, ptr %scratch)
  br label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %width
  br i1 %more, label %launch, label %out
out:
  ret void
}

define internal void @resolve(ptr %patches, i64 %count, ptr %table) {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %patch, label %out
patch:
  %i = phi i64 [0, %entry], [%i.next, %patch]
  %word = mul i64 %i, $PATCH_WORDS
  %at = getelementptr i64, ptr %patches, i64 %word
  %slot = load ptr, ptr %at
  %buffer.at = getelementptr i64, ptr %at, i64 1
  %buffer = load i64, ptr %buffer.at
  %offset.at = getelementptr i64, ptr %at, i64 2
  %offset = load i64, ptr %offset.at
  %base.at = getelementptr ptr, ptr %table, i64 %buffer
  %base = load ptr, ptr %base.at
  %address = getelementptr i8, ptr %base, i64 %offset
  store ptr %address, ptr %slot
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %patch, label %out
out:
  ret void
}

define internal void @wake(ptr %pool, i64 %wanted) {
entry:
  %lock.at = getelementptr i64, ptr %pool, i64 $LOCK
  %lock = load ptr, ptr %lock.at
  %unlock.at = getelementptr i64, ptr %pool, i64 $UNLOCK
  %unlock = load ptr, ptr %unlock.at
  %one.at = getelementptr i64, ptr %pool, i64 $WAKE_ONE
  %one = load ptr, ptr %one.at
  %all.at = getelementptr i64, ptr %pool, i64 $WAKE_ALL
  %all = load ptr, ptr %all.at
  %mutex = getelementptr i64, ptr %pool, i64 $MUTEX
  %condition = getelementptr i64, ptr %pool, i64 $CONDITION
  %sleepers.at = getelementptr i64, ptr %pool, i64 $SLEEPERS
  %l = call i32 %lock(ptr %mutex)
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %everybody = icmp uge i64 %wanted, %sleepers
  br i1 %everybody, label %broadcast, label %signal
broadcast:
  %b = call i32 %all(ptr %condition)
  br label %out
signal:
  %i = phi i64 [0, %entry], [%i.next, %signal]
  %s = call i32 %one(ptr %condition)
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %wanted
  br i1 %more, label %signal, label %out
out:
  %u = call i32 %unlock(ptr %mutex)
  ret void
}

define internal void @share(ptr %pool, ptr %first, i64 %units, ptr %scratch) {
entry:
  call void @deal(ptr %pool, i64 %units)
  %first.at = getelementptr i64, ptr %pool, i64 $REGION_FIRST
  store ptr %first, ptr %first.at
  %units.at = getelementptr i64, ptr %pool, i64 $REGION_UNITS
  store i64 %units, ptr %units.at
  %old = load atomic i64, ptr %pool monotonic, align 8
  %number = lshr i64 %old, 16
  %number.next = add i64 %number, 1
  %shut = shl i64 %number.next, 16
  %open = or i64 %shut, 1
  store atomic i64 %open, ptr %pool seq_cst, align 8
  %sleepers.at = getelementptr i64, ptr %pool, i64 $SLEEPERS
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %rouse, label %begin
rouse:
  %wanted = sub i64 %units, 1
  call void @wake(ptr %pool, i64 %wanted)
  br label %begin
begin:
  call void @work(ptr %pool, i64 0, ptr %scratch)
  %before = atomicrmw and ptr %pool, i64 -2 seq_cst
  %spins.at = getelementptr i64, ptr %pool, i64 $SPINS
  %spins = load i64, ptr %spins.at
  br label %wait
wait:
  %i = phi i64 [0, %begin], [%i.next, %pause], [%i.next, %yield]
  %i.next = add i64 %i, 1
  %gate = load atomic i64, ptr %pool acquire, align 8
  %inside = and i64 %gate, 65534
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %out, label %linger
linger:
  %patient = icmp ult i64 %i, %spins
  br i1 %patient, label %pause, label %yield
pause:
  $PAUSE
  br label %wait
yield:
  %yield.at = getelementptr i64, ptr %pool, i64 $YIELD
  %give = load ptr, ptr %yield.at
  %g = call i32 %give()
  br label %wait
out:
  ret void
}

define void @rushlight_run(ptr %pool, ptr %segment, ptr %table, ptr %scratch) {
entry:
  %mode = alloca i32
  $SAVE_MODE
  %launches = load ptr, ptr %segment
  %count.at = getelementptr i64, ptr %segment, i64 $LAUNCH_COUNT
  %count = load i64, ptr %count.at
  %patches.at = getelementptr i64, ptr %segment, i64 $PATCHES
  %patches = load ptr, ptr %patches.at
  %patch.count.at = getelementptr i64, ptr %segment, i64 $PATCH_COUNT
  %patch.count = load i64, ptr %patch.count.at
  %busy = getelementptr i64, ptr %pool, i64 $BUSY
  %threads.at = getelementptr i64, ptr %pool, i64 $THREADS
  %threads = load i64, ptr %threads.at
  %lonely = icmp ult i64 %threads, 2
  call void @resolve(ptr %patches, i64 %patch.count, ptr %table)
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %region, label %out
region:
  %i = phi i64 [0, %entry], [%i.next, %inline], [%i.next, %shared]
  %word = mul i64 %i, $LAUNCH_WORDS
  %first = getelementptr i64, ptr %launches, i64 %word
  %units.at = getelementptr i64, ptr %first, i64 $REGION_TOTAL
  %units = load i64, ptr %units.at
  %width.at = getelementptr i64, ptr %first, i64 $REGION_WIDTH
  %width = load i64, ptr %width.at
  %i.next = add i64 %i, %width
  %more = icmp slt i64 %i.next, %count
  %small = icmp ult i64 %units, 2
  %single = or i1 %small, %lonely
  br i1 %single, label %inline, label %claim
claim:
  %claimed = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {i64, i1} %claimed, 1
  br i1 %mine, label %shared, label %inline
inline:
  call void @alone(ptr %first, i64 %width, ptr %scratch)
  br i1 %more, label %region, label %out
shared:
  call void @share(ptr %pool, ptr %first, i64 %units, ptr %scratch)
  store atomic i64 0, ptr %busy release, align 8
  br i1 %more, label %region, label %out
out:
  $RESTORE_MODE
  ret void
}

define internal i64 @news(ptr %pool, i64 %served) {
  %gate = load atomic i64, ptr %pool seq_cst, align 8
  %open.bit = and i64 %gate, 1
  %open = icmp ne i64 %open.bit, 0
  %number = lshr i64 %gate, 16
  %unserved = icmp ne i64 %number, %served
  %fresh = and i1 %open, %unserved
  %answer = select i1 %fresh, i64 %gate, i64 0
  ret i64 %answer
}

define void @rushlight_serve(ptr %pool, i64 %index) {
entry:
  %mode = alloca i32
  $SAVE_MODE
  %stop.at = getelementptr i64, ptr %pool, i64 $STOP
  %spins.at = getelementptr i64, ptr %pool, i64 $SPINS
  %spins = load i64, ptr %spins.at
  %sleepers = getelementptr i64, ptr %pool, i64 $SLEEPERS
  %mutex = getelementptr i64, ptr %pool, i64 $MUTEX
  %condition = getelementptr i64, ptr %pool, i64 $CONDITION
  %lock.at = getelementptr i64, ptr %pool, i64 $LOCK
  %lock = load ptr, ptr %lock.at
  %unlock.at = getelementptr i64, ptr %pool, i64 $UNLOCK
  %unlock = load ptr, ptr %unlock.at
  %wait.at = getelementptr i64, ptr %pool, i64 $WAIT
  %wait = load ptr, ptr %wait.at
  br label %spin
spin:
  %served = phi i64 [0, %entry], [%served.spin, %join],
    [%number, %serve], [%served.spin, %awake]
  br label %look
look:
  %served.spin = phi i64 [%served, %spin], [%served.spin, %pause]
  %i = phi i64 [0, %spin], [%i.next, %pause]
  %i.next = add i64 %i, 1
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %out, label %check
check:
  %gate = call i64 @news(ptr %pool, i64 %served.spin)
  %called = icmp ne i64 %gate, 0
  br i1 %called, label %join, label %tire
tire:
  %awhile = icmp ult i64 %i, %spins
  br i1 %awhile, label %pause, label %sleep
pause:
  $PAUSE
  br label %look
join:
  %gate.in = add i64 %gate, 2
  %tried = cmpxchg ptr %pool, i64 %gate, i64 %gate.in acq_rel monotonic
  %in = extractvalue {i64, i1} %tried, 1
  br i1 %in, label %serve, label %spin
serve:
  %number = lshr i64 %gate, 16
  %scratches.at = getelementptr i64, ptr %pool, i64 $SCRATCHES
  %scratches = load ptr, ptr %scratches.at
  %scratch.at = getelementptr ptr, ptr %scratches, i64 %index
  %scratch = load ptr, ptr %scratch.at
  call void @work(ptr %pool, i64 %index, ptr %scratch)
  %left = atomicrmw sub ptr %pool, i64 2 acq_rel
  br label %spin
sleep:
  %l = call i32 %lock(ptr %mutex)
  %s0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %gate.again = call i64 @news(ptr %pool, i64 %served.spin)
  %stop.again = load atomic i64, ptr %stop.at seq_cst, align 8
  %reasons = or i64 %gate.again, %stop.again
  %quiet = icmp eq i64 %reasons, 0
  br i1 %quiet, label %doze, label %awake
doze:
  %w = call i32 %wait(ptr %condition, ptr %mutex, i32 -1, i32 0)
  br label %awake
awake:
  %s1 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %u = call i32 %unlock(ptr %mutex)
  br label %spin
out:
  $RESTORE_MODE
  ret void
}

define void @rushlight_halt(ptr %pool) {
  %stop.at = getelementptr i64, ptr %pool, i64 $STOP
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  call void @wake(ptr %pool, i64 -1)
  ret void
}

define void @rushlight_pause(i64 %times) {
entry:
  br label %again
again:
  %i = phi i64 [0, %entry], [%i.next, %again]
  $PAUSE
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %times
  br i1 %more, label %again, label %out
out:
  ret void
}
""")


class Executor:
    """The native functions, callable from Python without the interpreter lock."""

    def __init__(self) -> None:
        target = current_target()
        names = ["rushlight_run", "rushlight_serve", "rushlight_halt", "rushlight_pause"]
        entries = load_functions(executor_text(target.triple), names, target)
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        run = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, pointer)
        serve = ctypes.CFUNCTYPE(None, pointer, integer)
        self.run = run(entries["rushlight_run"])
        self.serve = serve(entries["rushlight_serve"])
        self.halt = ctypes.CFUNCTYPE(None, pointer)(entries["rushlight_halt"])
        self.pause = ctypes.CFUNCTYPE(None, integer)(entries["rushlight_pause"])


@cache
def executor() -> Executor:
    """The executor of this process."""
    return Executor()


def executor_text(triple: str) -> str:
    """The executor's LLVM text for one kind of machine."""
    words = {name: value for name, value in globals().items() if isinstance(value, int)}
    return _TEXT.substitute(words, **_machine_lines(triple))


def _machine_lines(triple: str) -> dict[str, str]:
    """The lines that differ: how to wait politely, and how to force IEEE arithmetic.

    A library built with fast-math may have switched off denormals in the calling thread;
    results must not depend on that, so every call runs in the default mode and puts the
    caller's back.
    """
    if triple.startswith(("x86_64", "amd64")):
        return {
            "PAUSE": "call void @llvm.x86.sse2.pause()",
            "SAVE_MODE": """call void @llvm.x86.sse.stmxcsr(ptr %mode)
  %ieee = alloca i32
  store i32 8064, ptr %ieee
  call void @llvm.x86.sse.ldmxcsr(ptr %ieee)""",
            "RESTORE_MODE": "call void @llvm.x86.sse.ldmxcsr(ptr %mode)",
        }
    pause = "call void @llvm.aarch64.hint(i32 1)" if triple.startswith("aarch64") else ""
    return {"PAUSE": pause, "SAVE_MODE": "", "RESTORE_MODE": ""}
