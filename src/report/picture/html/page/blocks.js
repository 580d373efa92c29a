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

// The block at a step; null before the first and after the last.
function bandAt(graph, step) {
  return graph.bands.find((band) => band.start <= step && step < band.end) || null;
}
