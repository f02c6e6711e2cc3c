const show = () => {
  const place = document.getElementById(location.hash.slice(1));
  if (place && place.tagName === "DETAILS") place.open = true;
};
window.addEventListener("hashchange", show);
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
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
      heads.forEach(other => other.removeAttribute("aria-sort"));
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
