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

