"""The HTML page of an audit: verdict, findings, charts (decision).

Text in, text out.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import Any, Final

from analytics.report.chart import Chart
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
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; }
  .verdict { background: #1b241c; } .verdict.found { background: #2a1c1c; }
  td, th { border-color: #444; }
}
"""
START: Final = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const figures = JSON.parse(document.getElementById("figures").textContent);
// Without the button that sends a chart to a server of plotly's makers.
const config = {
  displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
};
function draw() {
  const font = { color: getComputedStyle(document.body).color };
  figures.forEach(({ data, layout }, number) => Plotly.react(
    `chart-${number}`, data, { ...layout, font }, config));
}
dark.addEventListener("change", draw);
draw();
"""
"""Draws the charts, and again when the browser turns to dark or light."""


def render_page(
    verdict: Verdict,
    findings: Sequence[dict[str, Any]],
    charts: Sequence[Chart],
    library: str,
) -> str:
    """Return the page, which needs no other file and no network.

    `library` is the JavaScript of plotly. The browser runs no other script than this one and
    START, so that text of a log cannot become one.
    """
    kind = "verdict" if verdict.is_clean else "verdict found"
    title = f"Audit: {verdict.audit}"
    scripts = (library, START) if charts else ()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        f'<p class="{kind}">{"<br>".join(map(escape, verdict.lines()))}</p>'
        f"{_findings(findings)}<h2>Charts</h2>{_charts(charts)}"
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
    )


def _policy(scripts: Sequence[str]) -> str:
    digests = (sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _charts(charts: Sequence[Chart]) -> str:
    if not charts:
        return "<p>This audit has no figures to draw.</p>"
    places = "".join(
        f"<figure><figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="chart" id="chart-{number}"></div></figure>'
        for number, chart in enumerate(charts)
    )
    # Within a script, browsers look for tags, and for nothing else.
    figures = json.dumps([chart.figure for chart in charts]).replace("<", "\\u003c")
    return (
        "<noscript><p>The charts need JavaScript; verdict.json has their figures.</p></noscript>"
        f'{places}<script type="application/json" id="figures">{figures}</script>'
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
