"""Datasets, samplers, collation and loaders against PyTorch."""

import collections
import warnings

import numpy as np
import pytest
from nn_parity import array, assert_same, both_raise, torch

import rushlight as rl
from rushlight.data import loader
from rushlight.trace.trace import local

X, Y = np.arange(30, dtype=np.float32).reshape(10, 3), np.arange(10)
Point = collections.namedtuple("Point", ["x", "y"])


def data(lib):
    return lib.utils.data


def pairs(lib):
    return data(lib).TensorDataset(lib.tensor(X), lib.tensor(Y))


def both(run):
    results = []
    for lib in (rl, torch):
        results.append(array(run(lib)))
    assert_same(*results)
    return results[0]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"batch_size": 3}, {"batch_size": 4, "drop_last": True}, {"batch_size": None},
        {"batch_sampler": [[1, 2], [3]]}, {"sampler": [1, 1, 2]},
    ],
)  # fmt: skip
def test_loaders_give_pytorchs_batches(options):
    both(lambda lib: [*data(lib).DataLoader(pairs(lib), **options)])
    both(lambda lib: len(data(lib).DataLoader(pairs(lib), **options)))


def stream(lib):
    class Numbers(data(lib).IterableDataset):
        def __iter__(self):
            return iter(range(7))

    return Numbers()


@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}],
)
def test_streams(options):
    both(lambda lib: [*data(lib).DataLoader(stream(lib), **options)])


def test_shuffling_visits_all_once_and_follows_the_seed():
    def order(seed):
        generator = rl.Generator().manual_seed(seed)
        batches = rl.utils.data.DataLoader(pairs(rl), 4, shuffle=True, generator=generator)
        return np.concatenate([array(y) for _, y in batches]).tolist()

    assert sorted(order(1)) == list(range(10))
    assert order(1) == order(1) and order(1) != order(2)


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2], [1.0, 2.0], [True, False], ["a", "b"], [(1, "x"), (2, "y")],
        [{"a": 1, "b": np.ones(2)}, {"a": 2, "b": np.zeros(2)}], [Point(1, 2.0), Point(3, 4.0)],
        [np.float32(1), np.float32(2)], [[1, 2], [3, 4]],
    ],
)  # fmt: skip
def test_collation(batch):
    both(lambda lib: data(lib).default_collate(batch))
    both(lambda lib: data(lib).default_convert(batch))
    kinds = {type(data(lib).default_collate(batch)).__name__ for lib in (rl, torch)}
    assert len(kinds) == 1


def test_composed_datasets():
    def run(lib):
        d = data(lib)
        joined = d.ConcatDataset([pairs(lib), pairs(lib)])
        stacked = d.StackDataset(a=pairs(lib), b=range(10))
        chained = d.ChainDataset([stream(lib), stream(lib)])
        return [joined[-1], joined[12], stacked[3], d.Subset(joined, [11, 0])[1], [*chained]]

    both(run)


