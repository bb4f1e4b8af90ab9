"""The text network against the published network written plainly: N_w rows, full width, two-dimensional convolutions."""

import copy
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d

from fedsuite.fedrl.text2action.text_cnn import TextCNN
from fedsuite.fedrl.text2action.text_weights import xavier_bound
from fedsuite.fedrl.text2action.views import TextTable, TextView, records_at
from fedsuite.fedrl.text2action.window_search import first_best, groups, tag_patterns

SomeRole = Literal["alpha", "beta", "full"]
CASES: list[tuple[SomeRole, bool]] = [
    ("alpha", False), ("beta", False), ("beta", True), ("full", False), ("full", True)
]  # fmt: skip
HEIGHTS = (2, 3, 4, 5)
MAX_WORDS = 24


def texts(
    lengths: tuple[int, ...] = (
        1,
        4,
        9,
        MAX_WORDS - 3,
        MAX_WORDS,
        2,
        13,
        MAX_WORDS - 1,
        MAX_WORDS - 5,
    ),
    arguments: bool = False,
    max_words: int = MAX_WORDS,
    words: int = 100,
    num_tags: int = 37,
) -> TextTable:
    """Random samples of the given lengths."""
    rng = np.random.default_rng(7)
    longest = max(lengths)
    real = np.arange(longest) < np.array(lengths)[:, None]
    vectors = rng.standard_normal((words, 50)).astype(np.float32) * 0.3
    vectors[0] = 0
    shape = (len(lengths), longest)
    return TextTable(
        pos_ids=rng.integers(1, num_tags, shape) * real,
        word_ids=rng.integers(0, words, shape) * real,
        lengths=np.array(lengths),
        action_index=rng.integers(0, np.array(lengths) + 2) if arguments else None,
        max_words=max_words,
        word_vectors=vectors,
        num_tags=num_tags,
    )


