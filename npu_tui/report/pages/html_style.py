"""How the page of a report looks and sorts; it loads nothing from anywhere."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2126; --faint: #5c6670; --line: #d5dae0; --card: #f5f7f9;
  --high: #b3261e; --medium: #8a5a00; --low: #2d5d8a; --info: #5c6670; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #dde3e8; --faint: #94a0aa; --line: #333b43;
  --card: #1d2227; --high: #ff8a80; --medium: #ffc766; --low: #8ec1f0; --info: #94a0aa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 82rem; padding: 1.5rem; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, "Noto Sans CJK SC", sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
code, td.name { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .92em;
  overflow-wrap: anywhere; }
p, li { overflow-wrap: anywhere; }
.faint { color: var(--faint); } .verdict { font-size: 1.05rem; font-weight: 600; margin: .2rem 0; }
.scroll { overflow-x: auto; } .scroll svg { display: block; width: 100%; height: auto; }
.whole { white-space: nowrap; }
.swatch { display: inline-block; width: 1.2em; height: .8em; margin: 0 .3em 0 .9em; vertical-align: baseline; }
a { color: inherit; } svg a:focus-visible, svg a:hover rect, td a:focus-visible { outline: 2px solid var(--low); }
svg .tip { fill: transparent; } svg .tip:hover { stroke: var(--text); }
summary { cursor: pointer; } summary h3 { display: inline; } summary:focus-visible { outline: 2px solid var(--low); }
details:target { outline: 2px solid var(--low); }
.bar { display: flex; height: 1.2rem; margin: .6rem 0; border: 1px solid var(--line); }
.bar span { display: block; height: 100%; } .computing { background: #4f8f5b; } .exposed { background: #7a6fb3; }
.free { background: repeating-linear-gradient(135deg, transparent 0 4px, var(--faint) 4px 5px); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top; }
th { white-space: nowrap; } th.number, td.number { text-align: right; white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible { outline: 2px solid var(--low); }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
article, details { background: var(--card); border-left: 4px solid var(--info); margin: .8rem 0; padding: .7rem 1rem; }
.high { border-color: var(--high); } .medium { border-color: var(--medium); }
.low { border-color: var(--low); } :is(article, details) :is(p, ul, ol) { margin: .3rem 0; }
th button::after { content: " \\2195"; opacity: .5; }
th[aria-sort] button::after { opacity: 1; }
@media screen and (max-width: 40rem) { body { padding: .8rem; }
  .scroll table, .scroll tbody, .scroll tr { display: block; }
  .scroll thead tr { display: flex; flex-wrap: wrap; } .scroll th { border: 0; padding: .1rem .6rem .1rem 0; }
  .scroll tbody tr { border-bottom: 1px solid var(--line); padding: .3rem 0; }
  .scroll td { display: flex; gap: .6rem; border: 0; padding: 0; text-align: left; white-space: normal; min-width: 0; }
  .scroll td::before { content: attr(data-head); color: var(--faint); flex: 0 0 7.5rem; } }
@media print { :root { --back: #fff; --text: #000; --faint: #444; --line: #bbb; --card: #fff; }
  body { max-width: none; padding: 0; font-size: 10pt; } tr, svg { break-inside: avoid; }
  article { break-inside: avoid; }
  tbody tr:nth-child(n+16), .screen { display: none; } .more { display: block; } th button::after { content: ""; }
  summary { list-style: none; } details:not(.high) > :not(summary):not(p) { display: none; }
  h2, h3 { break-after: avoid; } .scroll { overflow: visible; }
  svg, .bar span { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
.more { display: none; }
"""

SCRIPT = """
const show = () => {
  const place = document.getElementById(location.hash.slice(1));
  if (place && place.tagName === "DETAILS") place.open = true;
};
window.addEventListener("hashchange", show);
window.addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
show();
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const number = head.classList.contains("number");
      const down = head.ariaSort ? head.ariaSort === "ascending" : number;
      heads.forEach(each => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = row => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const unknown = row => number && row.cells[column].dataset.sort === undefined;
      const compare = (a, b) => "sort" in a.cells[column].dataset && "sort" in b.cells[column].dataset
        ? value(a) - value(b) : value(a).localeCompare(value(b));
      const rows = [...body.rows];
      rows.sort((a, b) => unknown(a) - unknown(b) || (down ? compare(b, a) : compare(a, b)));
      body.append(...rows);
    });
  });
}
"""
