"""Both demonstrations, one after the other: the digits network and the standard-library GPT.

    python -m examples.demo [--quick] [--picture out/demo.png]

Prints what was reached, how fast and in how much memory, and draws it in one picture.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # before pyplot: a picture in a file needs no display
import matplotlib.pyplot as plt

from examples import digits_resnet, stdlib_gpt


def peak_mib() -> float:
    """The largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def summary(digits: digits_resnet.Result, gpt: stdlib_gpt.Result) -> list[str]:
    return [
        f"digits: {digits.accuracy:.2%} of held-out digits read right",
        f"        {digits.images_per_second:,.0f} images/s, {digits.seconds:.1f} s",
        f"gpt:    {gpt.gpt:.3f} nats a byte on held-out files",
        f"        (unigram {gpt.unigram:.3f}, trigram {gpt.trigram:.3f})",
        f"        {gpt.bytes_per_second:,.0f} bytes/s, {gpt.seconds:.1f} s",
    ]


# ------------------------------------------------------------------------------ the picture
def plot_digits(axes: Any, result: digits_resnet.Result) -> None:
    epochs = range(1, len(result.epoch_losses) + 1)
    axes.set_title("Handwritten digits: a residual network")
    axes.plot(epochs, result.epoch_losses, color="tab:blue", label="training loss")
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    right = axes.twinx()
    errors = [100 * (1 - accuracy) for accuracy in result.epoch_accuracies]
    right.plot(epochs, errors, color="tab:red", label="held-out errors, %")
    right.set_ylim(0, 20)
    lines = axes.get_lines() + right.get_lines()
    axes.legend(lines, [line.get_label() for line in lines], loc="upper right")


def plot_gpt(axes: Any, result: stdlib_gpt.Result) -> None:
    axes.set_title("Python's standard library: a byte-level GPT")
    axes.plot(
        range(1, len(result.losses) + 1), result.losses, lw=0.5, alpha=0.6, label="training"
    )
    steps, losses = zip(*result.held_out)
    axes.plot(steps, losses, "o-", ms=3, color="tab:red", label="held out")
    for name, loss in (("unigram", result.unigram), ("trigram", result.trigram)):
        axes.axhline(loss, color="gray", ls="--", lw=1)
        across = axes.get_yaxis_transform()  # x from 0 to 1, y in nats
        axes.text(0.02, loss, name, va="bottom", color="gray", transform=across)
    axes.set_ylim(1, 4)
    axes.set_xlabel("step")
    axes.set_ylabel("nats a byte")
    axes.legend(loc="upper right")


def write(axes: Any, title: str, text: str) -> None:
    axes.set_title(title)
    axes.axis("off")
    # `$` would begin a formula, and what a small GPT writes is rarely a valid one.
    text = text.expandtabs(4).replace("$", r"\$")
    shown = axes.text(0, 1, text, va="top", family="monospace", fontsize=8)
    shown.set_in_layout(False)  # long lines shall not narrow the plots above


def picture(
    path: Path, digits: digits_resnet.Result, gpt: stdlib_gpt.Result, lines: list[str]
) -> None:
    figure, ((top_left, top_right), (low_left, low_right)) = plt.subplots(
        2, 2, figsize=(13, 8), height_ratios=(3, 2)
    )
    plot_digits(top_left, digits)
    plot_gpt(top_right, gpt)
    write(low_left, "Reached", "\n".join(lines))
    printable = "".join(c if c.isprintable() or c == "\n" else "?" for c in gpt.text)
    written = [line[:80] for line in printable.splitlines() if line.strip()]
    write(low_right, "Written by the GPT (lines cut at 80)", "\n".join(written[:16]))
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--picture", type=Path, default=Path("out/demo.png"))
    options = parser.parse_args()
    start = time.perf_counter()
    digits = digits_resnet.train(quick=options.quick)
    gpt = stdlib_gpt.train(quick=options.quick)
    seconds = time.perf_counter() - start
    lines = summary(digits, gpt)
    lines.append(f"both:   {seconds:.0f} s, {peak_mib():,.0f} MiB at the peak")
    picture(options.picture, digits, gpt, lines)
    print("\n".join(["", *lines, "", "It writes:", "", gpt.text, "", f"See {options.picture}"]))


if __name__ == "__main__":
    main()
