// Which tensors of two graphs are each other: by name, and those without a name of their own by their place between the others.

// A name that ggml gives to nodes without one, by number.
const NUMBERED = /^(node|leaf)_\d+( \(.*\))?$/;
// More pairs take too long to weigh; then tensors without a name are not matched.
const MOST_PAIRS = 6e7;
// What pairs weigh: matched by name, alike but for their shape, and alike.
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

// Of tensors with one name and operation, the first of one graph is the first of the other, and so on.
function matchNames(before, after, mates) {
  const waiting = new Map();
  const key = (graph, id) => `${graph.op(id)} ${graph.tensors.name[id]}`;
  for (const id of before.planned) if (isNamed(before, id)) append(waiting, key(before, id), id);
  for (const id of after.planned) {
    const found = isNamed(after, id) ? waiting.get(key(after, id))?.shift() : undefined;
    if (found !== undefined) mates[id] = found;
  }
}

// What tensors are compared by, as numbers: names of their own as they are matched, operation and type, and shape.
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
  const [rows, columns] = [one.ids.length, other.ids.length];
  const weight = (row, column) => {
    if (one.named[row] || other.named[column]) return mates[other.ids[column]] === one.ids[row] ? BY_NAME : 0;
    if (one.operation[row] !== other.operation[column]) return 0;
    return one.shape[row] === other.shape[column] ? SAME_SHAPE : SAME_OPERATION;
  };
  // By pair, where its best way comes from: 1 leaves out the row, 2 the column, 3 pairs them.
  const ways = new Uint8Array(rows * columns);
  let last = new Int32Array(columns + 1), sums = new Int32Array(columns + 1);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const heavy = weight(row, column);
      const paired = heavy ? last[column] + heavy : -1;
      const most = Math.max(paired, last[column + 1], sums[column]);
      sums[column + 1] = most;
      ways[row * columns + column] = most === paired ? 3 : most === last[column + 1] ? 1 : 2;
    }
    [last, sums] = [sums, last];
  }
  for (let row = rows - 1, column = columns - 1; row >= 0 && column >= 0;) {
    const way = ways[row * columns + column];
    if (way === 3) mates[other.ids[column]] = one.ids[row];
    if (way !== 2) row -= 1;
    if (way !== 1) column -= 1;
  }
}

