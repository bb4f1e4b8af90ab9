"""The shared-context attention has the gradient of ordinary automatic differentiation."""

import pytest
import torch

from fedsuite.vln.model.attention import SharedContext

B, L, H = 4, 5, 3


@pytest.fixture
def case():
    """Context, two queries [B, H] and [2, H], padding with rows of different length; float64."""
    g = torch.Generator().manual_seed(0)

    def leaf(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).requires_grad_()

    padding = torch.arange(L) >= torch.tensor([5, 2, 4, 1])[:, None]
    return leaf(B, L, H), leaf(B, H), leaf(2, H), padding


def plain_read(context, query, padding):
    scores = (context * query[:, None]).sum(2).masked_fill(padding, -torch.inf)
    return (torch.softmax(scores, 1)[:, :, None] * context).sum(1)


ROWS = torch.tensor([2, 0])


def shared_run(context, query, later, padding):
    """Three reads, each query made from the last answer; the last two on half the batch; context also used directly."""
    language = SharedContext(context, padding)
    first = language.read(query)
    second = language.read(query * 2 + first.sin())
    half = language.rows(ROWS)
    third = half.read(later + second[ROWS])
    return first, second, third, half.read(third) + language.context[ROWS, 0]


def plain_run(context, query, later, padding):
    first = plain_read(context, query, padding)
    second = plain_read(context, query * 2 + first.sin(), padding)
    third = plain_read(context[ROWS], later + second[ROWS], padding[ROWS])
    return first, second, third, plain_read(context[ROWS], third, padding[ROWS]) + context[ROWS, 0]


def test_values_and_gradients_equal_autograd(case):
    *leaves, padding = case
    got, want = shared_run(*leaves, padding), plain_run(*leaves, padding)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
    weights = [torch.randn_like(x) for x in want]

    def gradients(outputs):
        return torch.autograd.grad(
            sum((w * x).sum() for w, x in zip(weights, outputs, strict=True)), leaves
        )

    for a, b in zip(gradients(got), gradients(want), strict=True):
        torch.testing.assert_close(a, b)


def test_gradcheck(case):
    *leaves, padding = case
    assert torch.autograd.gradcheck(lambda *x: shared_run(*x, padding), leaves)


def test_reads_that_the_loss_does_not_use_add_nothing(case):
    context, query, _, padding = case
    language = SharedContext(context, padding)
    used, _unused = language.read(query), language.read(query * 3)
    (got,) = torch.autograd.grad(used.sum(), context)
    (want,) = torch.autograd.grad(plain_read(context, query, padding).sum(), context)
    torch.testing.assert_close(got, want)


def test_padding_is_never_read(case):
    context, query, _, padding = case
    mixed = SharedContext(context, padding).read(query)
    mixed.sum().backward()
    assert not context.grad[padding].any()
    changed = context.detach().clone()
    changed[padding] = 99.0
    torch.testing.assert_close(SharedContext(changed, padding).read(query), mixed)


def test_without_gradient_nothing_is_kept(case):
    context, query, _, padding = case
    with torch.no_grad():
        language = SharedContext(context, padding).rows(ROWS)
        assert not language.read(query[ROWS]).requires_grad
    frozen = SharedContext(context.detach(), padding)
    frozen.read(query).sum().backward()
    assert context.grad is None and query.grad is not None
