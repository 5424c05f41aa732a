"""L-BFGS: a quasi-Newton method for full batches, with or without a line search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.optim.optimizer import Optimizer, check_options, number
from rushlight.tensor import Tensor
from rushlight.trace.trace import flush

Objective = Callable[[float, Tensor], tuple[float, Tensor]]
TURNS = 8  # of a loop over the history, in one program


class LBFGS(Optimizer):
    """Steps along an estimate of the Newton direction, from the last changes of the gradient.

    Unlike the other optimizers it evaluates the closure several times a step and decides by the
    values it finds, so that it waits for them.
    """

    NUMBERS = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # ---- parameters as one vector

    def _flat_grad(self) -> Tensor:
        parts = []
        for param in self._params:
            grad = param.grad
            if grad is None:
                grad = param.new_zeros(param.shape)
            parts.append(_real(grad).reshape(-1))
        return rl.cat(parts, 0)

    def _move(self, size: Any, direction: Tensor) -> None:
        start = 0
        for param in self._params:
            flat = _real(param)
            part = direction[start : start + flat.numel()]
            flat.add_(part.view_as(flat), alpha=number(size))
            start += flat.numel()

    def _set(self, values: list[Tensor]) -> None:
        for param, value in zip(self._params, values, strict=True):
            param.copy_(value)

    # ---- one step

    def step(self, closure: Callable[[], Any]) -> Any:
        """Make up to `max_iter` steps, a closure call or more each; return the first loss."""
        with rl.no_grad():
            return self._step(rl.enable_grad()(closure))

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        state["func_evals"] += 1
        grad = self._flat_grad()
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss
        _Iterations(self, closure, group, state, float(first_loss), grad).run()
        return first_loss


class _Iterations:
    """The iterations of one step: where they are, and what they keep in the state."""

    def __init__(
        self,
        optimizer: LBFGS,
        closure: Callable[[], Any],
        group: dict[str, Any],
        state: dict[str, Any],
        loss: float,
        grad: Tensor,
    ) -> None:
        self.optimizer, self.closure, self.group, self.state = optimizer, closure, group, state
        self.loss, self.grad = loss, grad
        self.evaluations = 1
        self.d, self.t = state.get("d"), state.get("t")
        self.dirs, self.steps = state.get("old_dirs"), state.get("old_stps")
        self.ro, self.scale = state.get("ro"), state.get("H_diag")
        self.previous_grad = state.get("prev_flat_grad")
        self.previous_loss = state.get("prev_loss")

    def run(self) -> None:
        for i in range(1, self.group["max_iter"] + 1):
            self.state["n_iter"] += 1
            self._choose_direction()
            self.previous_grad, self.previous_loss = self.grad.clone(), self.loss
            slope = float(self.grad.dot(self.d))
            self.t = self._first_try()
            if slope > -self.group["tolerance_change"]:
                break
            used = self._advance(slope, is_last=i == self.group["max_iter"])
            self.evaluations += used
            self.state["func_evals"] += used
            if i == self.group["max_iter"] or self._is_done():
                break
        self._save()

    def _first_try(self) -> Any:
        """The step to try first: the rate, at the very beginning made small."""
        lr = self.group["lr"]
        if self.state["n_iter"] > 1:
            return lr
        return min(1.0, 1.0 / self.grad.abs().sum()) * lr

    def _is_done(self) -> bool:
        group = self.group
        return (
            self.evaluations >= group["max_eval"]
            or float(self.grad.abs().max()) <= group["tolerance_grad"]
            or float(self.d.mul(self.t).abs().max()) <= group["tolerance_change"]
            or abs(self.loss - self.previous_loss) < group["tolerance_change"]
        )

    def _choose_direction(self) -> None:
        if self.state["n_iter"] == 1:
            self.d = self.grad.neg()
            self.dirs, self.steps, self.ro = [], [], []
            self.scale = 1
            return
        change = self.grad.sub(self.previous_grad)
        step = self.d.mul(self.t)
        curvature = change.dot(step)
        if float(curvature) > 1e-10:
            self._remember(change, step, curvature)
        self.d = self._newton_direction()

    def _remember(self, change: Tensor, step: Tensor, curvature: Tensor) -> None:
        if len(self.dirs) == self.group["history_size"]:
            for history in (self.dirs, self.steps, self.ro):
                history.pop(0)
        self.dirs.append(change)
        self.steps.append(step)
        self.ro.append(1.0 / curvature)
        self.scale = curvature / change.dot(change)

    def _newton_direction(self) -> Tensor:
        """The two loops of L-BFGS (Nocedal, 1980).

        They are computed in runs of a few turns: recorded as a whole, they would be another
        program for every length of the history.
        """
        count = len(self.dirs)
        alphas = self.state.setdefault("al", [None] * self.group["history_size"])
        q = self.grad.neg()
        for i in range(count - 1, -1, -1):
            alphas[i] = self.steps[i].dot(q) * self.ro[i]
            q = q - self.dirs[i] * alphas[i]
            if i % TURNS == 0:
                flush()
        r = q * self.scale
        for i in range(count):
            beta = self.dirs[i].dot(r) * self.ro[i]
            r = r + self.steps[i] * (alphas[i] - beta)
            if i % TURNS == TURNS - 1:
                flush()
        return r

    def _advance(self, slope: float, is_last: bool) -> int:
        """Move along the direction; how many evaluations that took."""
        search = self.group["line_search_fn"]
        if search is None:
            self.optimizer._move(self.t, self.d)
            if is_last:
                return 0
            self.loss = float(self.closure())
            self.grad = self.optimizer._flat_grad()
            return 1
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        params = self.optimizer._params
        start = [param.clone() for param in params]

        def objective(t: float, d: Tensor) -> tuple[float, Tensor]:
            self.optimizer._move(t, d)
            loss = float(self.closure())
            grad = self.optimizer._flat_grad()
            self.optimizer._set(start)
            return loss, grad

        found = strong_wolfe(objective, number(self.t), self.d, self.loss, self.grad, slope)
        self.loss, self.grad, self.t, used = found
        self.optimizer._move(self.t, self.d)
        return used

    def _save(self) -> None:
        self.state.setdefault("al", [None] * self.group["history_size"])
        self.state.update(
            d=self.d,
            t=self.t,
            old_dirs=self.dirs,
            old_stps=self.steps,
            ro=self.ro,
            H_diag=self.scale,
            prev_flat_grad=self.previous_grad,
            prev_loss=self.previous_loss,
        )


def _real(tensor: Tensor) -> Tensor:
    return rl.view_as_real(tensor) if tensor.is_complex() else tensor


# ---- line search


class _Point:
    """A place on the line: step, loss, gradient, slope along the line."""

    __slots__ = ("t", "loss", "grad", "slope")

    def __init__(self, t: float, loss: float, grad: Tensor, slope: float) -> None:
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def strong_wolfe(
    objective: Objective,
    t: float,
    d: Tensor,
    loss: float,
    grad: Tensor,
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:
    """A step that lowers the loss and flattens the slope enough (Nocedal and Wright, 3.5).

    Returns the loss and gradient there, the step, and the number of evaluations.
    """
    scale = float(d.abs().max())
    start = _Point(0.0, loss, grad.clone(), slope)
    evaluate = _Evaluate(objective, d)
    point, previous = evaluate(t), start
    bracket: list[_Point] = []
    done, tries = False, 0
    while tries < max_ls:
        rises = tries > 1 and point.loss >= previous.loss
        if point.loss > loss + c1 * point.t * slope or rises:
            bracket = [previous, point]
            break
        if abs(point.slope) <= -c2 * slope:
            bracket, done = [point], True
            break
        if point.slope >= 0:
            bracket = [previous, point]
            break
        low = point.t + 0.01 * (point.t - previous.t)
        next_t = _cubic_minimum(previous, point, (low, point.t * 10))
        previous, point = point, evaluate(next_t)
        tries += 1
    if tries == max_ls:
        bracket = [start, point]
    if not done:
        done = _zoom(bracket, start, evaluate, scale, c1, c2, tolerance_change, max_ls, tries)
    best = bracket[0] if len(bracket) == 1 else min(bracket, key=lambda p: p.loss)
    return best.loss, best.grad, best.t, evaluate.count


class _Evaluate:
    def __init__(self, objective: Objective, d: Tensor) -> None:
        self.objective, self.d, self.count = objective, d, 0

    def __call__(self, t: float) -> _Point:
        self.count += 1
        loss, grad = self.objective(t, self.d)
        return _Point(t, loss, grad.clone(), float(grad.dot(self.d)))


def _zoom(
    bracket: list[_Point],
    start: _Point,
    evaluate: _Evaluate,
    scale: float,
    c1: float,
    c2: float,
    tolerance: float,
    max_ls: int,
    tries: int,
) -> bool:
    """Narrow a bracket that holds a good step until one is found."""
    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while tries < max_ls:
        width = abs(bracket[1].t - bracket[0].t)
        if width * scale < tolerance:
            break
        t = _cubic_minimum(bracket[0], bracket[1])
        t, stuck = _away_from_ends(t, bracket, stuck)
        point = evaluate(t)
        tries += 1
        too_high = point.loss > start.loss + c1 * t * start.slope
        if too_high or point.loss >= bracket[low].loss:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if abs(point.slope) <= -c2 * start.slope:
            bracket[low] = point
            return True
        if point.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
    return False


def _away_from_ends(t: float, bracket: list[_Point], stuck: bool) -> tuple[float, bool]:
    """A step that is not too close to the bracket's ends twice in a row."""
    ends = [point.t for point in bracket]
    lowest, highest = min(ends), max(ends)
    margin = 0.1 * (highest - lowest)
    if min(highest - t, t - lowest) >= margin:
        return t, False
    if not stuck and lowest < t < highest:
        return t, True
    nearer_top = abs(t - highest) < abs(t - lowest)
    return (highest - margin if nearer_top else lowest + margin), False


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is lowest (Nocedal, 3.59)."""
    low, high = bounds if bounds is not None else sorted((a.t, b.t))
    if a.t == b.t:
        return (low + high) / 2.0
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if a.t <= b.t:
        t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        t = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(t, low), high)
