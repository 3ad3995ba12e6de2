"""What all reports have: one HTML file with its style, its tables and its charts."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from inturn.analysis.reports.charts import STYLE, Chart
from inturn.i18n import Texts

MAX_TABLE_ROWS: Final = 200
"""Rows of a table; JSON output has all of them."""
_STYLESHEET: Final = (
    ":root{color-scheme:light dark;--page:#fff;--ink:#1a1d21;--soft:#565d66;--line:#dfe3e8;--head:#f5f7f9;"
    "--less:#166534;--more:#9f1239;--link:#0369a1}@media(prefers-color-scheme:dark){:root{--page:#15181c;--ink:#eceff2;"
    "--soft:#a9b1ba;--line:#343a42;--head:#1d2126;--less:#86efac;--more:#fda4af;--link:#7dd3fc}}"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:64rem;padding:2rem 1.25rem 4rem;background:var(--page);"
    "color:var(--ink);font:16px/1.5 system-ui,sans-serif}h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}"
    "h2{font-size:1.2rem;margin:2.4rem 0 .5rem}p{margin:.4rem 0;max-width:46rem}.soft{color:var(--soft)}"
    ".wide{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-size:.92rem;"
    "font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--soft);padding:.2rem 0}"
    "th,td{padding:.35rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}"
    "th{background:var(--head);font-weight:600}thead th{vertical-align:bottom;white-space:normal}"
    "th:first-child,td:first-child{text-align:left}tbody th{background:none;font-weight:500;max-width:18rem;"
    "overflow:hidden;text-overflow:ellipsis}th.word,td.word{text-align:left}td.less{color:var(--less)}"
    "td.more{color:var(--more)}"
    "figure{margin:.8rem 0 1.6rem;overflow-x:auto}"
    "figure svg{width:100%;min-width:34rem;max-width:56rem;height:auto;display:block}"
    "figure button{margin-top:.4rem;font:inherit;font-size:.85rem;padding:.2rem .7rem;border:1px solid var(--line);"
    "border-radius:.4rem;background:var(--head);color:var(--ink);cursor:pointer}"
    "button:focus-visible,.wide:focus-visible{outline:2px solid var(--link);outline-offset:2px}"
    "footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.8rem;font-size:.85rem}"
    "@media print{figure button{display:none}body{max-width:none;padding:0}}"
)
_SAVE_SCRIPT: Final = (
    "for(const f of document.querySelectorAll('figure')){const b=document.createElement('button');b.type='button';"
    "b.textContent=document.body.dataset.save;b.setAttribute('aria-label',b.textContent+': '+"
    "f.querySelector('title').textContent);b.onclick=()=>{const s=f.querySelector('svg').cloneNode(true),"
    "y=document.createElementNS(s.namespaceURI,'style');y.textContent=document.getElementById('charts').textContent;"
    "s.prepend(y);const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([new XMLSerializer()"
    ".serializeToString(s)],{type:'image/svg+xml'}));a.download=f.id+'.svg';a.click();"
    "setTimeout(()=>URL.revokeObjectURL(a.href),1000)};f.append(b)}"
)
"""A button below each chart that saves it as a file; without scripts there is none, and all else is there."""


class Cell(NamedTuple):
    """A cell's text, and how it is meant: `less` is good news, `more` is bad, a `word` is no number."""

    text: str
    kind: str = ""


class Page(NamedTuple):
    """One report, ready to be written."""

    html: str
    charts: tuple[Chart, ...]


def render_page(
    texts: Texts, title: str, about: Iterable[str], sections: Iterable[str], charts: Sequence[Chart]
) -> Page:
    """The whole file."""
    lead = "".join(f"<p>{escape(item)}</p>" for item in about)
    html = (
        f'<!doctype html>\n<html lang="{texts.language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">'
        f'<title>{escape(title)}</title><style>{_STYLESHEET}</style><style id="charts">{STYLE}</style></head>'
        f'<body data-save="{escape(texts.text("page_save"))}"><main><h1>{escape(title)}</h1>{lead}'
        f'{"".join(sections)}</main><footer class="soft">{escape(texts.text("page_made"))}</footer>'
        f"<script>{_SAVE_SCRIPT}</script></body></html>\n"
    )
    return Page(html, tuple(charts))


def section(heading: str, *parts: str) -> str:
    """A part of the page under its heading."""
    return f"<section><h2>{escape(heading)}</h2>{''.join(parts)}</section>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def figure(chart: Chart) -> str:
    """A chart in its place."""
    return f'<figure id="{chart.name}">{chart.svg()}</figure>'


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> str:
    """A table whose first column names the rows; it scrolls by itself where the screen is narrow."""
    words = {place for row in rows for place, item in enumerate(row) if isinstance(item, Cell) and item.kind == "word"}
    kinds = [' class="word"' if place in words else "" for place in range(len(headings))]
    head = "".join(f'<th scope="col"{kind}>{escape(item)}</th>' for kind, item in zip(kinds, headings, strict=True))
    body = "".join(f"<tr>{_row_heading(row[0])}{''.join(_cell(item) for item in row[1:])}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row_heading(cell: Cell | str) -> str:
    text = cell if isinstance(cell, str) else cell.text
    return f'<th scope="row" title="{escape(text)}">{escape(text)}</th>'


def _cell(cell: Cell | str) -> str:
    text, kind = (cell, "") if isinstance(cell, str) else cell
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"
