// The graphs and their plans, from the data of the page.

// A line for the data that the page needs at once, then one for each graph, which is read when the graph is first
// shown.
let LINES = document.getElementById("data").textContent.split("\n");
const DATA = JSON.parse(LINES[0]);
const SHARING = { OWN: 0, IN_PLACE: 1, INSIDE: 2, KEPT: 3 };
// Added to the way in which a retained tensor shares memory.
const RETAINED = 4;
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

  // The plans that keep a tensor to the end though no later step uses it, such as one whose value is never read; and whether all do.
  keepers(id) {
    const isLast = this.lastUse(id) >= this.steps - 1;
    const keeps = (plan) => plan.spanOf(id) >= 0 && plan.visibleUntil[plan.spanOf(id)] >= this.steps;
    const plans = isLast ? [] : this.plans.filter(keeps);
    return { plans, areAll: plans.length > 0 && plans.length === this.plans.length };
  }
}

class Plan {
  constructor(raw, graph) {
    Object.assign(this, { graph, label: raw.label, size: raw.size, note: raw.note, buffers: raw.buffers });
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
    const ways = column(Uint8Array, 9);
    this.sharing = ways.map((way) => way % RETAINED);
    // By rectangle: 1 if the tensor is retained, and this plan keeps it as long.
    this.retained = ways.map((way) => (way >= RETAINED ? 1 : 0));
    // By rectangle: the bytes below it in its map, whose bottom is the end of the chunk where the map is turned over.
    this.below = this.offset.map((offset, span) => {
      const { chunks, turned } = this.buffers.find((buffer) => buffer.id === this.buffer[span]);
      return turned[this.chunk[span]] ? chunks[this.chunk[span]] - offset - this.size_[span] : offset;
    });
    this.spansOf = new Map();
    this.blocks = new Map();
    for (let span = 0; span < count; span += 1) {
      if (this.sharing[span] === SHARING.KEPT) continue;
      append(this.spansOf, this.tensor[span], span);
      append(this.blocks, `${this.buffer[span]} ${this.block[span]}`, span);
    }
    this.atPeak = new Map(this.buffers.map((buffer) => [buffer.id, this.liveAt(buffer, buffer.peaks.length ? buffer.peaks[0][0] : -1)]));
    this.bySize = [...this.tensor.keys()].filter((span) => this.sharing[span] !== SHARING.KEPT);
    this.bySize.sort((one, other) => this.size_[other] - this.size_[one] || this.start[one] - this.start[other]);
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

  // Whether a map of it is upside down.
  isTurned() {
    return this.buffers.some((buffer) => buffer.turned.includes(true));
  }

  // The buffer that takes the most.
  largest() {
    return this.buffers.reduce((most, buffer) => (!most || buffer.size > most.size ? buffer : most), null);
  }
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

// Layers and repeated blocks on the time axis, where names tell them: "ffn_gate-12", "blk.12.ffn_up.weight".

// A stray run of nodes inside a block is no longer than this.
const STRAY = 3;
// With more runs for each block, names do not tell where a block begins and ends.
const MOST_RUNS = 3;
// With fewer nodes in a block, numbers in names count something else.
const LEAST_NODES = 3;
// Words for a layer in names of weights, which need not be repeated on the axis.
const LAYER_WORDS = new Set(["blk", "layers", "layer", "h", "model.layers", "model.blk", "transformer.h"]);

// The block that a name tells: a number for a layer, or words and a number; empty if it tells none.
function blockOf(name) {
  const layer = /(?:-|_l)(\d{1,4})(?= |$)/.exec(name);
  if (layer) return layer[1];
  const block = /^((?:[A-Za-z_]\w*\.)*?(?:\w*(?:blk|blocks?|layers?|stages?)|h))\.(\d{1,4})(?=\.|$)/.exec(name);
  if (!block) return "";
  return LAYER_WORDS.has(block[1]) ? block[2] : `${block[1]}.${block[2]}`;
}

// The block of a node: by its name, or by that of the first weight that it reads.
function blockOfNode(graph, id) {
  const own = blockOf(graph.tensors.name[id]);
  if (own) return own;
  for (const source of graph.tensors.sources[id]) {
    const told = graph.step(source) < 0 ? blockOf(graph.tensors.name[source]) : "";
    if (told) return told;
  }
  return "";
}

// The blocks by time, as { name, start, end }; none if names do not tell at least two of them.
function bandsOf(graph) {
  const bands = [];
  graph.nodeAt.forEach((id, step) => {
    const name = id < 0 ? "" : blockOfNode(graph, id);
    if (!name) return;
    const [before, last] = bands.slice(-2).length === 2 ? bands.slice(-2) : [null, bands[0]];
    if (last && last.name === name) {
      last.end = step + 1;
    } else if (before && before.name === name && last.end - last.start <= STRAY) {
      bands.pop();
      before.end = step + 1;
    } else {
      bands.push({ name, start: step, end: step + 1 });
    }
  });
  const count = new Set(bands.map((band) => band.name)).size;
  if (count < 2 || bands.length > MOST_RUNS * count) return [];
  if (bands[bands.length - 1].end - bands[0].start < LEAST_NODES * bands.length) return [];
  // Nodes without a block belong to the one before them.
  bands.slice(0, -1).forEach((band, index) => { band.end = bands[index + 1].start; });
  return bands;
}

// What the blocks are called.
function bandWord(graph) {
  return graph.bands.every((band) => /^\d+$/.test(band.name)) ? "layer" : "block";
}

// The name of the block of a tensor; empty if names tell none.
function blockName(graph, id) {
  return graph.step(id) < 0 ? "" : bandAt(graph, graph.step(id))?.name || "";
}

// The block at a step; null before the first and after the last.
function bandAt(graph, step) {
  return graph.bands.find((band) => band.start <= step && step < band.end) || null;
}
