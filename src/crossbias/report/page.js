// Sort a table by the column whose header button is pressed: highest first, then lowest first.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const valueOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const compare = (a, b) =>
    a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : a.localeCompare(b);
  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const numbers = head.classList.contains("number");
      const first = numbers ? "descending" : "ascending";
      const second = numbers ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? second : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [valueOf(a, column), valueOf(b, column)];
        if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // no number: always last
        return sign * compare(x, y);
      });
      body.append(...rows);
    });
  });
}
// What is folded on the screen is printed unfolded.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
// What takes much room is folded on a phone.
if (matchMedia("(max-width: 40rem)").matches) {
  for (const details of document.querySelectorAll("details.roomy")) details.open = false;
}
// A link into a folded section unfolds it.
const unfold = () => {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  for (let each = found; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  if (found) found.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
