"""autocast lowers what PyTorch's lowers; GradScaler steps and adapts as PyTorch's."""

import pickle
import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")
LIBRARIES = [torch, rushlight]


def _dtype(lib, name):
    return getattr(lib, name)


# name, call of (library, tensors maker); the maker gives positive numbers of a dtype
CALLS = {
    "matmul operator": lambda t, x: x(2, 3) @ x(3, 2),
    "matmul method": lambda t, x: x(4, 2, 3).matmul(x(3, 2)),
    "mm": lambda t, x: t.mm(x(2, 3), x(3, 2)),
    "bmm": lambda t, x: t.bmm(x(2, 3, 4), x(2, 4, 3)),
    "addmm": lambda t, x: t.addmm(x(2), x(2, 3), x(3, 2)),
    "baddbmm": lambda t, x: t.baddbmm(x(2, 3, 3), x(2, 3, 4), x(2, 4, 3)),
    "addmv": lambda t, x: t.addmv(x(2), x(2, 3), x(3)),
    "dot": lambda t, x: t.dot(x(3), x(3)),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x(2, 3), x(3, 2)),
    "tensordot": lambda t, x: t.tensordot(x(2, 3), x(3, 2), 1),
    "linear": lambda t, x: t.nn.functional.linear(x(2, 3), x(4, 3), x(4)),
    "conv1d": lambda t, x: t.nn.functional.conv1d(x(1, 2, 5), x(3, 2, 2)),
    "conv2d": lambda t, x: t.nn.functional.conv2d(x(1, 2, 5, 5), x(3, 2, 2, 2), x(3)),
    "conv_transpose2d": lambda t, x: t.conv_transpose2d(x(1, 2, 5, 5), x(2, 3, 2, 2)),
    "prelu": lambda t, x: t.nn.functional.prelu(x(2, 3), x(1)),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(
        x(1, 2, 3, 4), x(1, 2, 3, 4), x(1, 2, 3, 4)
    ),
    "add": lambda t, x: x(2) + x(2),
    "softmax": lambda t, x: x(2, 3).softmax(-1),
    "gelu": lambda t, x: t.nn.functional.gelu(x(2, 3)),
    "exp": lambda t, x: x(2).exp(),
    "sum": lambda t, x: x(2, 3).sum(),
    "prod": lambda t, x: x(2, 3).prod(),
    "trace": lambda t, x: t.trace(x(3, 3)),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x(2, 3), (3,)),
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x(1, 1, 4, 4), 2),
    "avg_pool3d": lambda t, x: t.nn.functional.avg_pool3d(x(1, 1, 4, 4, 4), 2),
    "cat": lambda t, x: t.cat([x(2), x(2).float()]),
    "stack": lambda t, x: t.stack([x(2).float(), x(2)]),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x(3), x(3)),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x(2, 3), t.tensor([0, 2])),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x(2, 3), t.tensor([0, 2])),
    "kl_div": lambda t, x: t.nn.functional.kl_div(x(3), x(3), reduction="sum"),
    "binary_cross_entropy_with_logits": lambda t, x: (
        t.nn.functional.binary_cross_entropy_with_logits(x(3), x(3))
    ),
    "in place": lambda t, x: x(2, 2).addmm_(x(2, 3), x(3, 2)),
}


def _made(lib, kind):
    return lambda *shape: lib.full(shape, 0.5, dtype=_dtype(lib, kind))


@pytest.mark.parametrize("lowered", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_dtypes_that_pytorch_gives_them(name, lowered):
    for kind in ("float32", "float64", lowered):
        found = []
        for lib in LIBRARIES:
            with lib.autocast("cpu", dtype=_dtype(lib, lowered)):
                found.append(CALLS[name](lib, _made(lib, kind)))
        assert str(found[0].dtype) == str(found[1].dtype), kind
        expected, got = found[0].double().tolist(), found[1].double().tolist()
        torch.testing.assert_close(got, expected, rtol=0.02, atol=0.02)


def _model(lib):
    lib.manual_seed(0)
    nn = lib.nn
    model = nn.Sequential(
        nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 8),
        nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2),
    )  # fmt: skip
    state = {k: torch.linspace(-1, 1, v.numel()).reshape(v.shape) if v.ndim else v
             for k, v in torch_state().items()}  # fmt: skip
    model.load_state_dict(
        {
            k: lib.tensor(v.tolist(), dtype=_dtype(lib, str(v.dtype)[6:]))
            for k, v in state.items()
        }
    )
    return model


def torch_state():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 8),
        nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2),
    ).state_dict()  # fmt: skip


def test_a_model_trains_under_autocast_as_in_pytorch():
    losses, dtypes = [], []
    for lib in LIBRARIES:
        model = _model(lib)
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        x = lib.linspace(-1, 1, 5 * 3 * 6).reshape(5, 3, 6)
        y = lib.tensor([0, 1, 0, 1, 1])
        run = []
        for _ in range(4):  # the second and later steps are remembered ones
            with lib.autocast("cpu", dtype=lib.bfloat16):
                out = model(x)
                loss = lib.nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.append(loss.item())
        losses.append(run)
        dtypes.append(
            [str(out.dtype), str(loss.dtype), *(str(p.grad.dtype) for p in model.parameters())]
        )
    assert dtypes[0] == dtypes[1]
    torch.testing.assert_close(losses[1], losses[0], rtol=0.03, atol=0.03)


