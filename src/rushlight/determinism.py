"""Switches over determinism, precision and threads that PyTorch programs set.

Results here never depend on threads or chunks, so most switches are only remembered: there is
no other way to compute.
"""

from __future__ import annotations

from rushlight import views


class _Settings:
    deterministic = False
    warn_only = False
    precision = "highest"
    interop_threads = 1


_settings = _Settings()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembered; every algorithm here is deterministic."""
    op = "use_deterministic_algorithms"
    _settings.deterministic = views.flag(op, "mode", mode)
    _settings.warn_only = views.flag(op, "warn_only", warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error"."""
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    names = {"default": 0, "warn": 1, "error": 2}
    level = names.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1 or 2, got {debug_mode!r}"
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    if not _settings.deterministic:
        return 0
    return 1 if _settings.warn_only else 2


def get_float32_matmul_precision() -> str:
    return _settings.precision


def set_float32_matmul_precision(precision: str) -> None:
    """Remembered; float32 products are always computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high' or 'medium'")
    _settings.precision = precision


def set_flush_denormal(mode: bool) -> bool:
    """Small numbers are kept: False says that the mode cannot be changed."""
    return not mode


def get_num_interop_threads() -> int:
    return _settings.interop_threads


def set_num_interop_threads(count: int) -> None:
    """Remembered; independent operations are parts of one program here."""
    if count < 1:
        raise RuntimeError(f"expected a positive number of threads, got {count}")
    _settings.interop_threads = count
