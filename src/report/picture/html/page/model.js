// The graphs and their plans, from the data of the page.

// A line for the data that the page needs at once, then one for each graph, which is read when the graph is first
// shown.
const LINES = document.getElementById("data").textContent.split("\n");
const DATA = JSON.parse(LINES[0]);
const SHARING = { OWN: 0, IN_PLACE: 1, INSIDE: 2, KEPT: 3 };
const INPUT = 1, OUTPUT = 2;

class Graph {
  constructor(raw) {
    this.label = raw.label;
    this.nodes = raw.nodes;
    this.steps = raw.steps;
    this.tensors = raw.tensors;
    this.count = raw.tensors.name.length;
    this.nodeAt = new Int32Array(this.steps).fill(-1);
    this.tensors.step.forEach((step, id) => { if (step >= 0) this.nodeAt[step] = id; });
    this.findReaders();
    this.findRetained();
    this.bands = bandsOf(this);
    // By tensor, whether the legend's filter lets it pass; null without a filter.
    this.passing = null;
    this.plans = raw.plans.map((plan) => new Plan(plan, this));
    this.planned = [...new Set(this.plans.flatMap((plan) => [...plan.spansOf.keys()]))];
    this.planned.sort((one, other) => this.time(one) - this.time(other) || one - other);
  }

  // A node that only makes a view reads nothing.
  findReaders() {
    const { sources, makesView } = this.tensors;
    this.readersOf = new Map();
    this.viewsOf = new Map();
    for (let id = 0; id < this.count; id += 1) {
      if (this.root(id) !== id) append(this.viewsOf, this.root(id), id);
      if (makesView[id]) continue;
      for (const source of new Set(sources[id].map((source) => this.root(source)))) append(this.readersOf, source, id);
    }
  }

  // By owner: the first step after the retention of it or of a view.
  findRetained() {
    this.retainedUntil = new Map();
    this.tensors.retained.forEach((until, id) => {
      if (until < -1) return;
      const end = until < 0 ? this.steps : until + 1;
      this.retainedUntil.set(this.root(id), Math.max(end, this.retainedUntil.get(this.root(id)) || 0));
    });
  }

  root(id) { return this.tensors.root[id] < 0 ? id : this.tensors.root[id]; }
  name(id) { return this.tensors.name[id] || `(no name, ${id})`; }
  op(id) { return this.tensors.ops[this.tensors.op[id]]; }
  kind(id) { return this.tensors.kind[id]; }
  type(id) { return this.tensors.types[this.tensors.type[id]]; }
  shape(id) { return this.tensors.shape[id].join(" × "); }
  bytes(id) { return this.tensors.bytes[id]; }
  step(id) { return this.tensors.step[id]; }
  retained(id) { return this.tensors.retained[id]; }
  has(id, flag) { return (this.tensors.flags[id] & flag) !== 0; }
  isExternal(id) { return this.tensors.external[this.root(id)] === 1; }
  time(id) { return this.has(id, INPUT) ? -1 : this.step(id); }

  // The owners that a node reads, each once, with the view that it reads through.
  sources(id) {
    const views = new Map();
    for (const source of this.tensors.sources[id]) {
      if (!views.has(this.root(source))) views.set(this.root(source), source);
    }
    return [...views].map(([root, source]) => ({ id: root, through: source === root ? -1 : source }));
  }

  readers(id) {
    const readers = this.readersOf.get(this.root(id)) || [];
    return readers.filter((reader) => reader !== id).sort((one, other) => this.step(one) - this.step(other));
  }

  // The origin of a tensor whose name has only the suffixes that ggml appends; empty where the name tells.
  origin(id) {
    if (!this.tensors.name[id] || tells(this.tensors.name[id])) return "";
    let at = id;
    // The limit is for files that claim a cycle.
    for (let count = 0; count < this.count && this.tensors.sources[at].length; count += 1) {
      at = this.tensors.sources[at][0];
      if (tells(this.tensors.name[at])) return this.tensors.name[at];
    }
    return "";
  }

  // The step of the last use; -1 without a use.
  lastUse(id) {
    return this.readers(id).reduce((last, reader) => Math.max(last, this.step(reader)), -1);
  }
}

class Plan {
  constructor(raw, graph) {
    Object.assign(this, { graph, label: raw.label, size: raw.size, buffers: raw.buffers });
    const count = raw.spans.length / 10;
    const column = (Type, at) => {
      const made = new Type(count);
      for (let index = 0; index < count; index += 1) made[index] = raw.spans[index * 10 + at];
      return made;
    };
    this.count = count;
    [this.tensor, this.buffer, this.chunk, this.block] = [0, 1, 2, 3].map((at) => column(Int32Array, at));
    [this.offset, this.size_] = [4, 5].map((at) => column(Float64Array, at));
    [this.start, this.end, this.visibleUntil] = [6, 7, 8].map((at) => column(Int32Array, at));
    this.sharing = column(Uint8Array, 9);
    this.spansOf = new Map();
    this.blocks = new Map();
    for (let span = 0; span < count; span += 1) {
      if (this.sharing[span] === SHARING.KEPT) continue;
      append(this.spansOf, this.tensor[span], span);
      append(this.blocks, `${this.buffer[span]} ${this.block[span]}`, span);
    }
    for (const buffer of this.buffers) buffer.size = buffer.chunks.reduce((sum, chunk) => sum + chunk, 0);
    for (const buffer of this.buffers) buffer.peaks = peaksOf(buffer);
    this.atPeak = new Map(this.buffers.map((buffer) => [buffer.id, this.liveAt(buffer, buffer.peaks.length ? buffer.peaks[0][0] : -1)]));
    this.bySize = [...this.tensor.keys()].filter((span) => this.sharing[span] !== SHARING.KEPT);
    this.bySize.sort((one, other) => this.size_[other] - this.size_[one] || this.start[one] - this.start[other]);
    // By rectangle: 1 if the tensor is retained, and this plan keeps it as long.
    this.retained = Uint8Array.from(this.tensor, (tensor, span) => {
      const until = graph.retainedUntil.get(tensor);
      return until !== undefined && this.sharing[span] !== SHARING.KEPT && this.visibleUntil[span] >= until ? 1 : 0;
    });
  }

  // The rectangles at a step of a buffer, the largest first.
  liveAt(buffer, step) {
    const isLive = (span) => this.buffer[span] === buffer.id && this.sharing[span] !== SHARING.KEPT
      && this.start[span] <= step && step < this.visibleUntil[span];
    return [...this.tensor.keys()].filter(isLive).sort((one, other) => this.size_[other] - this.size_[one]);
  }

  spanOf(tensor) {
    const spans = this.spansOf.get(tensor);
    return spans ? spans[0] : -1;
  }

  // The other tensors in the same block that share bytes with it, by time.
  sharers(span) {
    const low = this.offset[span], high = low + this.size_[span];
    const mates = this.blocks.get(`${this.buffer[span]} ${this.block[span]}`) || [];
    const touches = (mate) => this.offset[mate] < high && this.offset[mate] + this.size_[mate] > low;
    return mates.filter((mate) => mate !== span && touches(mate));
  }

  // The buffer that takes the most.
  largest() {
    return this.buffers.reduce((most, buffer) => (!most || buffer.size > most.size ? buffer : most), null);
  }

  bound() { return this.buffers.reduce((sum, buffer) => sum + buffer.bound, 0); }
}

// Whether a name has more than what ggml appends to the names of views and copies: " (reshaped) (cont)".
function tells(name) {
  return name.replace(/(\s*\([^()]*\))+\s*$/, "").trim() !== "";
}

function append(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

