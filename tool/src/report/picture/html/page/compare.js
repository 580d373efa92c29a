// Which tensors of two graphs are each other: by name, and those without their own name by their place between the
// others.

// A name that ggml gives to nodes without one, by number.
const NUMBERED = /^(node|leaf)_\d+( \(.*\))?$/;
// More pairs take too long to weigh; then tensors without a name are not matched.
const MOST_PAIRS = 1e8;
// The weights of pairs: matched by name, alike but for their shape, and alike.
const BY_NAME = 8, SAME_OPERATION = 2, SAME_SHAPE = 3;

function isNamed(graph, id) {
  const name = graph.tensors.name[id];
  return tells(name) && !NUMBERED.test(name);
}

// By tensor of `after`, the tensor of `before` that it is, or -1; both in the order of time, as planned.
function aligned(before, after) {
  const mates = new Int32Array(after.count).fill(-1);
  matchNames(before, after, mates);
  if (before.planned.length * after.planned.length <= MOST_PAIRS) matchPlaces(before, after, mates);
  return mates;
}

// Tensors with the same name and operation match in order: the first of one graph with the first of the other, and so
// on.
function matchNames(before, after, mates) {
  const waiting = new Map();
  const key = (graph, id) => `${graph.op(id)} ${graph.tensors.name[id]}`;
  for (const id of before.planned) if (isNamed(before, id)) append(waiting, key(before, id), id);
  for (const id of after.planned) {
    const found = isNamed(after, id) ? waiting.get(key(after, id))?.shift() : undefined;
    if (found !== undefined) mates[id] = found;
  }
}

// The keys by which tensors are compared, as numbers: their own names as they are matched, operation and type, and
// shape.
function traits(graph, numbers) {
  const number = (text) => {
    if (!numbers.has(text)) numbers.set(text, numbers.size);
    return numbers.get(text);
  };
  const { planned } = graph;
  return {
    ids: planned,
    named: Uint8Array.from(planned, (id) => (isNamed(graph, id) ? 1 : 0)),
    operation: Int32Array.from(planned, (id) => number(`${graph.op(id)} ${graph.type(id)}`)),
    shape: Int32Array.from(planned, (id) => number(graph.shape(id))),
  };
}

// The heaviest way to pair both sequences in order gives mates to tensors without a name.
function matchPlaces(before, after, mates) {
  const numbers = new Map();
  const [one, other] = [traits(before, numbers), traits(after, numbers)];
  const rowOf = new Map(Array.from(one.ids, (id, row) => [id, row]));
  // By column, the row that is its mate by name, or -1.
  const mateOf = Int32Array.from(other.ids, (id) => (mates[id] < 0 ? -1 : rowOf.get(mates[id])));
  const ways = waysToPair(one, other, mateOf);
  const columns = other.ids.length;
  for (let row = one.ids.length - 1, column = columns - 1; row >= 0 && column >= 0;) {
    const way = ways[row * columns + column];
    if (way === PAIR) mates[other.ids[column]] = one.ids[row];
    if (way !== SKIP_COLUMN) row -= 1;
    if (way !== SKIP_ROW) column -= 1;
  }
}

const SKIP_ROW = 1, SKIP_COLUMN = 2, PAIR = 3;

// By pair, where its best way comes from. Millions of pairs are weighed: nothing is called or made for one.
function waysToPair(one, other, mateOf) {
  const [rows, columns] = [one.ids.length, other.ids.length];
  const { named, operation, shape } = other;
  const ways = new Uint8Array(rows * columns);
  // The weight of the best way to each column, in the row before and in this one.
  let last = new Int32Array(columns + 1), sums = new Int32Array(columns + 1);
  for (let row = 0; row < rows; row += 1) {
    const [isNamedRow, rowOperation, rowShape] = [one.named[row], one.operation[row], one.shape[row]];
    for (let column = 0; column < columns; column += 1) {
      let weight = 0;
      if (isNamedRow || named[column]) weight = mateOf[column] === row ? BY_NAME : 0;
      else if (rowOperation === operation[column]) weight = rowShape === shape[column] ? SAME_SHAPE : SAME_OPERATION;
      let most = last[column + 1], way = SKIP_ROW;
      if (sums[column] > most) {
        most = sums[column];
        way = SKIP_COLUMN;
      }
      if (weight && last[column] + weight >= most) {
        most = last[column] + weight;
        way = PAIR;
      }
      sums[column + 1] = most;
      ways[row * columns + column] = way;
    }
    [last, sums] = [sums, last];
  }
  return ways;
}

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