def states(
    table: TextTable, count: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sample rows, words decided and words selected of random states."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.arange(count) % len(table.lengths))
    positions = rng.integers(0, table.lengths[rows] + 1)
    return rows, positions, rng.random((count, table.longest)) < 0.4


def inputs(
    table: TextTable, state: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[torch.Tensor, ...]:
    """The same states as the network's inputs."""
    view = TextView(table, "full", np.arange(len(table.lengths)), envs=1)
    return view.inputs(records_at(view.table, *state))


class Published(nn.Module):
    """The published network, its 50 equal components each with a weight of its own."""

    def __init__(self, table: TextTable, net: TextCNN) -> None:
        """Weights of `net`; those of equal components differ, but their mean is the folded weight."""
        super().__init__()
        self.table, self.role = table, net.role
        self.arguments = table.action_index is not None and net.role != "alpha"
        self.embedding = (
            None if net.pos_embedding is None else nn.Parameter(net.pos_embedding.detach().clone())
        )
        self.filters, start = nn.ParameterList(), 0
        for height in HEIGHTS:
            taps = net.taps[start : start + height * 32].detach()
            tag = net.tag_taps[start : start + height * 32].detach()
            start += height * 32
            parts = [] if self.role == "alpha" else [taps[:, :50]]
            parts += [spread(taps[:, 50])] if self.arguments else []
            parts += [] if self.embedding is None else [taps[:, -50:]]
            parts.append(spread(tag))
            window = torch.cat(parts, 1).view(height, 32, -1)
            self.filters.append(nn.Parameter(window.permute(1, 0, 2).unsqueeze(1).contiguous()))
        self.bias = nn.Parameter(net.bias.detach().clone())
        self.hidden, self.output = copy.deepcopy(net.hidden), copy.deepcopy(net.output)

    def matrix(self, row: int, position: int, selected: np.ndarray) -> torch.Tensor:
        """One state [N_w, width], word by word."""
        table, lines = self.table, []
        for t in range(table.max_words):
            inside = t < table.lengths[row]
            word = int(table.word_ids[row, t]) if inside else 0
            parts = []
            if self.role != "alpha":
                parts.append(torch.from_numpy(table.word_vectors[word]).to(self.bias.dtype))
            if self.arguments:
                apart = abs(t - int(table.action_index[row])) if inside else 0
                parts.append(torch.full((50,), float(apart), dtype=self.bias.dtype))
            if self.embedding is not None:
                parts.append(self.embedding[int(table.pos_ids[row, t]) if inside else 0])
            tag = 0.0 if t >= position else 2.0 if selected[t] else 1.0
            parts.append(torch.full((50,), tag, dtype=self.bias.dtype))
            lines.append(torch.cat(parts))
        return torch.stack(lines)

    def forward(
        self, rows: np.ndarray, positions: np.ndarray, selected: np.ndarray
    ) -> torch.Tensor:
        """Q-values [B, 2]."""
        states = zip(rows, positions, selected, strict=True)
        x = torch.stack([self.matrix(*state) for state in states]).unsqueeze(1)
        pooled = []
        for i, weight in enumerate(self.filters):
            responses = torch.relu(conv2d(x, weight, self.bias[32 * i : 32 * i + 32]))
            pooled.append(max_pool2d(responses, (responses.shape[2], 1)).flatten(1))
        return self.output(torch.relu(self.hidden(torch.cat(pooled, 1))))

    def folded(self, gradients: bool = False) -> dict[str, torch.Tensor]:
        """Weights in the names and shapes of TextCNN: means of equal components; of gradients, sums."""

        def values(p: nn.Parameter) -> torch.Tensor:
            return (p.grad if gradients else p).detach()

        def fold(block: torch.Tensor) -> torch.Tensor:
            return block.sum(1, keepdim=True) if gradients else block.mean(1, keepdim=True)

        taps, tags = [], []
        for weight in self.filters:
            w = values(weight)[:, 0].transpose(0, 1).flatten(0, 1)
            blocks = w.split(50, 1)
            parts = [fold(b) if self.arguments and i == 1 else b for i, b in enumerate(blocks[:-1])]
            taps.append(torch.cat(parts, 1))
            tags.append(fold(blocks[-1])[:, 0])
        found = {"taps": torch.cat(taps), "tag_taps": torch.cat(tags), "bias": values(self.bias)}
        if self.embedding is not None:
            found["pos_embedding"] = values(self.embedding)
        for name in ("hidden", "output"):
            layer = getattr(self, name)
            found |= {f"{name}.weight": values(layer.weight), f"{name}.bias": values(layer.bias)}
        return found


def spread(means: torch.Tensor) -> torch.Tensor:
    """50 different weights [n, 50] with the given means [n]."""
    generator = torch.Generator().manual_seed(11)
    noise = torch.empty(len(means), 50).uniform_(-0.05, 0.05, generator=generator).to(means.dtype)
    return means.unsqueeze(1) + noise - noise.mean(1, keepdim=True)


def pair(
    role: SomeRole, arguments: bool, double: bool = False
) -> tuple[TextTable, TextCNN, Published]:
    """A table, the fast network and its slow twin."""
    table = texts(arguments=arguments)
    net = TextCNN(table, role, torch.Generator().manual_seed(3))
    net = net.double() if double else net
    return table, net, Published(table, net)


@pytest.mark.parametrize(("role", "arguments"), CASES)
def test_outputs_and_gradients_are_the_published_networks(role: SomeRole, arguments: bool) -> None:
    """Texts of 1, N_w - 5, N_w - 3, N_w - 1 and N_w words among them; with and without gradients."""
    table, net, twin = pair(role, arguments)
    state = states(table, 27)
    wanted, found = twin(*state), net(*inputs(table, state))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(net(*inputs(table, state)), wanted, rtol=0, atol=1e-5)
    slopes = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(5))
    (wanted * slopes).sum().backward()
    (found * slopes).sum().backward()
    gradients = twin.folded(gradients=True)
    assert gradients.keys() == dict(net.named_parameters()).keys()
    for name, parameter in net.named_parameters():
        scale = float(gradients[name].abs().max())
        assert scale > 0
        torch.testing.assert_close(
            parameter.grad, gradients[name], rtol=0, atol=1e-5 * max(scale, 1)
        )


@pytest.mark.slow
@pytest.mark.parametrize(("role", "arguments"), CASES)
def test_adam_takes_the_published_networks_way(role: SomeRole, arguments: bool) -> None:
    """20 steps at the published rate of 1e-3, in float64: only Adam's eps can tell folded from unfolded weights."""
    table, net, twin = pair(role, arguments, double=True)
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (net, twin)]
    start = {k: v.clone() for k, v in net.state_dict().items()}
    targets = torch.randn(9, 2, generator=torch.Generator().manual_seed(6)).double() * 10
    for step in range(20):
        state = states(table, 9, seed=step)
        for optimizer, values in zip(
            optimizers, (net(*inputs(table, state)), twin(*state)), strict=True
        ):
            optimizer.zero_grad()
            (values - targets).square().sum().backward()
            optimizer.step()
    for name, value in twin.folded().items():
        found = net.state_dict()[name]
        assert (found - start[name]).abs().max() > 5e-3
        torch.testing.assert_close(found, value, rtol=0, atol=1e-6)


def test_all_500_rows_of_the_published_size() -> None:
    """Two short texts in N_w = 500 rows: cropping leaves nothing out."""
    table = texts(lengths=(30, 7), max_words=500)
    net = TextCNN(table, "full", torch.Generator().manual_seed(0))
    state = states(table, 2)
    wanted = Published(table, net)(*state)
    torch.testing.assert_close(net(*inputs(table, state)), wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("role", "arguments"), CASES)
