// Two graphs compared: what grew, and what went.

const FATES = ["grew", "new", "gone", "shrank", "unchanged"];

class Comparison {
  constructor(before, after) {
    Object.assign(this, { before, after, isShown: true });
    this.toBefore = aligned(before, after);
    this.toAfter = new Int32Array(before.count).fill(-1);
    this.toBefore.forEach((id, own) => { if (id >= 0) this.toAfter[id] = own; });
    const peaks = [before, after].map(peakTensors);
    this.rows = [
      ...after.planned.map((id) => ({ before: this.toBefore[id], after: id })),
      ...before.planned.filter((id) => this.toAfter[id] < 0).map((id) => ({ before: id, after: -1 })),
    ].map((row) => this.filled(row, peaks));
    this.changed = [before, after].map((graph) => new Set(this.rows.filter(({ fate }) => fate !== "unchanged")
      .map((row) => (graph === before ? row.before : row.after)).filter((id) => id >= 0)));
  }

  filled({ before, after }, peaks) {
    const bytes = [before < 0 ? 0 : this.before.bytes(before), after < 0 ? 0 : this.after.bytes(after)];
    const change = bytes[1] - bytes[0];
    const fate = before < 0 ? "new" : after < 0 ? "gone" : change > 0 ? "grew" : change < 0 ? "shrank" : "unchanged";
    const atPeak = [before >= 0 && peaks[0].has(before) ? "before" : "", after >= 0 && peaks[1].has(after) ? "after" : ""];
    return { before, after, bytes, change, fate, atPeak: atPeak.filter(Boolean).join(" and ") };
  }

  changedIn(graph) {
    return this.changed[graph === this.before ? 0 : 1];
  }

  // The graph and the number of a row's tensor.
  tensorOf(row) {
    return row.after >= 0 ? [this.after, row.after] : [this.before, row.before];
  }

  // The earlier state of a tensor of the shown graph.
  fateOf(id) {
    const row = this.rows.find((other) => other.after === id);
    if (!row || row.before < 0) return "not there";
    return row.change === 0 ? "as large" : `${formatBytes(row.bytes[0])}: it ${row.fate} by ${formatBytes(Math.abs(row.change))}`;
  }

  // By fate: how many tensors, and the sum of their changes.
  sums() {
    return FATES.map((fate) => {
      const rows = this.rows.filter((row) => row.fate === fate);
      return { fate, count: rows.length, change: rows.reduce((sum, row) => sum + row.change, 0) };
    }).filter(({ count }) => count > 0);
  }
}

// The tensors that are live at the peaks of the last plan.
function peakTensors(graph) {
  const plan = graph.plans[graph.plans.length - 1];
  return new Set(plan.buffers.flatMap((buffer) => plan.liveAt(buffer, highestStep(buffer.live)).map((span) => plan.tensor[span])));
}

function formatSigned(bytes) {
  return bytes === 0 ? "0" : `${bytes < 0 ? "−" : "+"}${formatBytes(Math.abs(bytes))}`;
}

function comparisonLines({ before, after }, sums) {
  const sizes = after.plans.map((plan) => {
    const was = before.plans.find((other) => other.label === plan.label);
    return was ? `${plan.label}: ${formatBytes(was.size)}, now ${formatBytes(plan.size)} (${formatChange(was.size, plan.size)})` : "";
  });
  const fates = sums.map(({ fate, count, change }) => `${count} ${fate}${change ? ` (${formatSigned(change)})` : ""}`);
  return [...sizes.filter(Boolean), `Tensors: ${fates.join(", ")}`];
}

function comparisonSummary(comparison) {
  const largest = comparison.rows.filter(({ change }) => change !== 0).sort((one, other) => Math.abs(other.change) - Math.abs(one.change)).slice(0, 8);
  const item = (row) => node("li", {}, node("span", { class: `fate ${row.fate}` }, row.fate), link(...comparison.tensorOf(row)),
    node("span", { class: "note" }, formatSigned(row.change)));
  return [node("h2", {}, `Compared with ${shortened(comparison.before.label, 120)}`),
    ...comparisonLines(comparison, comparison.sums()).map((line) => node("p", { class: "note" }, line)),
    node("h3", {}, largest.length ? "Largest changes" : "No tensor has another size"),
    node("ul", { class: "changes" }, ...largest.map(item)),
    node("p", {}, button("All of them, as a table (c)", () => showTable("comparison"), { class: "link" }))];
}

function comparisonColumns(comparison) {
  const { before, after } = comparison;
  const own = (of) => (row) => { const [graph, id] = comparison.tensorOf(row); return of(graph, id); };
  const number = (title, text, value) => ({ title, isNumber: true, text, value });
  const shape = (graph, id) => (id < 0 ? "" : graph.shape(id));
  return [
    { title: "tensor", text: own((graph, id) => shortened(nameWithOrigin(graph, id), 60)), value: own(nameWithOrigin), tensor: (row) => comparison.tensorOf(row) },
    { title: "operation", text: own((graph, id) => graph.op(id)), value: own((graph, id) => graph.op(id)) },
    { title: "what", text: ({ fate }) => fate, value: ({ fate }) => fate },
    { title: "shape before", text: (row) => shape(before, row.before), value: (row) => shape(before, row.before) },
    { title: "shape after", text: (row) => shape(after, row.after), value: (row) => shape(after, row.after) },
    number("before", ({ bytes, before: id }) => (id < 0 ? "" : formatBytes(bytes[0])), ({ bytes }) => bytes[0]),
    number("after", ({ bytes, after: id }) => (id < 0 ? "" : formatBytes(bytes[1])), ({ bytes }) => bytes[1]),
    { ...number("change", ({ change }) => formatSigned(change), ({ change }) => change), order: ({ change }) => Math.abs(change) },
    { title: "at the peak", text: ({ atPeak }) => atPeak, value: ({ atPeak }) => atPeak },
  ];
}

function comparisonTable() {
  const { comparison } = state;
  // The name of a fate is a filter too.
  const keeps = (row, text) => {
    const words = text.split(/\s+/);
    const fates = words.filter((word) => FATES.includes(word));
    return (!fates.length || fates.includes(row.fate)) && keepsTensor(...comparison.tensorOf(row), words.filter((word) => !FATES.includes(word)).join(" "));
  };
  const rows = comparison.rows.filter(({ fate }) => fate !== "unchanged");
  return { table: new DataTable(comparisonColumns(comparison), rows, { name: "comparison", sortedBy: 7, keeps }),
    notes: comparisonLines(comparison, comparison.sums()) };
}

