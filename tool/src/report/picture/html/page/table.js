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

// The table of tensors that are live at the peak, or at the pinned step, in all plans that are shown.

// The rows: { id, bytes, live: by plan { size, share, offset, chunk } or null }, one for each tensor and buffer.
function peakRows(plans) {
  const rows = new Map();
  plans.forEach((plan, index) => {
    for (const buffer of plan.buffers) {
      const { step } = listedStep(plan, buffer);
      for (const span of plan.liveAt(buffer, step)) {
        const id = plan.tensor[span], key = `${id} ${buffer.id}`;
        const row = rows.get(key) || { id, buffer: buffer.name, live: plans.map(() => null) };
        row.live[index] = { size: plan.size_[span], share: plan.size_[span] / buffer.live[step], offset: plan.offset[span], chunk: plan.chunk[span] };
        rows.set(key, row);
      }
    }
  });
  for (const row of rows.values()) row.size = Math.max(...row.live.map((live) => (live ? live.size : 0)));
  return [...rows.values()];
}

// The columns of every table of tensors.
function tensorColumns(graph) {
  return [
    { title: "tensor", text: ({ id }) => shortened(nameWithOrigin(graph, id), 60), value: ({ id }) => nameWithOrigin(graph, id), tensor: ({ id }) => [graph, id] },
    { title: "operation", text: ({ id }) => graph.op(id), value: ({ id }) => graph.op(id) },
    { title: "type", text: ({ id }) => graph.type(id), value: ({ id }) => graph.type(id) },
    { title: "shape", text: ({ id }) => graph.shape(id), value: ({ id }) => graph.shape(id) },
  ];
}

function isKept(graph, id) {
  return graph.has(id, OUTPUT) || graph.keepers(id).plans.length > 0;
}

// The step of the last use, or that a tensor is kept to the end: by all plans, or by some.
function lastStep(graph, id) {
  const { plans, areAll } = graph.keepers(id);
  if (graph.has(id, OUTPUT) || areAll) return "end";
  const last = graph.lastUse(id) < 0 ? "never" : String(graph.lastUse(id));
  return plans.length ? `${last}; end, ${plans.map((plan) => plan.label).join(", ")}` : last;
}

function peakColumns(graph, plans, hasBuffers) {
  const number = (title, text, value) => ({ title, isNumber: true, text, value });
  const ofPlan = (plan, index) => {
    const live = (row) => row.live[index];
    const name = plans.length > 1 ? `, ${plan.label}` : "";
    const hasChunks = plan.buffers.some((buffer) => buffer.chunks.length > 1);
    const offset = (row) => `${formatNumber(live(row).offset)}${hasChunks ? ` in chunk ${live(row).chunk + 1}` : ""}`;
    return [
      number(`share${name}`, (row) => (live(row) ? formatShare(live(row).share, 1) : "not live"), (row) => (live(row) ? live(row).share : 0)),
      number(`offset${name}`, (row) => (live(row) ? offset(row) : ""), (row) => (live(row) ? live(row).offset : -1)),
    ];
  };
  const step = (title, of) => number(title, (row) => (of(row.id) < 0 ? "" : String(of(row.id))), (row) => of(row.id));
  return [...tensorColumns(graph),
    number("bytes", (row) => formatBytes(row.size), (row) => row.size),
    ...plans.flatMap(ofPlan),
    step("defined", (id) => graph.time(id)),
    number("last use", (row) => lastStep(graph, row.id), (row) => (isKept(graph, row.id) ? graph.steps : graph.lastUse(row.id))),
    ...(hasBuffers ? [{ title: "buffer", text: (row) => row.buffer, value: (row) => row.buffer }] : []),
    ...(graph.bands.length ? [{ title: bandWord(graph), text: (row) => blockName(graph, row.id), value: (row) => Number(blockName(graph, row.id)) || blockName(graph, row.id) }] : []),
  ];
}

// A line for each plan and buffer: the live bytes, and how they compare.
function peakTotals(plans) {
  return plans.flatMap((plan) => plan.buffers.map((buffer) => {
    const { step, isPeak } = listedStep(plan, buffer);
    const name = plan.buffers.length > 1 ? `, ${buffer.name}` : "";
    const live = `${formatBytes(buffer.live[step])} live in ${plan.liveAt(buffer, step).length} tensors`;
    return `${plan.label}${name}: ${live} at ${isPeak ? "the peak, " : ""}step ${step}, of a buffer of ${formatBytes(buffer.size)}`;
  }));
}

function peakTable() {
  const plans = shownPlans().filter((plan) => plan.graph === state.graph);
  const { graph } = state;
  const hasBuffers = plans.some((plan) => plan.buffers.length > 1);
  const keeps = (row, text) => keepsTensor(graph, row.id, text);
  return { table: new DataTable(peakColumns(graph, plans, hasBuffers), peakRows(plans), { name: "peak", sortedBy: 4, keeps }), notes: peakTotals(plans) };
}

// The part of the page below the maps, which shows a table.

let openTable = "";

const TABLES = {
  peak: { title: "Live at the peak", make: peakTable },
  comparison: { title: "What grew, and what went", make: comparisonTable },
};

// Opens a table, or closes it if it is open; "" closes.
function showTable(name) {
  openTable = name === openTable || (name === "comparison" && !state.comparison) ? "" : name;
  refreshTable();
  // Not the field: the keys go on working.
  if (openTable) element("tables").querySelector(".scroll").focus({ preventScroll: true });
  rememberView();
}

function refreshTable() {
  const room = element("tables");
  element("show-table").setAttribute("aria-pressed", String(openTable === "peak"));
  element("show-comparison").setAttribute("aria-pressed", String(openTable === "comparison"));
  if (openTable === "comparison" && !state.comparison) openTable = "";
  room.hidden = !openTable;
  if (!openTable) {
    room.replaceChildren();
    return;
  }
  const { title, make } = TABLES[openTable];
  const { table, notes } = make();
  if (room.table && room.table.name === table.name) table.continueFrom(room.table);
  const isElsewhere = openTable === "peak" && !shownPlans().every((plan) => plan.buffers.every((buffer) => listedStep(plan, buffer).isPeak));
  room.replaceChildren(node("h2", {}, isElsewhere ? `Live at step ${state.pin}` : title, button("Close", () => showTable(""), { class: "link" })),
    ...notes.map((note) => node("p", { class: "note" }, note)), ...table.parts);
  room.table = table;
}