def test_one_line_runs_with_and_without_autocast():
    a = rushlight.randn(3, 3)
    kinds = []
    for enabled in (False, True, False, True):
        with rushlight.autocast("cpu", enabled=enabled):
            kinds.append((a @ a).dtype)
    assert kinds == [rushlight.float32, rushlight.bfloat16] * 2


def test_blocks_nest_and_restore_what_was_set():
    a = rushlight.ones(2, 2)
    assert not rushlight.is_autocast_enabled("cpu")
    with rushlight.autocast("cpu", rushlight.float16):
        assert rushlight.get_autocast_dtype("cpu") is rushlight.float16
        with rushlight.autocast("cpu", enabled=False):
            assert (a @ a).dtype is rushlight.float32
        assert (a @ a).dtype is rushlight.float16
    assert not rushlight.is_autocast_cpu_enabled()
    assert rushlight.get_autocast_cpu_dtype() is rushlight.bfloat16


def test_backward_inside_the_block_gives_the_same_gradients():
    grads = []
    for inside in (False, True):
        w = rushlight.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        with rushlight.autocast("cpu"):
            loss = (w @ w.T).float().square().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert w.grad.dtype is rushlight.float32
        grads.append(w.grad.tolist())
    assert grads[0] == grads[1]


def test_functions_decorated_for_autocast():
    class Product(rushlight.autograd.Function):
        @staticmethod
        @rushlight.amp.custom_fwd(device_type="cpu", cast_inputs=rushlight.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            ctx.kinds = (a.dtype, (a @ b).dtype)
            return a @ b

        @staticmethod
        @rushlight.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g @ b.T, a.T @ g

    a = rushlight.ones(2, 2, dtype=rushlight.bfloat16, requires_grad=True)
    with rushlight.autocast("cpu"):
        out = Product.apply(a, a)
    assert out.dtype is rushlight.float32
    out.sum().backward()
    assert a.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_what_cannot_be_lowered_is_refused_or_said():
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        context = rushlight.autocast("cpu", dtype=rushlight.float32)
    with context:
        assert (rushlight.ones(2, 2) @ rushlight.ones(2, 2)).dtype is rushlight.float32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        rushlight.autocast("cuda")
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
        rushlight.autocast("toaster")
    with pytest.raises(ValueError, match="device_type"):
        rushlight.autocast(rushlight.bfloat16)


# ---- GradScaler


def _scaled_steps(lib, factors):
    """Parameter and scale after each step; a factor of inf makes gradients overflow."""
    weight = lib.tensor([1.0, -2.0], requires_grad=True)
    optimizer = lib.optim.SGD([weight], lr=0.1, momentum=0.9)
    scaler = lib.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)
    trail = []
    for factor in factors:
        optimizer.zero_grad()
        scaler.scale((weight * weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        trail.append((weight.tolist(), scaler.get_scale(), scaler.state_dict()))
    return trail


def test_steps_and_scales_are_pytorchs():
    factors = [1.0, float("inf"), 0.5, 2.0, float("nan"), 1.0, 1.0, 1.0]
    expected, got = (_scaled_steps(lib, factors) for lib in LIBRARIES)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_unscaled_gradients_can_be_clipped_once():
    weight = rushlight.ones(3, requires_grad=True)
    optimizer = rushlight.optim.SGD([weight], lr=1.0)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=8.0)
    with pytest.raises(AssertionError, match="did not use scaler.scale"):
        scaler.unscale_(optimizer)
    scaler.scale((weight * 2).sum()).backward()
    assert weight.grad.tolist() == [16.0] * 3
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert weight.tolist() == [-1.0] * 3
    with pytest.raises(RuntimeError, match="since the last update"):
        scaler.step(optimizer)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0


def test_scalers_are_saved_and_restored():
    scaler = rushlight.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(rushlight.ones(1))
    other = rushlight.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})
    off = rushlight.amp.GradScaler("cpu", enabled=False)
    assert (off.scale(3.0), off.get_scale(), off.state_dict()) == (3.0, 1.0, {})


def test_half_gradients_are_refused():
    weight = rushlight.ones(2, dtype=rushlight.float16, requires_grad=True)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="FP16 gradients"):
        scaler.unscale_(rushlight.optim.SGD([weight], lr=0.1))


def test_older_names_work():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FutureWarning)  # that there are newer names
        with rushlight.cpu.amp.autocast():
            assert (rushlight.ones(2, 2) @ rushlight.ones(2, 2)).dtype is rushlight.bfloat16
        assert rushlight.cpu.amp.GradScaler(init_scale=2.0).get_scale() == 2.0
