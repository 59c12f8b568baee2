"""The HTML page of an audit: verdict, findings, charts (decision).

Text in, text out.
"""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from analytics.report.figures import draw_figures
from analytics.verdict import Verdict

MAX_LISTED: Final = 500
_COLUMNS: Final = (
    "severity",
    "check",
    "what",
    "topic",
    "partition",
    "file",
    "position",
    "offset",
    "expected",
    "found",
)
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1.5rem;
  max-width: 1100px; color: #222; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { padding: .8rem 1rem; border-left: 6px solid #2e7d32; background: #f2f8f2; }
.verdict.found { border-color: #c62828; background: #fdf3f3; }
table { border-collapse: collapse; font-size: 13px; }
td, th { padding: 3px 8px; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; }
td { overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { max-width: 100%; height: auto; } svg text { font: 12px monospace; fill: #333; }
.bar { fill: #90b4d8; } .part { fill: #2f5f93; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; } svg text { fill: #ccc; }
  .verdict { background: #1b241c; } .verdict.found { background: #2a1c1c; }
  td, th { border-color: #444; }
}
"""


def render_page(
    verdict: Verdict, findings: Sequence[dict[str, Any]], summaries: Sequence[dict[str, Any]]
) -> str:
    """Return the page, which needs no other file and no network."""
    kind = "verdict" if verdict.is_clean else "verdict found"
    title = f"Audit: {verdict.audit}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        f'<p class="{kind}">{"<br>".join(map(escape, verdict.lines()))}</p>'
        f"{_findings(findings)}<h2>Charts</h2>{draw_figures(summaries)}</body></html>\n"
    )


def _findings(findings: Sequence[dict[str, Any]]) -> str:
    if not findings:
        return "<h2>Findings</h2><p>None.</p>"
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(row[column])}</td>" for column in _COLUMNS) + "</tr>"
        for row in findings[:MAX_LISTED]
    )
    more = len(findings) - MAX_LISTED
    note = f"<p>findings.parquet lists {more} more.</p>" if more > 0 else ""
    return f"<h2>Findings</h2><table><tr>{head}</tr>{rows}</table>{note}"


def _cell(value: str | int | None) -> str:
    return "" if value is None else escape(str(value))
