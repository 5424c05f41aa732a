"""Event files for TensorBoard."""

from __future__ import annotations

import pytest

import rushlight as rl


def test_event_files_take_tensors(tmp_path):
    pytest.importorskip("tensorboardX")
    from rushlight.utils.tensorboard import SummaryWriter

    with SummaryWriter(log_dir=str(tmp_path)) as writer:
        assert writer.get_logdir() == writer.log_dir == str(tmp_path)
        writer.add_scalar("loss", rl.tensor(0.25, requires_grad=True), 1)
        writer.add_scalars("both", {"a": rl.tensor(1.0), "b": 2.0}, 1)
        writer.add_histogram("weights", rl.randn(10, dtype=rl.bfloat16), 1)
        writer.add_image("picture", rl.rand(3, 4, 4), 1)
        writer.add_hparams({"lr": 0.1}, {"accuracy": rl.tensor(0.5)})
        for refused in (writer.add_graph, lambda x: writer.add_tensor("t", x)):
            with pytest.raises(NotImplementedError):
                refused(rl.ones(1))
    assert b"loss" in b"".join(p.read_bytes() for p in tmp_path.rglob("*tfevents*"))
