// The language of searches: words that must all match, "!" before one that must not.
//
//   attn_out        a part of a name            op:mul_mat   the operation
//   /ffn_(up|down)/ a regular expression        type:f16     the element type
//   size>8MiB       also <, <=, >=, =           kind:norm    the kind of operation, as in the legend
//   shape:4096      an extent, or "512 × 8"     layer:12     the layer or block

const FIELDS = {
  op: (graph, id, value) => graph.op(id).toLowerCase().includes(value),
  type: (graph, id, value) => graph.type(id).toLowerCase() === value,
  kind: (graph, id, value) => KINDS[graph.kind(id)].name.includes(value),
  shape: (graph, id, value) => (/^\d+$/.test(value) ? graph.tensors.shape[id].includes(Number(value))
    : graph.shape(id).replaceAll(" ", "") === value.replaceAll(/[x*,]/g, "×")),
  layer: (graph, id, value) => graph.step(id) >= 0 && bandAt(graph, graph.step(id))?.name === value,
};
const COMPARISONS = {
  "<": (one, other) => one < other, "<=": (one, other) => one <= other, "=": (one, other) => one === other,
  ">": (one, other) => one > other, ">=": (one, other) => one >= other,
};

// Returns { isEmpty, error, matches(graph, id) }; matches is false for all if there is an error.
function parseQuery(text) {
  // "size > 8 MiB" is one word.
  const joined = text.replace(/\b(size|bytes)\s*(<=|>=|<|>|=)\s*(\d[\d.]*)\s*([kmgtpe]?i?b?)(?=\s|$)/gi, "$1$2$3$4");
  const words = joined.match(/!?\/(?:\\.|[^/\\])+\/i?(?=\s|$)|\S+/g) || [];
  const tests = words.map((word) => {
    const isNot = word.length > 1 && word.startsWith("!");
    return { isNot, ...parseWord(isNot ? word.slice(1) : word) };
  });
  const error = tests.map((test) => test.error).find(Boolean) || "";
  const [wanted, unwanted] = [tests.filter((test) => !test.isNot), tests.filter((test) => test.isNot)];
  // A view is found with the owner of its memory.
  const candidates = (graph, id) => [id, ...(graph.viewsOf.get(id) || [])];
  const matches = (graph, id) => !error
    && candidates(graph, id).some((one) => wanted.every((test) => test.matches(graph, one)))
    && !unwanted.some((test) => test.matches(graph, id));
  return { isEmpty: words.length === 0, error, matches };
}

function parseWord(word) {
  const expression = /^\/((?:\\.|[^/\\])+)\/i?$/.exec(word);
  if (expression) return parseExpression(expression[1]);
  const size = /^(?:size|bytes)?(<=|>=|<|>|=)(\d.*)$/i.exec(word);
  if (size) {
    const bytes = parseBytes(size[2]);
    if (Number.isNaN(bytes)) return { error: `"${size[2]}" is not a size` };
    return { matches: (graph, id) => COMPARISONS[size[1]](graph.bytes(id), bytes) };
  }
  const [, key, value] = /^([a-z]+):(.+)$/i.exec(word.toLowerCase()) || [];
  if (key && Object.hasOwn(FIELDS, key)) return { matches: (graph, id) => FIELDS[key](graph, id, value) };
  const part = word.toLowerCase();
  return { matches: (graph, id) => graph.name(id).toLowerCase().includes(part) };
}

function parseExpression(source) {
  try {
    const expression = new RegExp(source, "i");
    return { matches: (graph, id) => expression.test(graph.name(id)) };
  } catch {
    return { error: `/${source}/ is not a regular expression` };
  }
}