def test_samplers():
    d = rl.utils.data
    assert list(d.SequentialSampler(range(3))) == [0, 1, 2]
    assert sorted(d.RandomSampler(range(5), num_samples=10)) == sorted([*range(5)] * 2)
    assert set(d.RandomSampler(range(2), replacement=True, num_samples=40)) == {0, 1}
    assert sorted(d.SubsetRandomSampler([7, 9])) == [7, 9]
    assert set(d.WeightedRandomSampler([0.0, 1.0], 5)) == {1}
    assert list(d.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(d.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]


def test_random_splits():
    parts = rl.utils.data.random_split(range(10), [0.25, 0.25, 0.5])
    assert [len(part) for part in parts] == [3, 2, 5]
    assert sorted(i for part in parts for i in part) == list(range(10))


def test_workers_are_announced_to_do_nothing_once():
    loader._warned = False
    with pytest.warns(UserWarning, match="num_workers"):
        rl.utils.data.DataLoader(range(3), num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.utils.data.DataLoader(range(3), num_workers=2)


@pytest.mark.parametrize(
    "build",
    [
        lambda lib: data(lib).DataLoader(range(3), num_workers=-1),
        lambda lib: data(lib).DataLoader(range(3), batch_size=0),
        lambda lib: data(lib).DataLoader(range(3), shuffle=True, sampler=[1]),
        lambda lib: data(lib).DataLoader(range(3), batch_size=2, batch_sampler=[[1]]),
        lambda lib: data(lib).DataLoader(range(3), batch_size=None, drop_last=True),
        lambda lib: data(lib).DataLoader(range(3), timeout=-1),
        lambda lib: data(lib).DataLoader(range(3), persistent_workers=True),
        lambda lib: data(lib).DataLoader(stream(lib), shuffle=True),
        lambda lib: setattr(data(lib).DataLoader(range(3)), "batch_size", 2),
        lambda lib: data(lib).TensorDataset(lib.ones(1), lib.ones(2)),
        lambda lib: data(lib).ConcatDataset([]),
        lambda lib: data(lib).random_split(range(3), [1, 1]),
        lambda lib: data(lib).WeightedRandomSampler([[1.0]], 1),
        lambda lib: data(lib).default_collate([[1], [1, 2]]),
    ],
)
def test_messages_are_pytorchs(build):
    both_raise(build)


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_share_a_dataset(drop_last):
    options = {"shuffle": False, "drop_last": drop_last}

    def shares(lib):
        kind = data(lib).DistributedSampler
        return [list(kind(range(10), 4, rank, **options)) for rank in range(4)]

    both(shares)
    kind = rl.utils.data.DistributedSampler
    shuffled = [i for r in range(2) for i in kind(range(10), 2, r, seed=3)]
    assert sorted(shuffled) == list(range(10))


@pytest.mark.parametrize("size", [0, 1, 5, 8])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_can_visit_every_sample_exactly_once(size, shuffle):
    kind = rl.utils.data.DistributedSampler
    shares = [kind(range(size), 3, rank, shuffle=shuffle, even=False) for rank in range(3)]
    assert sorted(i for share in shares for i in share) == list(range(size))
    assert [len(list(share)) for share in shares] == [len(share) for share in shares]


class _Words(rl.utils.data.Dataset):
    """Samples whose making depends on how long the word is."""

    def __init__(self, words, width=8):
        self.words, self.width = words, width

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        word = rl.tensor(self.words[index], dtype=rl.long)
        x = rl.zeros(self.width, dtype=rl.long)
        x[1 : 1 + len(word)] = word
        return x


class _Spoken(rl.utils.data.IterableDataset):
    """Such samples as a stream; wider, so that no path is known from the other test."""

    def __init__(self, words):
        self.words = _Words(words, width=9)

    def __iter__(self):
        return (self.words[i] for i in range(len(self.words)))


def _edges_after_each_step(batches):
    edges = []
    for batch in batches:
        scale = rl.ones(batch.shape[1], requires_grad=True)
        loss = (batch * scale).exp().mean()
        loss.backward()
        assert rl.isfinite(loss).item()
        edges.append(local.trace.edges)
    return edges


@pytest.mark.parametrize("kind", [_Words, _Spoken])
def test_steps_on_samples_of_varied_making_record_nothing_new(kind):
    lengths = [1, 2, 3, 4, 5, 6, 1, 2]
    once = [[1] * n for n in lengths]
    ever_new = [[2] * n for n in (6, 3, 2, 5, 1, 4, 4, 4, 2, 6, 6, 1, 5, 5, 3, 3)]
    loader = rl.utils.data.DataLoader(kind(once + once + ever_new), batch_size=4)
    edges = _edges_after_each_step(loader)
    assert len(edges) == 8
    assert edges[2:] == [edges[2]] * 6


def test_samples_that_require_grad_keep_their_graph():
    weight = rl.ones(3, requires_grad=True)

    class Scaled(rl.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return weight * index

    for batch in rl.utils.data.DataLoader(Scaled(), batch_size=2):
        batch.sum().backward()
    assert weight.grad.tolist() == [6.0, 6.0, 6.0]
