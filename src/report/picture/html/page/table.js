// A table that can be sorted, filtered and copied.

// More rows are shown on demand: thousands of them take long to lay out. Copies have them all.
const SHOWN_ROWS = 400;

// A column: { title, text(row), value(row), isNumber, order(row), tensor(row) }. `value` goes to CSV and sorts, unless
// there is an `order`; `tensor` is the link target, as [graph, id].
class DataTable {
  // `keeps(row, text)` filters; `name` is part of the name of a saved file.
  constructor(columns, rows, { name, sortedBy, keeps }) {
    Object.assign(this, { columns, rows, name, keeps, sortedBy, isDescending: true, limit: SHOWN_ROWS });
    this.filter = node("input", { type: "search", placeholder: "Filter  (words as in the search)", "aria-label": "Filter the table", spellcheck: "false" });
    this.filter.addEventListener("input", () => this.show());
    this.count = node("output", { class: "note", "aria-live": "polite" });
    this.body = node("tbody");
    this.heads = columns.map((column, at) => this.head(column, at));
    this.more = button("", () => { this.limit = Infinity; this.show(); }, { class: "link" });
    const table = node("table", {}, node("thead", {}, node("tr", {}, ...this.heads)), this.body);
    this.parts = [node("div", { class: "tools" }, this.filter, this.count,
      button("Copy as text", () => copyText(this.asText(), "Table")),
      button("Copy as CSV", () => copyText(this.asCsv(), "Table")),
      button("Save CSV", () => saveFile(`${fileName()}-${name}.csv`, new Blob([this.asCsv()], { type: "text/csv" })))),
    node("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, table), this.more];
    this.show();
  }

  head({ title, isNumber }, at) {
    const sort = button(title, () => this.sortBy(at), { class: "link" });
    return node("th", { scope: "col", ...(isNumber ? { class: "number" } : {}) }, sort);
  }

  // Numbers start with the largest, texts with the first.
  sortBy(at) {
    this.isDescending = this.sortedBy === at ? !this.isDescending : Boolean(this.columns[at].isNumber);
    this.sortedBy = at;
    this.show();
  }

  // Takes the filter and the order of a table that this one replaces.
  continueFrom(other) {
    const at = this.columns.findIndex(({ title }) => title === other.columns[other.sortedBy].title);
    if (at >= 0) Object.assign(this, { sortedBy: at, isDescending: other.isDescending });
    this.filter.value = other.filter.value;
    this.show();
  }

  // The rows that the filter keeps, sorted.
  kept() {
    const { value, order: key = value } = this.columns[this.sortedBy];
    const sign = this.isDescending ? -1 : 1;
    const order = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other)));
    const text = this.filter.value;
    return this.rows.filter((row) => this.keeps(row, text)).sort((one, other) => sign * order(key(one), key(other)));
  }

  show() {
    const kept = this.kept();
    this.heads.forEach((head, at) => {
      const direction = this.isDescending ? "descending" : "ascending";
      head.setAttribute("aria-sort", at === this.sortedBy ? direction : "none");
    });
    this.count.textContent = kept.length === this.rows.length ? `${kept.length} rows` : `${kept.length} of ${this.rows.length} rows`;
    this.body.replaceChildren(...kept.slice(0, this.limit).map((row) => node("tr", {}, ...this.columns.map((column) => this.cell(column, row)))));
    this.more.hidden = kept.length <= this.limit;
    this.more.textContent = `Show all ${kept.length} rows`;
  }

  cell(column, row) {
    const text = column.text(row);
    const tensor = column.tensor ? column.tensor(row) : null;
    const content = tensor ? link(...tensor) : text;
    return node("td", { ...(column.isNumber ? { class: "number" } : {}), ...(text.length > 24 ? { title: text } : {}) }, content);
  }

  // Columns that are aligned by spaces.
  asText() {
    const lines = [this.columns.map(({ title }) => title), ...this.kept().map((row) => this.columns.map(({ text }) => text(row)))];
    const widths = this.columns.map((_, at) => lines.reduce((width, line) => Math.max(width, line[at].length), 0));
    const padded = (text, at) => (this.columns[at].isNumber ? text.padStart(widths[at]) : text.padEnd(widths[at]));
    return lines.map((line) => line.map(padded).join("  ").trimEnd()).join("\n") + "\n";
  }

  // Sizes are numbers of bytes.
  asCsv() {
    const quoted = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
    const lines = [this.columns.map(({ title }) => title), ...this.kept().map((row) => this.columns.map(({ value }) => value(row)))];
    return lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  }
}

// Whether a tensor matches a search in a table, and passes the legend's filter.
function keepsTensor(graph, id, text) {
  // A table asks for each of its rows.
  if (keepsTensor.text !== text) Object.assign(keepsTensor, { text, query: parseQuery(text) });
  return (!graph.passing || graph.passing[id] === 1) && keepsTensor.query.matches(graph, id);
}

