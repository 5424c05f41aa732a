"""What programs ask about devices that are not there, and about the version."""

import importlib

import pytest

backends = importlib.import_module("rushlight.backends")
cuda = importlib.import_module("rushlight.cuda")
mps = importlib.import_module("rushlight.mps")
version = importlib.import_module("rushlight.version")


def test_no_device_is_found():
    assert not cuda.is_available()
    assert not cuda.is_initialized()
    assert not cuda.is_bf16_supported()
    assert cuda.device_count() == 0
    assert not mps.is_available()
    assert not backends.mps.is_available()
    assert version.cuda is None
    assert version.hip is None


def test_what_has_nothing_to_act_on_returns():
    cuda.manual_seed(1)
    cuda.manual_seed_all(1)
    cuda.empty_cache()
    cuda.synchronize()
    cuda.ipc_collect()
    cuda.reset_peak_memory_stats()
    cuda.set_rng_state_all(cuda.get_rng_state_all())
    mps.manual_seed(1)
    assert cuda.memory_allocated() == cuda.max_memory_reserved() == 0
    assert cuda.memory_stats() == {}


@pytest.mark.parametrize(
    "call",
    [
        cuda.current_device,
        cuda.get_device_name,
        cuda.get_device_properties,
        cuda.mem_get_info,
        cuda.current_stream,
        cuda.init,
        cuda.initial_seed,
        lambda: cuda.set_device(0),
        lambda: cuda.device(0).__enter__(),
    ],
)
def test_what_needs_a_device_raises(call):
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        call()


@pytest.mark.parametrize("name", ["Stream", "Event", "CUDAGraph", "MemPool"])
def test_classes_can_be_named_and_not_made(name):
    kind = getattr(cuda, name)
    assert not isinstance(1, kind)
    with pytest.raises(RuntimeError, match=f"{name} requires CUDA"):
        kind()
    with pytest.raises(TypeError, match="FloatTensor not available"):
        cuda.FloatTensor(2)


def test_contexts_without_a_device_change_nothing():
    with cuda.device(None), cuda.device(-1), cuda.stream(None):
        pass


@pytest.mark.filterwarnings("ignore:torch.cuda.amp:FutureWarning")
def test_amp_switches_itself_off():
    class Optimizer:
        def step(self, closure=None):
            return "stepped"

    with pytest.warns(UserWarning, match="Disabling"):
        scaler = cuda.amp.GradScaler()
    assert not scaler.is_enabled()
    assert scaler.scale(3.0) == 3.0
    assert scaler.unscale_(Optimizer()) is None
    assert scaler.step(Optimizer()) == "stepped"
    assert scaler.update() is None
    assert (scaler.get_scale(), scaler.state_dict()) == (1.0, {})
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = cuda.amp.autocast()
    with context:
        pass
    assert cuda.amp.autocast(enabled=False)(len)([1]) == 1


def test_switches_keep_what_is_set():
    backends.cudnn.deterministic = True
    with backends.cudnn.flags(enabled=False, benchmark=True, deterministic=False):
        assert (backends.cudnn.enabled, backends.cudnn.benchmark) == (False, True)
        assert not backends.cudnn.deterministic
    assert (backends.cudnn.enabled, backends.cudnn.benchmark) == (True, False)
    assert backends.cudnn.deterministic
    backends.cudnn.deterministic = False
    backends.cuda.matmul.allow_tf32 = True
    assert backends.cuda.matmul.allow_tf32
    backends.cuda.matmul.allow_tf32 = False
    backends.cuda.enable_flash_sdp(False)
    assert not backends.cuda.flash_sdp_enabled()
    backends.cuda.enable_flash_sdp(True)
    with pytest.warns(FutureWarning), backends.cuda.sdp_kernel(enable_math=False):
        assert not backends.cuda.math_sdp_enabled()
    assert backends.cuda.math_sdp_enabled()


def test_the_processor_is_named():
    assert backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512", "SVE256")


def test_versions_compare_as_versions():
    this = version.__version__
    assert this.startswith("2.13.0+rushlight")
    assert this >= "2.9"
    assert this >= (2, 13)
    assert this > "2.13.0rc1"
    assert this > "2.13.0"
    assert this < "2.14.0.dev20260101"
    assert this == str(this)
    assert this != "2.13.0"
    assert tuple(int(part) for part in this.split(".")[:2]) == (2, 13)
    assert this < "newest" and this != "N/A"  # what is no version is compared as a text
