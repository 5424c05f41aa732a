"""`torch._inductor.config`: settings that programs change, with the defaults they read."""

from rushlight.settings import SettingGroup, accept_settings

coordinate_descent_tuning = False
max_autotune = False
fx_graph_cache = True
freezing = False
epilogue_fusion = False
force_fuse_int_mm_with_mul = False
reorder_for_compute_comm_overlap = False
triton, cpp, aot_inductor = SettingGroup(), SettingGroup(), SettingGroup()

accept_settings(__name__)
