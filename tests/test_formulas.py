"""Formulas of the pages: LaTeX becomes MathML, code stays, and what cannot be read ends the build."""

import re
from xml.etree import ElementTree

import pytest
from markdown import markdown

from docs.formulas import FormulaError, set_formulas
from tests.harness import ROOT

PAGES = sorted(
    path.name for path in (ROOT / "docs").glob("*.md") if "$`" in path.read_text("utf-8")
)
MATH = re.compile(r"<math.*?</math>", re.DOTALL)


def test_a_formula_in_a_sentence_stays_in_it() -> None:
    made = markdown(set_formulas("The rate\n$`\\eta_k * a`$, as *it* is."))
    assert made.startswith("<p>The rate\n<span><math") and made.endswith("as <em>it</em> is.</p>")
    assert "".join(ElementTree.fromstring(MATH.findall(made)[0]).itertext()) == "ηk*a"


def test_a_formula_by_itself_is_a_block() -> None:
    made = markdown(set_formulas("before\n\n```math\n\\sum_j A_{ij}\n\\theta_j\n```\n\nafter"))
    assert re.fullmatch(
        r'<p>before</p>\n<div class="formula"><math.*display="block".*</div>\n\n?<p>after</p>', made
    )
    assert "".join(ElementTree.fromstring(MATH.findall(made)[0]).itertext()) == "∑jAijθj"


def test_code_stays() -> None:
    text = "```sh\necho $`x`$\n```\n\n    echo $`y`$\n\nwords `$z$`\n"
    assert set_formulas(text) == text


@pytest.mark.parametrize("latex", ["a^", "\\left( a", "\\nosuchthing x"])
def test_what_is_no_formula_is_named(latex: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(repr(latex))):
        set_formulas(f"a $`{latex}`$")


@pytest.mark.parametrize("page", PAGES)
def test_every_formula_of_a_page_is_set(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    made = markdown(set_formulas(text), extensions=["tables"])
    found = MATH.findall(made)
    assert len(found) == text.count("$`") + text.count("```math")
    for formula in found:
        ElementTree.fromstring(formula)


def test_pages_of_the_systems_have_formulas() -> None:
    assert {"cdl.md", "cdl-mixing.md", "fedrl.md", "fedvln.md"} <= set(PAGES)
