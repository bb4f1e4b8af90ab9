"""The speaker against one that works path by path and word by word at full feature width."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from fedsuite.vln.data.dataset import join_houses, make_episodes
from fedsuite.vln.data.path_views import drop_features, path_views
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout
from fedsuite.vln.model.speaker import Speaker, SpeakerSizes, build_speaker

SIZES = SpeakerSizes(vocabulary=30, feature=8, angle=12, hidden=16, word=6)


@pytest.fixture
def speaker(prepared) -> Speaker:
    made = build_speaker(SIZES, seed=4)
    with torch.no_grad():  # larger weights than the default ones, so that words differ
        for p in made.parameters():
            p.mul_(2.5)
    return made


def lstm_by_hand(lstm, x, suffix=""):
    """Outputs [T, H] of one direction over x [T, I]."""
    p = dict(lstm.named_parameters())
    hidden = cell = torch.zeros(lstm.hidden_size)
    out = []
    for row in x if not suffix else x.flip(0):
        gates = p[f"weight_ih_l0{suffix}"] @ row + p[f"bias_ih_l0{suffix}"]
        gates = gates + p[f"weight_hh_l0{suffix}"] @ hidden + p[f"bias_hh_l0{suffix}"]
        i, f, g, o = gates.chunk(4)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        out.append(hidden)
    return torch.stack(out if not suffix else out[::-1])


def both_ways(lstm, x):
    return torch.cat([lstm_by_hand(lstm, x), lstm_by_hand(lstm, x, "_reverse")], 1)


def attend(attention, query, rows):
    weight = torch.softmax(rows @ (attention.query.weight @ query), 0)
    return torch.tanh(attention.output.weight @ torch.cat([weight @ rows, query]))


def plain_context(speaker, plain, sample):
    """Context [T, H] of one path."""
    view, panoramas, actions = sample.start_view, [], []
    for place, following in zip(sample.path, (*sample.path[1:], None), strict=True):
        panorama, choices, moves = plain.look(place, view)
        panoramas.append(panorama)
        actions.append(choices[[None, *(m[0] for m in moves)].index(following)])
        view = dict(moves).get(following, view)
    e = speaker.encoder
    moves = both_ways(e.lstm, torch.stack(actions))
    seen = [attend(e.attention, h, rows) for h, rows in zip(moves, panoramas, strict=True)]
    return both_ways(e.post_lstm, torch.stack(seen))


def plain_logits(speaker, plain, sample):
    """Logits [L - 1, V] of one sample, teacher-forced."""
    d, context = speaker.decoder, plain_context(speaker, plain, sample)
    hidden = lstm_by_hand(d.lstm, d.embedding.weight[torch.from_numpy(sample.tokens[:-1])])
    read = torch.stack([attend(d.attention, h, context) for h in hidden])
    return read @ d.to_words.weight.T + d.to_words.bias


def test_logits_loss_and_gradients_equal_the_plain_ones(speaker, plain, oak, world):
    samples = oak.samples["train"][:10]
    assert len({len(s.path) for s in samples}) > 1 and len({len(s.tokens) for s in samples}) > 1
    logits, target = speaker(
        path_views(world, samples), make_episodes(samples, world).tokens, NO_DROPOUT
    )
    wanted = torch.cat([plain_logits(speaker, plain, s) for s in samples])
    torch.testing.assert_close(logits, wanted)
    assert target.tolist() == [i for s in samples for i in s.tokens[1:]]
    names, weights = zip(*speaker.named_parameters(), strict=True)
    ours = torch.autograd.grad(cross_entropy(logits, target), weights)
    log_p = torch.log_softmax(wanted, 1)
    theirs = torch.autograd.grad(-log_p[torch.arange(len(target)), target].mean(), weights)
    for name, a, b in zip(names, ours, theirs, strict=True):
        assert b.any(), name
        if name == "decoder.embedding.weight":  # torch spares the padding's row, nobody reads it
            assert not a[0].any()
        torch.testing.assert_close(a, b, msg=lambda m, n=name: f"{n}: {m}")


def test_a_description_does_not_depend_on_what_else_is_in_the_batch(speaker, oak):
    world, samples = join_houses([oak]), sorted(oak.samples["train"], key=lambda s: len(s.path))
    together = speaker.encoder(path_views(world, samples), NO_DROPOUT)
    short = speaker.encoder(path_views(world, samples[:1]), NO_DROPOUT)
    count = len(samples[0].path)
    assert count < together.context.shape[1]
    torch.testing.assert_close(together.context[0, :count], short.context[0])
    assert not together.context[0, count:].any()
    assert together.padding[0].tolist() == [False] * count + [True] * (
        together.padding.shape[1] - count
    )


@pytest.mark.parametrize(
    ("feature", "count"),
    [(2048, 12_244_193), (512, 7_525_601), (640, 7_918_817), (1024, 9_098_465)],
)
def test_published_parameter_counts(feature, count):
    with torch.device("meta"):
        whole = Speaker(SpeakerSizes(992, feature, dead_layers=True))
        without = Speaker(SpeakerSizes(992, feature))
    size = sum(p.numel() for p in whole.parameters())
    assert size == count
    assert sum(p.numel() for p in whole.decoder.parameters()) == 3_192_033
    assert size - sum(p.numel() for p in without.parameters()) == 65_793


def test_dead_layers_never_get_a_gradient(oak):
    world, samples = join_houses([oak]), oak.samples["train"][:4]
    speaker = build_speaker(SpeakerSizes(30, 8, 12, 16, 6, dead_layers=True), 0)
    logits, target = speaker(
        path_views(world, samples), make_episodes(samples, world).tokens, NO_DROPOUT
    )
    cross_entropy(logits, target).backward()
    dead = {n.rpartition(".")[0] for n, p in speaker.named_parameters() if p.grad is None}
    assert dead == {"decoder.baseline.0", "decoder.baseline.2"}


def test_dropout_is_drawn_from_its_stream_alone(speaker, oak):
    world, samples = join_houses([oak]), oak.samples["train"][:6]
    tokens = make_episodes(samples, world).tokens

    def logits(seed):
        dropout = Dropout(0.5, 0.3, torch.Generator().manual_seed(seed))
        return speaker(drop_features(path_views(world, samples), dropout), tokens, dropout)[0]

    assert torch.equal(logits(1), logits(1)) and not torch.allclose(logits(1), logits(2))


def test_the_seed_alone_decides_the_weights():
    torch.manual_seed(1)
    want = torch.rand(1)
    torch.manual_seed(1)
    a, b, c = (build_speaker(SIZES, s) for s in (3, 3, 4))
    assert torch.equal(torch.rand(1), want)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.decoder.to_words.weight, c.decoder.to_words.weight)
    assert a.sizes == SIZES


@pytest.mark.parametrize("wrong", [{"angle": 6}, {"hidden": 5}])
def test_sizes_that_cannot_be_built_are_refused(wrong):
    with pytest.raises(ValueError, match="multiple of 4 and hidden size even"):
        SpeakerSizes(vocabulary=9, feature=4, **wrong)
