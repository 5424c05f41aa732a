"""`torch._dynamo.config`: settings that programs change, with the defaults they read."""

from rushlight.settings import accept_settings

cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
suppress_errors = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
assume_static_by_default = True
automatic_dynamic_shapes = True
force_parameter_static_shapes = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
verbose = False
disable = False

accept_settings(__name__)
