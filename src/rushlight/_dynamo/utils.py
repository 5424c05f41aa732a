"""`torch._dynamo.utils`: counters of a compiler that is not here, so they count nothing."""

from collections import Counter, defaultdict

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