def test_a_records_values_do_not_depend_on_its_batch(role: SomeRole, arguments: bool) -> None:
    """More windows than are looked at in one go, against one record at a time, in both ways of computing."""
    table = texts(lengths=(90, 3, 55, 100, 71), arguments=arguments, max_words=102, words=300)
    net = TextCNN(table, role, torch.Generator().manual_seed(1))
    state = states(table, 200)
    rows, tags = inputs(table, state)
    together = net(rows, tags)
    with torch.no_grad():
        alone = torch.cat([net(rows[i : i + 1], tags[i : i + 1]) for i in range(200)])
        torch.testing.assert_close(net(rows, tags), alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(together.detach(), alone, rtol=0, atol=1e-5)
    assert net(rows[:0], tags[:0]).shape == (0, 2)


@pytest.mark.parametrize(
    ("role", "arguments", "count"),
    [
        ("alpha", False, 63_548), ("beta", False, 61_698), ("beta", True, 84_098),
        ("full", False, 85_948), ("full", True, 108_348),
    ],
)  # fmt: skip
def test_sizes_are_the_published_ones(role: SomeRole, arguments: bool, count: int) -> None:
    """With 37 parts of speech, PAD included; the twin has as many weights as is said."""
    _, net, twin = pair(role, arguments)
    folded = net.taps.numel() + net.tag_taps.numel()
    others = sum(p.numel() for p in net.parameters()) - folded
    assert others + len(net.taps) * net.layout.width == count
    assert count == sum(p.numel() for p in twin.parameters())


def test_first_weights() -> None:
    """Distributions of the unfolded network, folded; the generator decides alone."""
    table = texts(arguments=True)
    before = torch.random.get_rng_state()
    net = TextCNN(table, "full", torch.Generator().manual_seed(2))
    assert torch.equal(before, torch.random.get_rng_state())
    again = TextCNN(table, "full", torch.Generator().manual_seed(2))
    other = TextCNN(table, "full", torch.Generator().manual_seed(4))
    for name, value in net.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        if "bias" in name:
            assert torch.all(value == torch.tensor(0.1))
        else:
            assert not torch.equal(value, other.state_dict()[name])
    start = 0
    for height in HEIGHTS:
        window = height * 200
        bound = xavier_bound(window, 32 * window)
        part = slice(start, start + 32 * height)
        start += 32 * height
        words = net.taps[part, :50].detach()
        assert 0.98 * bound < float(words.abs().max()) <= bound
        assert float(words.std()) == pytest.approx(bound / 3**0.5, rel=0.05)
        for folded in (net.taps[part, 50].detach(), net.tag_taps[part].detach()):
            assert float(folded.std()) == pytest.approx(bound / 150**0.5, rel=0.35)
    assert 0.19 < float(net.hidden.weight.detach().abs().max()) <= 0.2
    assert float(net.pos_embedding.detach().abs().max()) <= xavier_bound(37, 50)


def test_state_is_parameters_only_and_can_be_copied() -> None:
    """Texts do not travel with the weights; a copy says the same; fused Adam takes all parameters."""
    table = texts()
    net, target = (TextCNN(table, "full", torch.Generator().manual_seed(s)) for s in (0, 1))
    assert set(net.state_dict()) == {n for n, _ in net.named_parameters()}
    batch = inputs(table, states(table, 8))
    target.load_state_dict(net.state_dict())
    assert torch.equal(net(*batch), target(*batch))
    assert torch.equal(net(*batch), copy.deepcopy(net)(*batch))
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    net(*batch).square().sum().backward()
    optimizer.step()
    assert not torch.equal(net(*batch), target(*batch))


def test_same_bytes_twice() -> None:
    """Training twice from the same generator ends in the same weights."""
    ends = []
    for _ in range(2):
        table = texts(words=300)
        net = TextCNN(table, "full", torch.Generator().manual_seed(0))
        optimizer = torch.optim.Adam(net.parameters(), fused=True)
        for step in range(5):
            optimizer.zero_grad()
            net(*inputs(table, states(table, 32, seed=step))).square().sum().backward()
            optimizer.step()
        ends.append({k: v.numpy().tobytes() for k, v in net.state_dict().items()})
    assert ends[0] == ends[1]


def test_the_first_best_window_is_found() -> None:
    """Against argmax, ties included; a response that is not a number breaks nothing."""
    generator = torch.Generator().manual_seed(0)
    responses = torch.randn(20, 31, 5, generator=generator)
    responses[:10] = responses[:10].round()  # many ties
    wanted = responses.numpy().argmax(axis=1)
    assert np.array_equal(first_best(responses.clone()).numpy(), wanted)
    responses[0, 3] = float("nan")
    assert int(first_best(responses)[0].max()) < 31


def test_groups_and_patterns() -> None:
    """All records once, in order, few windows at a time; a pattern's row is its tags in base 3, first tag lowest."""
    lengths = [1, 2, 2, 5, 9, 30, 31]
    found = list(groups(lengths, at_once=20))
    assert [i for first, last in found for i in range(first, last)] == list(range(7))
    assert all((b - a) * (lengths[b - 1] + 1) <= 20 or b - a == 1 for a, b in found)
    assert len(found) < 7
    assert tag_patterns(3)[1 + 2 * 3 + 0 * 9].tolist() == [1.0, 2.0, 0.0]


def test_what_cannot_be_built_is_refused() -> None:
    """Texts shorter than the highest filter."""
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(ValueError, match="max-words: expected at least 5"):
        TextCNN(texts(lengths=(3,), max_words=4), "alpha", generator)
