"""What scripts call around compilation changes nothing about results."""

import numpy

import rushlight as torch


def test_functions_come_back_as_they_are():
    def double(x):
        return x * 2

    for wrap in (
        torch.compiler.disable,
        torch.compiler.allow_in_graph,
        torch.compiler.assume_constant_result,
        torch.compile,
        torch.compile(name="double", dynamic=True),
        torch.compiler.disable(),
    ):
        assert wrap(double) is double


def test_no_code_runs_in_a_special_mode():
    assert not torch.compiler.is_compiling()
    assert not torch.compiler.is_dynamo_compiling()
    assert not torch.compiler.is_exporting()
    assert torch.compiler.get_default_backend() in torch.compiler.list_backends()
    with torch.compiler.set_stance("force_eager"):
        torch.compiler.cudagraph_mark_step_begin()
        assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]


def test_functions_of_arrays_take_tensors():
    sort = torch.compiler.wrap_numpy(numpy.sort)
    assert sort(torch.tensor([3.0, 1.0, 2.0])).tolist() == [1.0, 2.0, 3.0]
    assert torch.compiler.wrap_numpy(len)(torch.ones(4)) == 4
