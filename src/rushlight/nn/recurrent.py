"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import rushlight as rl
from rushlight.nn import init, recurrence
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.tensor import Tensor

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {
    "RNN_TANH": recurrence.rnn_tanh,
    "RNN_RELU": recurrence.rnn_relu,
    "GRU": recurrence.gru,
    "LSTM": recurrence.lstm,
}


class RNNBase(Module):
    """Layers of one recurrence, in one or both directions."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        _check_switches(bias, batch_first)
        _check_dropout(dropout, num_layers)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            width = input_size if layer == 0 else self._output_size * directions
            for suffix in ("", "_reverse")[:directions]:
                self._add_layer(f"_l{layer}{suffix}", width, device, dtype)
        self.reset_parameters()

    @property
    def _output_size(self) -> int:
        return self.proj_size if self.proj_size > 0 else self.hidden_size

    def _add_layer(self, suffix: str, width: int, device: Any, dtype: Any) -> None:
        gates = _GATES[self.mode] * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, width),
            "weight_hh": (gates, self._output_size),
        }
        if self.bias:
            shapes.update(bias_ih=(gates,), bias_hh=(gates,))
        if self.proj_size > 0:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(rl.empty(shape, device=device, dtype=dtype)))
        self._all_weights.append([name + suffix for name in shapes])

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    def flatten_parameters(self) -> None:
        """Nothing to do: the recurrence reads each weight where it is."""

    # ---- checks

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse an input of the wrong dtype or shape."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype "
                f"({weight.dtype}). Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        dims = 2 if batch_sizes is not None else 3
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, ...],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse a state of the wrong shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the hidden state."""
        return self._state_shape(_batch_of(input, batch_sizes, self.batch_first))

    def _state_shape(self, batch: int) -> tuple[int, int, int]:
        directions = 2 if self.bidirectional else 1
        return self.num_layers * directions, batch, self._output_size

    def check_forward_args(
        self, input: Tensor, hidden: Any, batch_sizes: Tensor | None
    ) -> None:
        """Refuse arguments that do not fit this layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its batch in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # ---- running

    def _check_batched(self, input: Tensor, hx: Any) -> bool:
        """Is a batch dimension there, and in the state too?"""
        name = self._get_name()
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        if hx is not None:
            wanted = 3 if batched else 2
            for h in hx if isinstance(hx, tuple) else (hx,):
                if h.dim() != wanted:
                    raise RuntimeError(self._hidden_message(batched, hx, wanted))
        return batched

    def _hidden_message(self, batched: bool, hx: Any, wanted: int) -> str:
        kind = "batched" if batched else "unbatched"
        if isinstance(hx, tuple):
            dims = f"({hx[0].dim()}-D, {hx[1].dim()}-D)"
            return (
                f"For {kind} {wanted}-D input, hx and cx should also be {wanted}-D but got "
                f"{dims} tensors"
            )
        return (
            f"For {kind} {wanted}-D input, hx should also be {wanted}-D but got "
            f"{hx.dim()}-D tensor"
        )

    def _first_state(self, input: Tensor, batch: int) -> Any:
        shape = self._state_shape(batch)
        return rl.zeros(shape, dtype=input.dtype, device=input.device)

    def _call(self, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> tuple[Any, ...]:
        function = _FUNCTIONS[self.mode]
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            return function(input, hx, self._flat_weights, *options, self.batch_first)
        return function(input, batch_sizes, hx, self._flat_weights, *options)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        batched = self._check_batched(input, hx)
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = _each(hx, lambda h: h.unsqueeze(1))
        if hx is None:
            hx = self._first_state(input, input.size(batch_dim))
        self.check_forward_args(input, hx, None)
        output, *states = self._call(input, hx, None)
        if not batched:
            output = output.squeeze(batch_dim)
            states = [h.squeeze(1) for h in states]
        return output, self._states(states)

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, order, back = packed
        if hx is None:
            hx = self._first_state(data, int(batch_sizes[0]))
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, *states = self._call(data, hx, batch_sizes)
        hidden = self.permute_hidden(self._states(states), back)
        return PackedSequence(output, batch_sizes, order, back), hidden

    def _states(self, states: list[Tensor]) -> Any:
        return states[0]

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        shown = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
            "dropout": 0, "bidirectional": False,
        }  # fmt: skip
        for name, default in shown.items():
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)


def _each(hx: Any, fn: Any) -> Any:
    if hx is None:
        return None
    return tuple(fn(h) for h in hx) if isinstance(hx, tuple) else fn(hx)


def _batch_of(input: Tensor, batch_sizes: Tensor | None, batch_first: bool) -> int:
    if batch_sizes is not None:
        return int(batch_sizes[0])
    return input.size(0) if batch_first else input.size(1)


def _check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError(
            "proj_size should be a positive integer or zero to disable projections"
        )
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _check_switches(bias: Any, batch_first: Any) -> None:
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def _check_dropout(dropout: Any, num_layers: int) -> None:
    is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero "
            f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )


class RNN(RNNBase):
    """`h = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with ReLU."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("proj_size", 0) != 0:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        _refuse("RNN", kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        self.nonlinearity = nonlinearity
        super().__init__(
            "RNN_" + nonlinearity.upper(),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )


class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014); gates in the order reset, update, new."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("proj_size", 0) != 0:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        _refuse("GRU", kwargs)
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )


def _refuse(name: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise TypeError(
            f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
        )


class LSTM(RNNBase):
    """Long short-term memory; gates in the order input, forget, cell, output."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the cell state, which is never projected."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(
        self, input: Tensor, hidden: Any, batch_sizes: Tensor | None
    ) -> None:
        self.check_input(input, batch_sizes)
        for state, shape, name in (
            (hidden[0], self.get_expected_hidden_size(input, batch_sizes), "hidden[0]"),
            (hidden[1], self.get_expected_cell_size(input, batch_sizes), "hidden[1]"),
        ):
            self.check_hidden_size(state, shape, "Expected " + name + " size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        if permutation is None:
            return hx
        return tuple(h.index_select(1, permutation) for h in hx)

    def _first_state(self, input: Tensor, batch: int) -> Any:
        layers, _, width = self._state_shape(batch)
        options = {"dtype": input.dtype, "device": input.device}
        hidden = rl.zeros((layers, batch, width), **options)
        return hidden, rl.zeros((layers, batch, self.hidden_size), **options)

    def _states(self, states: list[Tensor]) -> Any:
        return tuple(states)


# ---- cells


class RNNCellBase(Module):
    """One step of a recurrence, for loops of the user's own."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        where = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(rl.empty((rows, input_size), **where))
        self.weight_hh = Parameter(rl.empty((rows, hidden_size), **where))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(rl.empty(rows, **where)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check(self, input: Tensor, states: tuple[tuple[str, Tensor], ...]) -> None:
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 1D or 2D, got {input.dim()}D instead"
            )
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(-1)} expected "
                f"{self.input_size}"
            )
        for i, (name, state) in enumerate(states):
            self._check_state(input, i, name, state)

    def _check_state(self, input: Tensor, i: int, name: str, state: Tensor) -> None:
        if state.dim() not in (1, 2):
            raise ValueError(
                f"{self._get_name()}: Expected {name} to be 1D or 2D, got {state.dim()}D "
                "instead"
            )
        if state.size(-1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {state.size(-1)}, expected "
                f"{self.hidden_size}"
            )
        if input.dim() == 2 and state.dim() == 2 and input.size(0) != state.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{i} batch size "
                f"{state.size(0)}"
            )

    def _zeros(self, input: Tensor) -> Tensor:
        shape = (input.size(0), self.hidden_size)
        return rl.zeros(shape, dtype=input.dtype, device=input.device)

    def _run_one_state(self, cell: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        """One step of a recurrence whose state is one tensor, batched or not."""
        self._check(input, () if hx is None else (("hidden", hx),))
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = self._zeros(input)
        elif not batched:
            hx = hx.unsqueeze(0)
        out = cell(input, hx, *self._weights())
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of RNN."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        cells = {"tanh": recurrence.rnn_tanh_cell, "relu": recurrence.rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._run_one_state(cells[self.nonlinearity], input, hx)


class GRUCell(RNNCellBase):
    """One step of GRU."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._run_one_state(recurrence.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of LSTM: hidden and cell state."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        states = () if hx is None else (("hx[0]", hx[0]), ("hx[1]", hx[1]))
        self._check(input, states)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = self._zeros(input)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = recurrence.lstm_cell(input, hx, *self._weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))
