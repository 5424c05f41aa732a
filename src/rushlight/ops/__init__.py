"""Every operation of the user's, one declaration each, one file a family.

An Op says its type rule, its derivative and its lowering; in come operand types or builder
references, out go types, gradients or primitives. This room never touches memory, kernels or
the trace.
"""

FAMILIES = (  # one a line, each after those it imports
    "elementwise",
    "batching",
    "arithmetic",
    "comparison",
    "selection",
    "bitwise",
    "rounding",
    "transcendental",
    "activation",
    "shrinkage",
    "bessel",
    "special",
    "creation",
    "ranges",
    "from_data",
    "pick",
    "reduce",
    "extremes",
    "hashing",
    "scan",
    "statistics",
    "contract",
    "movement",
    "sections",
    "rearrange",
    "joining",
    "triangles",
    "combinations",
    "convert",
    "contents",
    "handles",
    "removed",
    "sparse",
    "random",
    "samples",
    "random_fill",
    "gamma_samples",
    "window_functions",
    "indexing",
    "index_arrays",
    "positions",
    "advanced",
    "slice_scatter",
    "scatter_reduce",
    "sort",
    "histograms",
    "segments",
    "quantile",
    "differences",
    "covariance",
    "complex_parts",
    "copies",
    "fourier",
    "softmax",
    "embedding",
    "cross_entropy",
    "norm",
    "dropout",
    "attention",
    "recurrence",
    "multihead",
    "windows",
    "conv",
    "pool",
    "max_pool",
    "adaptive_pool",
    "fractional_pool",
    "interpolate",
    "short_time",
    "grid",
    "distance",
    "ctc",
    "loss",
    "margin_loss",
    "linear_algebra",
    "linear_solve",
    "eigenvalues",
    "matrix_norm",
    "lu",
    "ldl",
    "low_rank",
    "lobpcg",
    "least_squares",
    "matrix_exponential",
    "reflections",
    "matrix_products",
    "einsum",
    "spellings",
)

namespaces: dict[str, object] = {}
"""`torch.ops.<name>`: of operators that programs define, and of PyTorch's (`operators.py`)."""


def load_families() -> None:
    """Import every family, so that its ops and public names are registered."""
    import importlib  # the families import the registry of this package

    for family in FAMILIES:
        importlib.import_module(f"rushlight.ops.{family}")


def __getattr__(name: str) -> object:
    """A namespace of operators, for programs that call `torch.ops.aten.relu`."""
    if name == "aten" and name not in namespaces:
        import importlib  # few programs name PyTorch's operators

        importlib.import_module("rushlight.operators")  # which registers them
    if name not in namespaces:
        raise AttributeError(f"module 'rushlight.ops' has no attribute {name!r}")
    return namespaces[name]
